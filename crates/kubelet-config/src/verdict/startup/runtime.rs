//! The sockets of the container runtime: `k8s.io/cri-client/pkg/util/util_unix.go` `GetAddressAndDialer`.

use crate::verdict::refusals::Check;
use crate::verdict::validate::endpoint::scheme;

/// The fields with an endpoint.
pub(super) const ENDPOINTS: [&str; 2] = ["containerRuntimeEndpoint", "imageServiceEndpoint"];

pub(super) const CHECKS: &[Check] = &[("runtime-endpoint", |config, refusals| {
    for path in ENDPOINTS {
        let endpoint = config.text(path);
        // The kubelet reads an endpoint without a scheme as the path of a socket.
        if let Some((scheme, _)) = scheme(endpoint).filter(|(scheme, _)| scheme != "unix") {
            let message = format!(
                "{path} is {endpoint:?}; on Linux the kubelet connects only to a unix socket, not through {scheme}"
            );
            refusals
                .field(config, path, message)
                .help("write the path of the socket, such as unix:///run/containerd/containerd.sock");
        }
    }
})];
