# Image of kubectl-headroom, for scripts in the cluster. See webhook.Dockerfile. The image has no CA certificates: the CA of the
# API server comes from the kubeconfig, and the CA of the webhook from --ca-file.
FROM docker.io/library/rust:1.95.0-bookworm AS build
ARG TARGETARCH
ARG PROFILE=dist
WORKDIR /source
COPY . .
RUN cargo xtask images --only cli --arch "$TARGETARCH" --profile "$PROFILE" --programs /out

FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="kubectl-headroom" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://headroom.sh"
COPY --from=build /out/kubectl-headroom /kubectl-headroom
USER 65532:65532
ENTRYPOINT ["/kubectl-headroom"]
