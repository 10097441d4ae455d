//! Defaults that depend on a feature gate or on another field, and the default list of `enforceNodeAllocatable`
//! (`pkg/kubelet/apis/config/v1beta1/defaults.go`, `SetDefaults_KubeletConfiguration`). All other defaults are in the
//! table of fields.

use super::Config;
use crate::Minor;

/// The only item of the default `enforceNodeAllocatable`.
const ENFORCED: &str = "pods";

impl Config<'_> {
    /// Returns `crashLoopBackOff.maxContainerRestartPeriod` in nanoseconds. The default is 5m if the gate
    /// `KubeletCrashLoopBackOffMax` is on; otherwise an unset field returns `None`.
    #[must_use]
    pub fn max_container_restart_period(&self) -> Option<i64> {
        let unset = (self.has_defaults() && self.gate("KubeletCrashLoopBackOffMax")).then_some(300_000_000_000);
        self.duration("crashLoopBackOff.maxContainerRestartPeriod").or(unset)
    }

    /// Returns `imagePullCredentialsVerificationPolicy`. The default is `NeverVerifyPreloadedImages` if the gate
    /// `KubeletEnsureSecretPulledImages` is on, otherwise empty.
    #[must_use]
    pub fn image_pull_credentials_verification_policy(&self) -> &str {
        match self.text("imagePullCredentialsVerificationPolicy") {
            "" if self.has_defaults() && self.gate("KubeletEnsureSecretPulledImages") => "NeverVerifyPreloadedImages",
            policy => policy,
        }
    }

    /// Returns `serializeImagePulls`. Since 1.27 the default is false if several parallel pulls are allowed.
    #[must_use]
    pub fn serialize_image_pulls(&self) -> bool {
        let several = self.minor() >= Minor(27) && self.int("maxParallelImagePulls").is_some_and(|pulls| pulls > 1);
        match self.given("serializeImagePulls") {
            None => self.has_defaults() && !several,
            Some(_) => self.is("serializeImagePulls"),
        }
    }

    /// Returns `nodeStatusReportFrequency` in nanoseconds. If it is unset or zero, the `nodeStatusUpdateFrequency` of
    /// the file applies. If that is unset or zero too, the default of the table applies.
    #[must_use]
    pub fn node_status_report_frequency(&self) -> Option<i64> {
        let set = |path| self.given(path).and_then(|_| self.duration(path)).filter(|_| !self.is_zero(path));
        set("nodeStatusReportFrequency")
            .or_else(|| set("nodeStatusUpdateFrequency").filter(|_| self.has_defaults()))
            .or_else(|| self.duration("nodeStatusReportFrequency"))
    }

    /// Returns `enforceNodeAllocatable`, each value with its index. An unset list means `[pods]`; an empty list stays
    /// empty.
    #[must_use]
    pub fn enforcements(&self) -> Vec<(Option<usize>, &str)> {
        match self.list("enforceNodeAllocatable") {
            None => vec![(None, ENFORCED)],
            Some(items) => {
                items.iter().enumerate().map(|(i, item)| (Some(i), item.text().unwrap_or_default())).collect()
            }
        }
    }

    fn is_zero(&self, path: &str) -> bool {
        self.given(path).and_then(|node| crate::duration::nanoseconds(node.text()?).ok()) == Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::gates::EnabledGates;

    fn config(text: &str, minor: u32, test: impl FnOnce(Config<'_>)) {
        let document = Document::parse("kubelet.yaml", text).document.unwrap();
        test(Config::new(&document, Minor(minor), EnabledGates::default()));
    }

    #[test]
    fn report_frequency_defaults_to_update_frequency() {
        for (text, seconds) in [
            ("maxPods: 1", 300),
            ("nodeStatusUpdateFrequency: 20s", 20),
            ("nodeStatusUpdateFrequency: 0s", 300),
            ("nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 1m", 60),
            ("nodeStatusUpdateFrequency: 20s\nnodeStatusReportFrequency: 0s", 20),
        ] {
            config(text, 30, |config| {
                assert_eq!(config.node_status_report_frequency(), Some(seconds * 1_000_000_000), "{text}");
            });
        }
    }

    #[test]
    fn pulls_are_serialized_unless_several_are_allowed() {
        for (text, minor, serial) in [
            ("maxPods: 1", 27, true),
            ("maxParallelImagePulls: 1", 27, true),
            ("maxParallelImagePulls: 2", 27, false),
            ("maxParallelImagePulls: 2", 26, true),
            ("maxParallelImagePulls: 2\nserializeImagePulls: true", 27, true),
            ("maxParallelImagePulls: 1\nserializeImagePulls: false", 27, false),
        ] {
            config(text, minor, |config| assert_eq!(config.serialize_image_pulls(), serial, "{text}"));
        }
    }

    #[test]
    fn unset_enforcements_mean_pods() {
        config("enforceNodeAllocatable: null", 30, |config| assert_eq!(config.enforcements(), [(None, "pods")]));
        config("enforceNodeAllocatable: []", 30, |config| assert!(config.enforcements().is_empty()));
        config("enforceNodeAllocatable: [none]", 30, |config| {
            assert_eq!(config.enforcements(), [(Some(0), "none")]);
        });
    }
}
