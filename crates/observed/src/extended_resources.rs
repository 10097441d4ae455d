//! Extended resources of a node, such as `nvidia.com/gpu`, which device plugins register with each process of the
//! kubelet.
//!
//! After a restart, the kubelet reports 0 in `allocatable` and in `capacity` until the plugin registers again
//! (kubernetes, `pkg/kubelet/cm/devicemanager/manager.go`: `GetCapacity`, 1.36). So only the amount before the restart
//! shows that a device is missing, and `capacity` is not read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use kubelet_config::values::quantity::Quantity;

/// Limit of the resources of a node that are read. The node itself writes them.
const MAX_RESOURCES: usize = 32;
/// Part of the names of Kubernetes' own resources.
const NATIVE: &str = "kubernetes.io/";
/// Prefix of names in quotas.
const QUOTA_PREFIX: &str = "requests.";
/// Maximum length of the domain in a name, with the prefix of quotas (DNS subdomain).
const LONGEST_DOMAIN: usize = 253;
/// Maximum length of a name after its domain.
const LONGEST_NAME: usize = 63;

/// Amounts of extended resources by name. Resources without any are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct ExtendedResources(BTreeMap<String, u64>);

/// Extended resource of which a node has less than before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingResource {
    /// Name of the resource.
    pub name: String,
    /// Present amount.
    pub present: u64,
    /// Amount before.
    pub before: u64,
}

impl ExtendedResources {
    /// Reads a ResourceList (core/v1). Names and amounts that Kubernetes does not accept for extended resources are left
    /// out.
    pub fn read<'a>(list: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let amounts = list.into_iter().filter(|(name, _)| is_extended(name)).filter_map(|(name, amount)| {
            let whole = u64::try_from(Quantity::parse(amount).ok()?.rounded_up()).ok();
            whole.filter(|amount| *amount > 0).map(|amount| (name.to_owned(), amount))
        });
        Self(amounts.take(MAX_RESOURCES).collect())
    }

    /// Amount of a resource.
    #[must_use]
    pub fn amount(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Names and amounts.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Reports whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The first resource of which `present` has less.
    #[must_use]
    pub fn missing_from(&self, present: &Self) -> Option<MissingResource> {
        let (name, before) = self.iter().find(|(name, before)| present.amount(name) < *before)?;
        Some(MissingResource { name: name.to_owned(), present: present.amount(name), before })
    }
}

impl<const N: usize> From<[(&str, u64); N]> for ExtendedResources {
    fn from(amounts: [(&str, u64); N]) -> Self {
        Self(
            amounts
                .into_iter()
                .filter(|(_, amount)| *amount > 0)
                .map(|(name, amount)| (name.to_owned(), amount))
                .collect(),
        )
    }
}

/// Reports whether Kubernetes takes a name for an extended resource (kubernetes, `pkg/apis/core/v1/helper/helpers.go`:
/// `IsExtendedResourceName`, 1.36). Names without a domain, such as `hugepages-1Gi` and `attachable-volumes-aws-ebs`,
/// are its own.
fn is_extended(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else { return false };
    let is_alphanumeric = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let ends_well = |text: &str| is_alphanumeric(text.bytes().next()) && is_alphanumeric(text.bytes().last());
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        ends_well(label) && label.bytes().all(allowed)
    };
    let is_name =
        ends_well(rest) && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
    !name.contains(NATIVE)
        && !name.starts_with(QUOTA_PREFIX)
        && QUOTA_PREFIX.len() + domain.len() <= LONGEST_DOMAIN
        && domain.split('.').all(is_label)
        && rest.len() <= LONGEST_NAME
        && is_name
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(list: &[(&str, &str)]) -> Vec<(String, u64)> {
        ExtendedResources::read(list.iter().copied()).iter().map(|(name, amount)| (name.to_owned(), amount)).collect()
    }

    #[test]
    fn names_are_those_of_kubernetes() {
        for name in
            ["nvidia.com/gpu", "example.com/A_b.c-1", "gpu/x", "intel.com/sgx_epc", "kubernetes.io.example.com/x"]
        {
            assert!(is_extended(name), "{name}");
        }
        let long = format!("{}/x", "a.".repeat(121) + "aaa");
        let longest = format!("{}/{}", "a.".repeat(121) + "aa", "x".repeat(63));
        assert!(is_extended(&longest));
        for name in [
            "cpu",
            "hugepages-1Gi",
            "attachable-volumes-aws-ebs",
            "kubernetes.io/batch-cpu",
            "node.kubernetes.io/x",
            "requests.nvidia.com/gpu",
            "",
            "/",
            "nvidia.com/",
            "/gpu",
            "a/b/c",
            "NVIDIA.com/gpu",
            "nvidia..com/gpu",
            "-a.com/gpu",
            "nvidia.com/-gpu",
            "nvidia.com/gpu_",
            "nvidia.com/g\u{1b}pu",
            "nvidia.com/gpü",
            &long,
            &format!("{longest}x"),
        ] {
            assert!(!is_extended(name), "{name}");
        }
    }

    #[test]
    fn amounts_are_whole_and_bounded() {
        let amounts =
            [("a.io/n", "8"), ("a.io/k", "2k"), ("a.io/part", "1500m"), ("a.io/none", "0"), ("a.io/less", "-1")];
        assert_eq!(
            read(&amounts),
            [("a.io/k".to_owned(), 2000), ("a.io/n".to_owned(), 8), ("a.io/part".to_owned(), 2)]
        );
        assert_eq!(read(&[("a.io/x", "many"), ("a.io/y", "")]), []);
        let names: Vec<String> = (0..1000).map(|number| format!("a.io/{number}")).collect();
        let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
        assert_eq!(read(&many).len(), MAX_RESOURCES);
    }

    #[test]
    fn less_than_before_is_missing() {
        let missing = |before: &[(&str, &str)], present: &[(&str, &str)]| {
            let read = |list: &[(&str, &str)]| ExtendedResources::read(list.iter().copied());
            let missing = read(before).missing_from(&read(present))?;
            Some((missing.name, missing.present, missing.before))
        };
        let gpus = "nvidia.com/gpu";
        assert_eq!(missing(&[(gpus, "8")], &[]), Some((gpus.to_owned(), 0, 8)));
        assert_eq!(missing(&[(gpus, "8")], &[(gpus, "7")]), Some((gpus.to_owned(), 7, 8)));
        for present in ["8", "9"] {
            assert_eq!(missing(&[(gpus, "8")], &[(gpus, present)]), None);
        }
        assert_eq!(missing(&[(gpus, "0")], &[]), None, "nothing was there before");
        assert_eq!(missing(&[], &[(gpus, "8")]), None);
        assert_eq!(missing(&[("a.io/x", "1"), (gpus, "1")], &[("a.io/x", "1")]), Some((gpus.to_owned(), 0, 1)));
    }
}
