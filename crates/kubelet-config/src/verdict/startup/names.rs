//! Names that the kubelet checks only at start-up: the authorization mode (`cmd/kubelet/app/auth.go` `BuildAuthz`),
//! the change detection strategy (`pkg/kubelet/kubelet.go` `NewMainKubelet`), and the TLS version
//! (`component-base/cli/flag/ciphersuites_flag.go` `TLSVersion`). The table of fields lists the allowed names.

use crate::verdict::refusals::Check;
use crate::verdict::validate::choices::one_of;

pub(super) const CHECKS: &[Check] = &[
    ("authorization-mode", |config, refusals| one_of(config, refusals, "authorization.mode")),
    ("change-detection-strategy", |config, refusals| {
        one_of(config, refusals, "configMapAndSecretChangeDetectionStrategy");
    }),
    ("tls-min-version", |config, refusals| {
        if !config.text("tlsMinVersion").is_empty() {
            one_of(config, refusals, "tlsMinVersion");
        }
    }),
];
