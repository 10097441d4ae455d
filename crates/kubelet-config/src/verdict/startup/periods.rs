//! Periods that must be positive when a component starts: `pkg/kubelet/kubelet.go` `NewMainKubelet`,
//! `pkg/kubelet/config/file.go`, `k8s.io/cri-client/pkg/remote_runtime.go`, and klog. Go's `time.NewTicker` panics for
//! any other period.

use crate::verdict::Config;
use crate::verdict::refusals::{Check, Refusals};
use crate::verdict::validate::durations::require_duration;

pub(super) const CHECKS: &[Check] = &[
    ("sync-frequency", |config, refusals| positive(config, refusals, "syncFrequency")),
    ("file-check-frequency", |config, refusals| {
        if !config.text("staticPodPath").is_empty() {
            positive(config, refusals, "fileCheckFrequency");
        }
    }),
    ("runtime-request-timeout", |config, refusals| positive(config, refusals, "runtimeRequestTimeout")),
    ("log-flush-period", |config, refusals| positive(config, refusals, "logging.flushFrequency")),
];

fn positive(config: &Config<'_>, refusals: &mut Refusals, path: &str) {
    require_duration(config, refusals, path, |period| period > 0, "more than 0s");
}
