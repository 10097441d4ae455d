//! Rules for images: garbage collection, pulls, and the verification of pull secrets.

use super::image_names;
use super::limits::one_of;
use super::limits::written;
use crate::Minor;
use crate::verdict::Config;
use crate::verdict::refusals::Check;

const POLICY: &str = "imagePullCredentialsVerificationPolicy";
const ALLOWLIST: &str = "preloadedImagesVerificationAllowlist";
const AGE_GATE: &str = "ImageMaximumGCAge";
const CREDENTIALS: &str = "KubeletEnsureSecretPulledImages";

pub(super) const CHECKS: &[Check] = &[
    ("image-gc-thresholds", |config, refusals| {
        const LOW: &str = "imageGCLowThresholdPercent";
        const HIGH: &str = "imageGCHighThresholdPercent";
        if let (Some(low), Some(high)) = (config.int(LOW), config.int(HIGH))
            && low >= high
        {
            refusals
                .field(config, LOW, format!("{LOW} is {low}; it must be less than {HIGH}, which is {high}"))
                .related_field(config, HIGH, "the high threshold")
                .help(if high > 0 {
                    format!(
                        "write {} or less: collection starts at the high threshold and stops at the low one",
                        high - 1
                    )
                } else {
                    format!("set {HIGH}: 85")
                });
        }
    }),
    ("image-maximum-gc-age-gate", |config, refusals| {
        const AGE: &str = "imageMaximumGCAge";
        if config.duration(AGE).is_some_and(|age| age != 0) {
            refusals.require_gate(
                config,
                AGE,
                &format!("is {}", written(config, AGE)),
                AGE_GATE,
                "remove imageMaximumGCAge",
            );
        }
    }),
    ("image-gc-ages", |config, refusals| {
        const MAX_AGE: &str = "imageMaximumGCAge";
        const MIN_AGE: &str = "imageMinimumGCAge";
        if let (Some(most), Some(least)) = (config.duration(MAX_AGE), config.duration(MIN_AGE))
            && most > 0
            && most <= least
        {
            let (most, least) = (written(config, MAX_AGE), written(config, MIN_AGE));
            refusals
                .field(
                    config,
                    MAX_AGE,
                    format!("{MAX_AGE} is {most}; it must be more than {MIN_AGE}, which is {least}"),
                )
                .related_field(config, MIN_AGE, "the minimum age")
                .help(format!("raise {MAX_AGE} above {least}, or remove it to keep images regardless of age"));
        }
    }),
    ("serialize-image-pulls", |config, refusals| {
        const PULLS: &str = "maxParallelImagePulls";
        if let Some(pulls) = config.int(PULLS)
            && pulls > 1
            && config.serialize_image_pulls()
        {
            refusals
                .field(config, PULLS, format!("{PULLS} is {pulls}, but serializeImagePulls is true"))
                .related_field(config, "serializeImagePulls", "one pull at a time")
                .help("set serializeImagePulls to false, or remove it");
        }
    }),
    ("image-pull-credentials-policy", |config, refusals| {
        if config.gate(CREDENTIALS) && !config.text(POLICY).is_empty() {
            one_of(config, refusals, POLICY);
        }
    }),
    ("preloaded-images-policy", |config, refusals| {
        if config.gate(CREDENTIALS) && has_allowlist(config) && !uses_allowlist(config) {
            let policy = config.image_pull_credentials_verification_policy();
            refusals
                .field(config, ALLOWLIST, format!("{ALLOWLIST} is set, but {POLICY} is {policy}"))
                .related_field(config, POLICY, "ignores the list")
                .help(format!("set {POLICY}: NeverVerifyAllowlistedImages, or remove the list"));
        }
    }),
    ("preloaded-images-pattern", |config, refusals| {
        if !config.gate(CREDENTIALS) || !uses_allowlist(config) {
            return;
        }
        for (index, item) in config.list(ALLOWLIST).unwrap_or_default().iter().enumerate() {
            let pattern = item.text().unwrap_or_default();
            // Until 1.35 names are compared as written, so only full names are allowed.
            let whole_names = config.minor() < Minor(36);
            if let Err((problem, help)) = image_names::check_pattern(pattern, whole_names) {
                let field = format!("{ALLOWLIST}[{index}]");
                let message = format!("{field} is {pattern:?}, which {problem}");
                refusals.at(field, item.place.clone(), message).help(help);
            }
        }
    }),
    ("image-pull-credentials-policy-gate", |config, refusals| {
        if !config.text(POLICY).is_empty() {
            refusals.require_gate(config, POLICY, "is set", CREDENTIALS, &format!("remove {POLICY}"));
        }
    }),
    ("preloaded-images-gate", |config, refusals| {
        if has_allowlist(config) {
            refusals.require_gate(config, ALLOWLIST, "is set", CREDENTIALS, &format!("remove {ALLOWLIST}"));
        }
    }),
];

fn has_allowlist(config: &Config<'_>) -> bool {
    config.list(ALLOWLIST).is_some_and(|list| !list.is_empty())
}

fn uses_allowlist(config: &Config<'_>) -> bool {
    config.image_pull_credentials_verification_policy() == "NeverVerifyAllowlistedImages"
}
