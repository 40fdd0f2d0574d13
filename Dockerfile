# check=experimental=all

# `make image` builds it; by hand:
#
#	docker buildx build --build-arg VERSION=v0.1.0 --build-arg COMMIT="$(git rev-parse HEAD)" -t prebind .
#
# It needs BuildKit, which is in Docker 23 and later, but no frontend image.

# VERSION of prebind, such as v0.1.0
ARG VERSION=devel
# COMMIT of git that it is built from
ARG COMMIT=unknown
# CREATED is the commit's time by RFC 3339
ARG CREATED=1970-01-01T00:00:00Z

# build compiles on the machine's own processor, for whatever processor the image is for.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod \
    go mod download
COPY . .
ARG VERSION COMMIT
ARG TARGETOS TARGETARCH TARGETVARIANT
# The output is relative to /src, so that these lines can be tried without a container.
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    case "$TARGETARCH" in \
        amd64) export GOAMD64="${TARGETVARIANT:-v1}" ;; \
        arm) export GOARM="${TARGETVARIANT#v}" ;; \
    esac; \
    CGO_ENABLED=0 GOOS="$TARGETOS" GOARCH="$TARGETARCH" go build -trimpath \
        -ldflags "-s -w -X github.com/prebind/prebind/internal/version.release=$VERSION -X github.com/prebind/prebind/internal/version.commit=$COMMIT" \
        -o bin/prebind ./cmd/prebind

# No shell, no packages, no users. No CA certificates either: prebind trusts the cluster's CA and those in its configuration.
FROM scratch
COPY LICENSE /licenses/LICENSE
COPY --from=build /src/bin/prebind /prebind
ARG VERSION COMMIT CREATED
LABEL org.opencontainers.image.title="prebind" \
      org.opencontainers.image.description="A kube-scheduler extender that binds pods and their volumes" \
      org.opencontainers.image.source="https://github.com/prebind/prebind" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT" \
      org.opencontainers.image.created="$CREATED"
USER 65532:65532
# The extender's verbs by TLS, and health and metrics, as in the Helm chart.
EXPOSE 8443 8889
ENTRYPOINT ["/prebind"]
