//! Values whose defaults depend on a feature gate or on another field, and the default list of `enforceNodeAllocatable`,
//! as [`crate::defaults`] sets them. All other defaults are in the table of fields.

use serde_json::Value as Json;

use super::Config;
use crate::values::duration;

impl Config<'_> {
    /// Returns `crashLoopBackOff.maxContainerRestartPeriod` in nanoseconds. `None` if it is unset and the gate
    /// `KubeletCrashLoopBackOffMax` is off.
    pub(crate) fn max_container_restart_period(&self) -> Option<i64> {
        duration::nanoseconds(self.filled("crashLoopBackOff", Some("maxContainerRestartPeriod"))?.as_str()?).ok()
    }

    /// Returns `imagePullCredentialsVerificationPolicy`. Empty if it is unset and the gate
    /// `KubeletEnsureSecretPulledImages` is off.
    pub(crate) fn image_pull_credentials_verification_policy(&self) -> &str {
        self.filled("imagePullCredentialsVerificationPolicy", None).and_then(Json::as_str).unwrap_or_default()
    }

    /// Returns `serializeImagePulls`. Since 1.27 the default is false if several parallel pulls are allowed.
    pub(crate) fn serialize_image_pulls(&self) -> bool {
        self.filled("serializeImagePulls", None).and_then(Json::as_bool).unwrap_or_default()
    }

    /// Returns `enforceNodeAllocatable`, each value with its index in the file. An unset list means `[pods]`; an empty
    /// list stays empty.
    pub(crate) fn enforcements(&self) -> Vec<(Option<usize>, &str)> {
        match self.list("enforceNodeAllocatable") {
            None => {
                let items = self.filled("enforceNodeAllocatable", None).and_then(Json::as_array);
                items.into_iter().flatten().map(|item| (None, item.as_str().unwrap_or_default())).collect()
            }
            Some(items) => {
                items.iter().enumerate().map(|(i, item)| (Some(i), item.text().unwrap_or_default())).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Minor;
    use crate::document::Document;
    use crate::gates::EnabledGates;

    fn config(text: &str, minor: u32, test: impl FnOnce(Config<'_>)) {
        let document = Document::parse("kubelet.yaml", text).document.unwrap();
        test(Config::new(&document, Minor(minor), EnabledGates::default()));
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
