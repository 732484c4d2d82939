# Image of the node agent. See webhook.Dockerfile. The first stage also installs a nightly compiler with rust-src and builds
# bpf-linker, which takes minutes: the kernel programs are part of the agent.
FROM docker.io/library/rust:1.95.0-bookworm AS build
ARG TARGETARCH
ARG PROFILE=dist
WORKDIR /source
COPY . .
RUN cargo xtask images --only agent --arch "$TARGETARCH" --profile "$PROFILE" --programs /out

FROM scratch
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="headroom-agent" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.licenses="Apache-2.0 AND (MIT OR GPL-2.0-only)" \
      org.opencontainers.image.source="https://headroom.sh"
COPY --from=build /out/headroom-agent /headroom-agent
# Root for the files of the cgroup mount; the manifest drops all capabilities but two.
USER 0:0
ENTRYPOINT ["/headroom-agent"]
