//! Embedded Kubernetes API server. kubectl, kube clients and nodecfg work against it unmodified.
//!
//! It reproduces recorded servers (`tests/data/recordings`) in one of two [`ServerProfile`]s and keeps all state in
//! memory. It simulates no nodes and starts no pods: kubelets and controllers are its clients.

mod auth;
mod definition;
mod delete;
mod discovery;
pub(super) mod eviction;
mod fields;
mod http;
mod list;
mod object;
mod object_watches;
mod patch;
pub(super) mod pod;
mod prepare;
pub(crate) mod request;
mod resource;
mod schema;
mod selectors;
mod server_profile;
mod status;
mod store;
mod table;
mod validate;
mod view;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use ::http::{HeaderMap, header};
use axum::Router;
use jiff::Timestamp;
use serde_json::{Value, json};

pub use auth::{Rule, User};
pub(crate) use http::error_response;
pub(crate) use object::time_text;
pub use request::ResponseFormat;
pub use server_profile::ServerProfile;
pub use status::ApiError;

use auth::Denials;
use object::{StoredObject, text};
use request::ResourcePath;
use resource::{Resource, ResourceType};
use status::ApiResult;
use store::{HISTORY, Store, key};
use write::{FieldValidation, WriteRequest};

use crate::in_process;

/// Source of the current time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// Sends a GET request for a path to the kubelet of an existing Node.
pub type NodeProxy = Arc<dyn Fn(&str, &str) -> ProxyResult + Send + Sync>;

/// Result of a request that the API server forwards to a kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyResult {
    /// The kubelet is unreachable, for this reason.
    Unreachable(String),
    /// Response of the kubelet, which the API server returns unchanged.
    Response {
        /// HTTP status code.
        status: u16,
        /// Media type.
        content_type: &'static str,
        /// Body.
        body: String,
    },
}

/// Options of an embedded API server.
#[derive(Clone)]
pub struct ApiOptions {
    /// Server version to reproduce.
    pub profile: ServerProfile,
    /// Seed for uids and generated names.
    pub seed: u64,
    /// Source of timestamps such as creation times.
    pub clock: Clock,
    /// Users by bearer token. Requests with an unknown token are refused; requests without a token are anonymous.
    pub tokens: BTreeMap<String, User>,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self { profile: ServerProfile::V1_21, seed: 0, clock: Arc::new(nodecfg_clock::now), tokens: BTreeMap::new() }
    }
}

type Registry = BTreeMap<(String, String, String), Arc<Resource>>;

struct Inner {
    options: ApiOptions,
    store: Mutex<Store>,
    registry: RwLock<Registry>,
    random: Mutex<fastrand::Rng>,
    denials: RwLock<Denials>,
    node_proxy: OnceLock<NodeProxy>,
}

/// Embedded API server. Clones share one cluster.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

impl Api {
    /// Creates a cluster with the namespaces that every cluster has.
    #[must_use]
    pub fn new(options: ApiOptions) -> Self {
        let registry = resource::built_ins(options.profile)
            .map(|r| ((r.group.clone(), r.version.clone(), r.plural.clone()), Arc::new(r)))
            .collect();
        let api = Self(Arc::new(Inner {
            random: Mutex::new(fastrand::Rng::with_seed(options.seed)),
            options,
            store: Mutex::new(Store::new(HISTORY)),
            registry: RwLock::new(registry),
            denials: RwLock::default(),
            node_proxy: OnceLock::new(),
        }));
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            // Creation cannot fail in an empty cluster.
            let _ = api.create("", "namespaces", "", namespace, "kube-apiserver");
        }
        api
    }

    /// Returns the HTTP service. A [`User`] in the extensions of a request replaces token authentication.
    pub fn router(&self) -> Router {
        Router::new().fallback(http::serve).with_state(self.clone())
    }

    /// Returns an in-process client with administrator rights. The client needs a Tokio runtime and no sockets.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin("kubernetes-admin"))
    }

    /// Returns an in-process client that acts as `user`.
    #[must_use]
    pub fn client_as(&self, user: User) -> kube::Client {
        in_process::client(self.router(), user)
    }

    /// Denies a verb on a resource (`nodes`, `nodes/status`, `*`) to all users. `watch` and `list` are separate
    /// verbs.
    pub fn deny(&self, verb: &str, resource: &str) {
        self.0.denials.write().unwrap_or_else(PoisonError::into_inner).insert(None, verb, resource);
    }

    /// Denies a verb on a resource to one user.
    pub fn deny_user(&self, user: &str, verb: &str, resource: &str) {
        self.0.denials.write().unwrap_or_else(PoisonError::into_inner).insert(Some(user), verb, resource);
    }

    /// Removes all denials.
    pub fn clear_denials(&self) {
        self.0.denials.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Discards all history, as a compaction of etcd does. Lists and watches of older revisions then get 410.
    pub fn forget_history(&self) {
        self.lock().compact();
    }

    /// Returns the current revision of the cluster.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision()
    }

    /// Creates an object without a request and without authorization. `namespace` is empty for cluster-scoped
    /// resources.
    ///
    /// # Errors
    /// The error that the server returns for the same request.
    pub fn create(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        object: Value,
        manager: &str,
    ) -> ApiResult<Value> {
        let resource = self.resource_of(group, resource).ok_or_else(ApiError::no_such_resource)?;
        let write = WriteRequest {
            api: self,
            resource: &resource,
            namespace,
            name: "",
            status: false,
            manager,
            dry_run: false,
            field_validation: FieldValidation::Ignore,
        };
        write.create(object).map(|written| written.object.value())
    }

    /// Reads an object without a request.
    #[must_use]
    pub fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.resource_of(group, resource)?;
        let stored = self.lock().get(&resource.collection, &key(namespace, name))?;
        Some(stored.value())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the server version that this server reproduces.
    #[must_use]
    pub fn profile(&self) -> ServerProfile {
        self.0.options.profile
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0.options.clock)()
    }

    /// Sets the handler of kubelet requests. Only the first call takes effect.
    pub(crate) fn set_node_proxy(&self, proxy: NodeProxy) {
        let _ = self.0.node_proxy.set(proxy);
    }

    /// Sends a GET request to the kubelet of a node. Without a [`NodeProxy`], every kubelet is unreachable.
    pub(crate) fn proxy_get(&self, node: &str, path: &str) -> ProxyResult {
        let unreachable = || ProxyResult::Unreachable("dial tcp: no kubelet listens".to_owned());
        self.0.node_proxy.get().map_or_else(unreachable, |proxy| proxy(node, path))
    }

    /// Admits a new object to a namespace (admission plugin NamespaceLifecycle).
    ///
    /// # Errors
    /// 404 for a missing namespace, 403 for one that is being deleted.
    pub(crate) fn admit_to_namespace(&self, resource: &Resource, namespace: &str, name: &str) -> ApiResult<()> {
        match self.lock().get("namespaces", namespace) {
            None => Err(ApiError::not_found("namespaces", "", namespace)),
            Some(stored) if &*stored.phase == "Terminating" => {
                Err(ApiError::namespace_terminating(&resource.plural, &resource.group, name, namespace))
            }
            Some(_) => Ok(()),
        }
    }

    fn random(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.0.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a random uid (RFC 4122, version 4).
    pub(crate) fn uid(&self) -> String {
        let bits = self.random().u128(..);
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let text = format!("{bits:032x}");
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }

    /// Returns the random suffix of a generated name (apimachinery `pkg/util/rand`).
    pub(crate) fn suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.random();
        (0..5).filter_map(|_| random.choice(ALPHABET)).map(|byte| char::from(*byte)).collect()
    }

    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> ApiResult<User> {
        let Some(value) = headers.get(header::AUTHORIZATION) else {
            return Ok(User::anonymous());
        };
        let token = value.to_str().ok().and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
        self.0.options.tokens.get(token.trim()).cloned().ok_or_else(ApiError::unauthorized)
    }

    pub(crate) fn authorize(&self, user: &User, verb: &str, path: &ResourcePath) -> ApiResult<()> {
        auth::authorize(user, &self.0.denials.read().unwrap_or_else(PoisonError::into_inner), verb, path)
    }

    pub(crate) fn resource(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let registry = self.0.registry.read().unwrap_or_else(PoisonError::into_inner);
        registry.get(&(group.to_owned(), version.to_owned(), plural.to_owned())).cloned()
    }

    fn resource_of(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        let registry = self.0.registry.read().unwrap_or_else(PoisonError::into_inner);
        registry.values().find(|resource| resource.group == group && resource.plural == plural).cloned()
    }

    pub(crate) fn resource_of_kind(&self, group: &str, version: &str, kind: &str) -> Option<Arc<Resource>> {
        let registry = self.0.registry.read().unwrap_or_else(PoisonError::into_inner);
        let fits = |r: &&Arc<Resource>| r.group == group && r.version == version && r.kind == kind;
        registry.values().find(fits).cloned()
    }

    /// Reports whether a built-in group version is served. Unknown resources of other groups get a plain 404 page.
    pub(crate) fn has_group(&self, group: &str, version: &str) -> bool {
        let registry = self.0.registry.read().unwrap_or_else(PoisonError::into_inner);
        registry.values().any(|r| r.group == group && r.version == version && r.resource_type != ResourceType::Custom)
    }

    /// Returns all served resources, sorted by group.
    pub(crate) fn resources(&self) -> Vec<Arc<Resource>> {
        self.0.registry.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Runs the controllers that react to a new or changed object.
    pub(crate) fn after_write(&self, resource: &Resource, object: &Value, stored: &StoredObject) {
        delete::collect_orphan(self, &resource.collection, &key(&stored.namespace, &stored.name));
        if resource.resource_type == ResourceType::Definition {
            self.register(object);
        }
    }

    fn register(&self, definition: &Value) {
        let mut registry = self.0.registry.write().unwrap_or_else(PoisonError::into_inner);
        let name = text(definition, "/metadata/name");
        registry.retain(|_, resource| resource.collection != name);
        for resource in resource::of_definition(definition) {
            let at = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
            registry.insert(at, Arc::new(resource));
        }
    }

    pub(crate) fn unregister(&self, definition: &str) {
        let mut registry = self.0.registry.write().unwrap_or_else(PoisonError::into_inner);
        registry.retain(|_, resource| resource.collection != definition);
    }
}

#[cfg(test)]
mod custom_resource_tests;
#[cfg(test)]
mod eviction_tests;
#[cfg(test)]
mod pod_tests;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod tests;
