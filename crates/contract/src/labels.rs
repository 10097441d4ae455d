//! Labels and annotations of Nodes and ConfigMaps.

/// Default selector label of a pool: `nodecfg.dev/pool=<pool>`.
pub const POOL_LABEL: &str = "nodecfg.dev/pool";
/// Label that names the manager of an object (Kubernetes recommended labels).
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// Value of [`MANAGED_BY_LABEL`] on objects that nodecfg manages.
pub const MANAGER: &str = "nodecfg";
/// Label with the fleet of a ConfigMap.
pub const FLEET_LABEL: &str = "nodecfg.dev/fleet";
/// Label with the pool of a ConfigMap.
pub const CONFIG_MAP_POOL_LABEL: &str = "nodecfg.dev/pool";
/// Annotation with the versioned hash of the content.
pub const CONTENT_HASH_ANNOTATION: &str = "nodecfg.dev/content-hash";
/// Annotation with the commit of a ConfigMap's configuration.
pub const COMMIT_ANNOTATION: &str = "nodecfg.dev/commit";
/// Annotation with the path of the pool's configuration in the repository.
pub const PATH_ANNOTATION: &str = "nodecfg.dev/path";
/// Annotation with the placement with which a ConfigMap was created. It informs `rollback`; the placement of a node is in its
/// NodeConfig.
pub const PLACEMENT_ANNOTATION: &str = "nodecfg.dev/placement";
