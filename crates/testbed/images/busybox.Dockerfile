# Image of test pods: Debian's static busybox, with a link for each of its commands. `cargo xtask images` passes both as `build`.
FROM scratch
COPY --from=build /bin/ /bin/
CMD ["/bin/sh"]
