# Two images, both static binaries on nothing:
#
#   docker build --target agent   -t IMAGE .   the node agent's pods: `nodecfg install --agent daemonset --image IMAGE`
#   docker build --target nodecfg -t IMAGE .   everything else, as a user without rights; the default
#
# docs/deploy.md explains why the one is root and the other is not.

# A tag, which is moved with each new patch: whoever releases an image pins the one that was tried, `rust:1.95-alpine@sha256:…`
# (`docker buildx imagetools inspect rust:1.95-alpine` shows it).
FROM rust:1.95-alpine AS build
# A C compiler, for ring, libgit2 and libssh2; what OpenSSL's build takes beside it (perl, make, linux-headers); busybox, for its
# nsenter.
RUN apk add --no-cache build-base busybox-static ca-certificates linux-headers perl
WORKDIR /src
COPY . .
# Rust's musl targets link statically. Of a binary that is not static, the last line makes no image.
RUN cargo build --release --locked --bin nodecfg \
    && cp target/release/nodecfg /nodecfg \
    && ! readelf --program-headers /nodecfg | grep -q INTERP \
    && mkdir /cache

FROM scratch AS agent
COPY --from=build /nodecfg /usr/bin/nodecfg
# busybox is what it is called as: in this image it is nsenter, and no shell.
COPY --from=build /bin/busybox.static /usr/bin/nsenter
# What nsenter starts is looked for on the host, by the same path.
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin
# Root, because the kubelet's files are; what root may do there, the pod's securityContext says.
USER 0:0
ENTRYPOINT ["/usr/bin/nodecfg"]

FROM scratch AS nodecfg
COPY --from=build /nodecfg /usr/bin/nodecfg
# For git servers, API servers and collectors whose certificates are signed by a public authority. OpenSSL was built with paths
# of the stage before, and is told by the variable; mount another bundle there, or name it, for an authority of your own.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
# The user has no home, and so no cache there.
COPY --from=build --chown=65532:65532 /cache /var/cache/nodecfg
ENV PATH=/usr/bin \
    SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    NODECFG_CACHE_DIR=/var/cache/nodecfg
USER 65532:65532
ENTRYPOINT ["/usr/bin/nodecfg"]
