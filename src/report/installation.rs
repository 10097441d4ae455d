//! What `install` has applied, for programs.

use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::json_document::Kind;

/// What was applied, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Installed<'a> {
    /// The objects.
    pub objects: Vec<Applied<'a>>,
}

impl Kind for Installed<'_> {
    const KIND: &'static str = "Installation";
}

/// An object and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Applied<'a> {
    /// Its resource with the group, as `kubectl` names it: `clusterrole.rbac.authorization.k8s.io`.
    pub resource: String,
    /// Its namespace, if it has one.
    pub namespace: Option<&'a str>,
    /// Its name.
    pub name: &'a str,
    /// What became of it.
    pub result: Application,
}

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Application {
    /// It is as it shall be.
    ServersideApplied,
    /// The cluster has no such resource.
    Skipped,
}
