//! Report of `version`.

use std::io::{self, Write};

use serde::Serialize;

use kubelet_config::{NEWEST, NEWEST_RELEASED, OLDEST};
use nodecfg_contract::json_document::Kind;

/// The version of this program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// The version of nodecfg.
    pub version: &'static str,
    /// The commit from which nodecfg was built. Unset if the build did not set NODECFG_COMMIT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<&'static str>,
    /// The kubelet versions that nodecfg knows.
    pub kubelets: KubeletVersions,
}

/// Kubelet versions, such as 1.36.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KubeletVersions {
    /// The oldest supported version.
    pub oldest: String,
    /// The newest supported version. It may be a version before its release.
    pub newest: String,
    /// The newest released version, which applies where no version is named.
    pub newest_released: String,
}

impl Kind for Version {
    const KIND: &'static str = "Version";
}

impl Version {
    /// The version of this program.
    #[must_use]
    pub fn of_this_program() -> Self {
        let [oldest, newest, newest_released] = [OLDEST, NEWEST, NEWEST_RELEASED].map(|minor| minor.to_string());
        Self {
            version: env!("CARGO_PKG_VERSION"),
            commit: option_env!("NODECFG_COMMIT").filter(|commit| !commit.is_empty()),
            kubelets: KubeletVersions { oldest, newest, newest_released },
        }
    }

    /// Writes the version as text.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "nodecfg:   {}", self.version)?;
        writeln!(out, "commit:    {}", self.commit.unwrap_or("unknown"))?;
        let KubeletVersions { oldest, newest, newest_released } = &self.kubelets;
        write!(out, "kubelets:  {oldest} to {newest_released}")?;
        if newest != newest_released {
            write!(out, ", and {newest} before its release")?;
        }
        writeln!(out)
    }
}
