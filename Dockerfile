# Images of the node agent and of the reconciler. The agent's image has only static binaries. The reconciler's image
# also has the programs that nodecfg runs.
#
#   docker build --target agent   -t IMAGE .   pods of the node agent: `nodecfg install --agent daemonset --image IMAGE`
#   docker build --target nodecfg -t IMAGE .   everything else, as an unprivileged user; the default
#
# docs/reference/agents.md explains why only the agent runs as root.

# Stage that has the programs. `build` compiles them. With `--build-arg PROGRAMS=prebuilt` they come from the folders
# prebuilt/amd64 and prebuilt/arm64, into which .github/workflows/release.yml unpacks the archives of the release.
ARG PROGRAMS=build

# The tag moves with each patch release. For a release, pin the tested image: `rust:1.95-alpine@sha256:…` (`docker
# buildx imagetools inspect rust:1.95-alpine` prints it).
FROM rust:1.95-alpine AS build
# A C compiler for ring and libgit2.
RUN apk add --no-cache build-base
WORKDIR /src
COPY . .
# `nodecfg version` prints this commit: --build-arg NODECFG_COMMIT=$(git rev-parse HEAD)
ARG NODECFG_COMMIT
# Rust's musl targets link statically. The readelf lines fail the build if a binary is dynamic.
# Without the feature `sandbox`, so that no image contains an API server.
RUN cargo build --profile dist --locked -p nodecfg -p nodecfg-agent --no-default-features --features opentelemetry \
    && cp target/dist/nodecfg target/dist/nodecfg-agent / \
    && ! grep -q "cannot create the certificates of the sandbox" /nodecfg \
    && ! readelf --program-headers /nodecfg | grep -q INTERP \
    && ! readelf --program-headers /nodecfg-agent | grep -q INTERP \
    && mkdir /licenses && cp LICENSE /licenses

FROM scratch AS prebuilt
ARG TARGETARCH
COPY prebuilt/${TARGETARCH}/nodecfg prebuilt/${TARGETARCH}/nodecfg-agent /
COPY prebuilt/${TARGETARCH}/LICENSE prebuilt/${TARGETARCH}/THIRD_PARTY_LICENSES /licenses/

FROM ${PROGRAMS} AS programs

FROM alpine:3.22 AS busybox
# Scanners find busybox in the agent's image by its entry in the database of packages.
RUN apk add --no-cache busybox-static \
    && awk 'BEGIN { RS = ""; ORS = "\n\n" } /\nP:busybox-static\n/' /lib/apk/db/installed > /installed \
    && test -s /installed \
    && cat /etc/os-release > /os-release

FROM scratch AS agent
COPY --from=programs /nodecfg-agent /usr/bin/nodecfg-agent
COPY --from=programs /licenses /usr/share/licenses/nodecfg
# The file name selects busybox's applet: this image has nsenter and no shell.
COPY --from=busybox /bin/busybox.static /usr/bin/nsenter
COPY --from=busybox /installed /lib/apk/db/installed
COPY --from=busybox /os-release /etc/os-release
# nsenter searches the host's files for a program by this path.
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin
# Root, because root owns the kubelet's files. The pod's securityContext limits its rights.
USER 0:0
ENTRYPOINT ["/usr/bin/nodecfg-agent"]

FROM alpine:3.22 AS nodecfg
# nodecfg runs git to fetch from servers; git runs ssh, ssh-keygen and gpg. The certificates verify git servers, API
# servers and collectors with certificates of public authorities. For your own authority, mount another bundle there
# or name it in SSL_CERT_FILE.
RUN apk add --no-cache ca-certificates git gpg openssh-client openssh-keygen \
    # ssh requires a user account. The account has no home, so the cache is elsewhere.
    && adduser -D -H -u 65532 -h /nonexistent -s /sbin/nologin nodecfg \
    && install -d -o 65532 -g 65532 /var/cache/nodecfg
COPY --from=programs /nodecfg /usr/bin/nodecfg
COPY --from=programs /licenses /usr/share/licenses/nodecfg
ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
    NODECFG_CACHE_DIR=/var/cache/nodecfg
USER 65532:65532
ENTRYPOINT ["/usr/bin/nodecfg"]
