# Image of the admission webhook. The context is the repository:
#   docker build -f deploy/docker/webhook.Dockerfile --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse --short HEAD) .
# The first stage runs on the architecture of the image.
# `cargo xtask images` passes ready programs as build context `build`, which replaces the first stage.
FROM docker.io/library/rust:1.95.0-bookworm AS build
ARG TARGETARCH
ARG PROFILE=dist
WORKDIR /source
COPY . .
RUN cargo xtask images --only webhook --arch "$TARGETARCH" --profile "$PROFILE" --programs /out

FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="headroom-webhook" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://headroom.sh"
COPY --from=build /out/headroom-webhook /headroom-webhook
USER 65532:65532
ENTRYPOINT ["/headroom-webhook"]
