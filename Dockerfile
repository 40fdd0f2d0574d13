# docker build --build-arg VERSION=v0.1.0 --build-arg COMMIT=$(git rev-parse HEAD) -t prebind .
ARG BUILD_IMAGE=golang:1.26
ARG RUN_IMAGE=scratch

FROM ${BUILD_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=devel
ARG COMMIT=unknown
RUN CGO_ENABLED=0 go build -trimpath \
    -ldflags "-s -w -X github.com/prebind/prebind/internal/version.release=${VERSION} -X github.com/prebind/prebind/internal/version.commit=${COMMIT}" \
    -o /prebind ./cmd/prebind

FROM ${RUN_IMAGE}
COPY --from=build /prebind /prebind
USER 65532:65532
ENTRYPOINT ["/prebind"]
CMD ["serve", "--config", "/etc/prebind/config.yaml"]
