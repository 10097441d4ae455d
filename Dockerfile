# Two images: the agent's is a static binary on nothing, the reconciler's holds the programs that it runs beside it.
#
#   docker build --target agent   -t IMAGE .   the node agent's pods: `nodecfg install --agent daemonset --image IMAGE`
#   docker build --target nodecfg -t IMAGE .   everything else, as a user without rights; the default
#
# docs/reference/agents.md explains why the one is root and the other is not.

# A tag, which is moved with each new patch: whoever releases an image pins the one that was tried, `rust:1.95-alpine@sha256:…`
# (`docker buildx imagetools inspect rust:1.95-alpine` shows it).
FROM rust:1.95-alpine AS build
# A C compiler, for ring and libgit2; busybox, for its nsenter.
RUN apk add --no-cache build-base busybox-static
WORKDIR /src
COPY . .
# Rust's musl targets link statically. Of a binary that is not static, the last line makes no image.
RUN cargo build --profile dist --locked --bin nodecfg --bin nodecfg-agent \
    && cp target/dist/nodecfg target/dist/nodecfg-agent / \
    && ! readelf --program-headers /nodecfg | grep -q INTERP \
    && ! readelf --program-headers /nodecfg-agent | grep -q INTERP

FROM scratch AS agent
COPY --from=build /nodecfg-agent /usr/bin/nodecfg-agent
# busybox is what it is called as: in this image it is nsenter, and no shell.
COPY --from=build /bin/busybox.static /usr/bin/nsenter
# What nsenter starts is looked for on the host, by the same path.
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin
# Root, because the kubelet's files are; what root may do there, the pod's securityContext says.
USER 0:0
ENTRYPOINT ["/usr/bin/nodecfg-agent"]

FROM alpine:3.22 AS nodecfg
# git fetches from servers, over SSH with ssh; git verify-commit runs ssh-keygen and gpg. The certificates are for git servers, API
# servers and collectors whose own are signed by a public authority; mount another bundle there, or name it in SSL_CERT_FILE, for an
# authority of your own.
RUN apk add --no-cache ca-certificates git gpg openssh-client openssh-keygen \
    # ssh runs for users with an account alone. This one has no home, and so its cache is not there.
    && adduser -D -H -u 65532 -h /nonexistent -s /sbin/nologin nodecfg \
    && install -d -o 65532 -g 65532 /var/cache/nodecfg
COPY --from=build /nodecfg /usr/bin/nodecfg
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    NODECFG_CACHE_DIR=/var/cache/nodecfg
USER 65532:65532
ENTRYPOINT ["/usr/bin/nodecfg"]
