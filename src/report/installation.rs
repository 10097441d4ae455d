//! JSON document of `install`.

use schemars::JsonSchema;
use serde::Serialize;

use nodecfg_contract::json_document::Kind;

/// The applied objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Installed<'a> {
    /// The objects, in the order of application. At the end, those that an earlier version of nodecfg applied and this one
    /// replaces.
    pub objects: Vec<Applied<'a>>,
    /// The users who may write ConfigMaps of nodecfg. Unset if the cluster has no admission policies: rights decide alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_writers: Option<Vec<String>>,
}

impl Kind for Installed<'_> {
    const KIND: &'static str = "Installation";
}

/// An object and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Applied<'a> {
    /// The resource with its API group, as `kubectl` names it: `clusterrole.rbac.authorization.k8s.io`.
    pub resource: String,
    /// The namespace, if the object has one.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
    /// The result.
    pub result: Application,
}

/// What became of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Application {
    /// The object was applied.
    ServersideApplied,
    /// Skipped: the cluster has no such resource.
    Skipped,
    /// The object was deleted: another one replaces it.
    Deleted,
}
