# Targets for people; `make help` lists those with a ## comment.

SHELL       := /bin/bash -o pipefail
BIN         := $(CURDIR)/build/bin
MODULE      := github.com/prebind/prebind
# The module test/ is big: Kubernetes and etcd. The root module stays small.
# BuildKit and Prometheus do not go with Kubernetes, so there are two more.
MODULES     := . test test/dockerfile test/monitoring

VERSION     ?= $(shell git describe --tags --dirty 2>/dev/null || echo devel)
COMMIT      ?= $(shell git describe --always --abbrev=40 --match= --dirty 2>/dev/null || echo unknown)
LDFLAGS     := -s -w -X $(MODULE)/internal/version.release=$(VERSION) -X $(MODULE)/internal/version.commit=$(COMMIT)

# The commit's time: an image is not made a different one by being built again.
CREATED     ?= $(shell TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd 2>/dev/null)
EPOCH       ?= $(shell git log -1 --format=%ct 2>/dev/null)

IMAGE       ?= ghcr.io/prebind/prebind:$(VERSION)
PLATFORMS   ?=
PUSH        ?=
DOCKER      ?= docker
HELM        ?= $(firstword $(wildcard $(BIN)/helm-v4) helm)

LINT_VERSION := v2.15.0
LINT         := $(BIN)/golangci-lint-$(LINT_VERSION)

BENCHSTAT_VERSION := v0.0.0-20260908200009-22c9c6c9d4da
BENCHSTAT         := $(BIN)/benchstat-$(BENCHSTAT_VERSION)

# The Go benchmarks: which, how often, and how long each time.
BENCH       ?= .
COUNT       ?= 6
BENCHTIME   ?= 200ms
GO_BENCH_RUN = go test -run '^$$' -benchmem -count $(COUNT) -benchtime $(BENCHTIME) -timeout 60m -bench
# All: of cmd/prebind the filter call, the other one there measures memory.
GO_BENCH     = { $(GO_BENCH_RUN) '$(BENCH)' ./volumes ./server $(if $(filter .,$(BENCH)),&& $(GO_BENCH_RUN) FilterCall ./cmd/prebind); }

.DEFAULT_GOAL := help

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build build/bin/prebind, static and with its version, also as the plugin kubectl-prebind
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/prebind ./cmd/prebind
	ln -sf prebind $(BIN)/kubectl-prebind

.PHONY: test
test: test-unit test-image test-monitoring test-e2e ## Run all tests

.PHONY: test-unit
test-unit: ## Run the unit tests, with the race detector
	go test -race ./...

.PHONY: test-e2e
test-e2e: programs ## Run the end-to-end tests on a real control plane
	cd test && go test -p 1 -timeout 40m ./...

# Not from go test's cache: that does not look at files outside of the module.
.PHONY: test-image
test-image: ## Check the Dockerfile, and run its steps without a container engine
	cd test/dockerfile && go test -count=1 -timeout 20m ./...

# They read files outside of the module, too.
.PHONY: test-monitoring
test-monitoring: ## Check alerts, dashboard and the queries in docs with Prometheus' own code
	cd test/monitoring && go test -count=1 -timeout 10m ./...

# Each line is one test with more of what it does at random.
.PHONY: test-long
test-long: ## Run the randomised tests for longer: 100,000 cluster states and so on
	PREBIND_LONG=1 go test -count=1 -timeout 30m -v -run 'TestNoVolumeIsPromisedTwice|TestReservationsAreLinearizable|TestRandomSchedules|TestIndexChoosesAsAScanDoes' ./volumes
	cd test && go test -count=1 -v -timeout 30m -run TestPlansAgreeWithUpstream ./differential -rapid.checks=100000

.PHONY: programs
programs: ## Build etcd, the Kubernetes programs and prebind into build/bin (minutes, once)
	@cd test && go run ./cmd/programs

# What the demo and the benchmark run; the tests need prebind-race as well.
.PHONY: control-plane
control-plane:
	@cd test && go run ./cmd/programs etcd kube-apiserver kube-controller-manager kube-scheduler kubectl prebind

.PHONY: demo
demo: control-plane ## Bind real workloads on a real control plane and watch (ONCE=1: stop when done)
	@cd test && go build -o $(BIN)/demo ./cmd/demo && exec $(BIN)/demo

# What bench measures goes into docs/performance.md, with QUICK=1 into build/bench.
.PHONY: bench
bench: control-plane ## Compare with the stock scheduler, all figures of docs/performance.md (an hour; QUICK=1: minutes)
	@cd test && go build -o $(BIN)/bench ./cmd/bench && exec $(BIN)/bench all \
		$(if $(QUICK),-quick -out $(CURDIR)/build/bench,-out $(CURDIR)/docs/performance -page $(CURDIR)/docs/performance.md) \
		$(if $(ONLY),-only $(ONLY) -keep) $(if $(SEED),-seed $(SEED))

.PHONY: bench-latency
bench-latency: control-plane ## Compare the time from pod to bound with the stock scheduler's
	@cd test && go build -o $(BIN)/bench ./cmd/bench && exec $(BIN)/bench idle -variants stock,bind

.PHONY: bench-go
bench-go: $(BENCHSTAT) ## Run the Go benchmarks and compare with docs/performance/bench-go.txt (BENCH=Plan COUNT=6)
	$(GO_BENCH) | tee build/bench-go.txt
	$(BENCHSTAT) docs/performance/bench-go.txt build/bench-go.txt

.PHONY: bench-go-baseline
bench-go-baseline: ## Run the Go benchmarks and keep the figures for bench-go
	@mkdir -p docs/performance
	$(GO_BENCH) | tee build/bench-go.txt
	mv build/bench-go.txt docs/performance/bench-go.txt

.PHONY: bench-load
bench-load: programs ## Measure 5,000 calls at once (latency, memory a waiting call), drain and rolling restart
	cd test && go test -count=1 -v -timeout 20m -run 'TestOverload|TestDrain|TestRolling' ./load | grep -E '^(---|ok|FAIL|panic)|measured|_test.go'

.PHONY: chaos
chaos: programs ## Kill and disturb everything, then check (SEED=7 PODS=500 DURATION=3m DIRECT=1)
	@cd test && go build -o $(BIN)/chaos ./cmd/chaos && exec $(BIN)/chaos \
		$(if $(SEED),-seed $(SEED)) $(if $(PODS),-pods $(PODS)) $(if $(DURATION),-duration $(DURATION)) $(if $(DIRECT),-direct)

.PHONY: image
image: ## Build the container image (IMAGE=NAME, PLATFORMS=linux/amd64,linux/arm64, PUSH=1)
	@command -v $(DOCKER) >/dev/null || { echo 'make image: no program $(DOCKER) here; DOCKER=PROGRAM names another' >&2; exit 1; }
	@$(DOCKER) version >/dev/null 2>&1 || { echo 'make image: no engine answers; `$(DOCKER) version` tells why' >&2; exit 1; }
	@$(DOCKER) buildx version >/dev/null 2>&1 || { echo 'make image: $(DOCKER) is without its plugin buildx, which brings BuildKit' >&2; exit 1; }
	$(DOCKER) buildx build --tag $(IMAGE) $(if $(PLATFORMS),--platform $(PLATFORMS)) $(if $(PUSH),--push,--load) \
		--build-arg VERSION=$(VERSION) --build-arg COMMIT=$(COMMIT) \
		$(if $(CREATED),--build-arg CREATED=$(CREATED)) $(if $(EPOCH),--build-arg SOURCE_DATE_EPOCH=$(EPOCH)) .

# With a tag in git the chart has the image's version, else the one in Chart.yaml.
.PHONY: chart
chart: ## Package the Helm chart into build/
	@command -v $(HELM) >/dev/null || { echo 'make chart: no helm here; `make programs` builds one' >&2; exit 1; }
	$(HELM) package charts/prebind --destination build \
		$(if $(filter v%,$(VERSION)),--version $(VERSION:v%=%) --app-version $(VERSION:v%=%))

.PHONY: fmt
fmt: $(LINT) ## Format all Go files
	$(foreach m,$(MODULES),(cd $(m) && $(LINT) fmt --config $(CURDIR)/.golangci.yml ./...) &&) true

.PHONY: vet
vet: ## Run go vet
	$(foreach m,$(MODULES),(cd $(m) && go vet ./...) &&) true

.PHONY: lint
lint: $(LINT) ## Run golangci-lint (built from source the first time)
	$(foreach m,$(MODULES),(cd $(m) && $(LINT) run --config $(CURDIR)/.golangci.yml ./...) &&) true

.PHONY: verify
verify: $(LINT) vet lint ## Check what a reviewer would: format, vet, lint, tidy go.mod
	$(foreach m,$(MODULES),(cd $(m) && $(LINT) fmt --diff --config $(CURDIR)/.golangci.yml ./...) &&) true
	$(foreach m,$(MODULES),(cd $(m) && go mod tidy -diff) &&) true

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf build

$(LINT):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	mv $(BIN)/golangci-lint $@

$(BENCHSTAT):
	GOBIN=$(BIN) go install golang.org/x/perf/cmd/benchstat@$(BENCHSTAT_VERSION)
	mv $(BIN)/benchstat $@
