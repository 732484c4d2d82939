# Image of the sandbox container, which owns the namespaces of a test pod. The shell reaps processes that the pod leaves, and ends
# on SIGTERM. `cargo xtask images` passes Debian's static busybox as `build`.
FROM scratch
COPY --from=build /bin/busybox /bin/busybox
USER 65535:65535
ENTRYPOINT ["/bin/busybox", "sh", "-c", "trap 'exit 0' INT TERM; while :; do /bin/busybox sleep 1000000 & wait $!; done"]
