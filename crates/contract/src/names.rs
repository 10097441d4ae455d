//! Checked types for names, one per kind, so that a pool name cannot be passed as a node name.
//!
//! Every constructor checks the syntax that Kubernetes requires (RFC 1123, apimachinery `validation.go`), or that of
//! a git object id. A value is therefore safe in paths and object names. DNS labels are safe as label values, too.

use std::fmt;
use std::sync::Arc;

use kubelet_config::values::label::{check_dns_label, check_dns_subdomain};
use serde::{Deserialize, Serialize};

use crate::natural_order;

/// Reason why a text is an invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {value:?} {problem}")]
pub struct NameError {
    /// Kind of the name, for example `pool name` or `fleet name`.
    pub kind: &'static str,
    /// The invalid text.
    pub value: String,
    /// The problem, as the continuation of a sentence.
    pub problem: String,
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal, $check:path) => {
        $(#[$doc])*
        ///
        /// Values are in [natural order](crate::natural_order). Copies share the text.
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(Arc<str>);

        impl Ord for $type {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                if Arc::ptr_eq(&self.0, &other.0) {
                    return std::cmp::Ordering::Equal;
                }
                natural_order::compare(&self.0, &other.0)
            }
        }

        impl PartialOrd for $type {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        impl $type {
            /// Parses a name.
            ///
            /// # Errors
            /// The text is invalid. The error quotes the text and states the problem.
            pub fn new(value: impl Into<String>) -> Result<Self, NameError> {
                let value = value.into();
                match $check(&value) {
                    Ok(()) => Ok(Self(value.into())),
                    Err(problem) => Err(NameError { kind: $kind, value, problem }),
                }
            }

            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl schemars::JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({"type": "string"})
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(value: String) -> Result<Self, NameError> {
                Self::new(value)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> String {
                name.0.as_ref().to_owned()
            }
        }

        impl std::str::FromStr for $type {
            type Err = NameError;
            fn from_str(value: &str) -> Result<Self, NameError> {
                Self::new(value)
            }
        }

        impl AsRef<str> for $type {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

name!(
    /// Name of a fleet, which identifies the part of a cluster that one repository manages. A DNS label, because
    /// ConfigMap names begin with it and labels contain it.
    FleetName, "fleet name", check_dns_label
);
name!(
    /// Name of a pool of nodes with one configuration, unique within a fleet. A DNS label.
    PoolName, "pool name", check_dns_label
);
name!(
    /// Name of a Node. A DNS subdomain.
    NodeName, "node name", check_dns_subdomain
);
name!(
    /// Name of a namespace. A DNS label.
    NamespaceName, "namespace", check_dns_label
);
name!(
    /// Name of a gate of a rollout, unique within a pool. A DNS label.
    GateName, "gate name", check_dns_label
);

/// A git commit, as lower-case hexadecimal text of 40 (SHA-1) or 64 (SHA-256) digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CommitId(String);

impl CommitId {
    /// Parses a full object id.
    ///
    /// # Errors
    /// The text is not 40 or 64 lower-case hexadecimal digits.
    pub fn new(value: impl Into<String>) -> Result<Self, NameError> {
        let value = value.into();
        let hexadecimal = value.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        if hexadecimal && (value.len() == 40 || value.len() == 64) {
            Ok(Self(value))
        } else {
            Err(NameError { kind: "commit", value, problem: "is not a full hexadecimal object id".to_owned() })
        }
    }

    /// The full id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first 10 digits, for display.
    #[must_use]
    pub fn short(&self) -> &str {
        self.0.get(..10).unwrap_or(&self.0)
    }
}

impl schemars::JsonSchema for CommitId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CommitId".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({"type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$"})
    }
}

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl TryFrom<String> for CommitId {
    type Error = NameError;
    fn try_from(value: String) -> Result<Self, NameError> {
        Self::new(value)
    }
}

impl From<CommitId> for String {
    fn from(commit: CommitId) -> String {
        commit.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_follow_rfc_1123() {
        for good in ["a", "a1", "gpu-h200", &"x".repeat(63)] {
            assert!(PoolName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "é", "../x", &"x".repeat(64)] {
            assert!(PoolName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn subdomains_may_have_dots_but_no_empty_label() {
        for good in ["n1", "ip-10-0-0-1.eu-west-1.compute.internal", &"x".repeat(100)] {
            assert!(NodeName::new(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "a..b", "a.", "..", "a/b", "N1"] {
            assert!(NodeName::new(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sorts_numbers_by_value() {
        let mut pools = ["p10", "p2"].map(|name| PoolName::new(name).unwrap());
        pools.sort();
        assert_eq!(pools.each_ref().map(PoolName::as_str), ["p2", "p10"]);
    }

    #[test]
    fn error_quotes_name_and_problem() {
        let error = PoolName::new("Gpu").expect_err("upper case");
        assert_eq!(error.to_string(), r#"pool name "Gpu" must start and end with a lower-case letter or a digit"#);
    }

    #[test]
    fn accepts_only_full_commit_ids() {
        assert!(CommitId::new("0".repeat(40)).is_ok());
        assert!(CommitId::new("0".repeat(39)).is_err());
        assert!(CommitId::new("HEAD").is_err());
    }
}
