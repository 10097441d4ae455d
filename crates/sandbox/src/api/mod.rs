//! An embedded Kubernetes API server: enough of one that kubectl, kube clients and nodecfg work against it unmodified.
//!
//! It answers as recorded servers do (`tests/data/recordings`), in one of two [`ServerProfile`]s. Everything lives in memory.
//! It simulates no nodes and prints no tables: kubelets are clients of it, and what it shows of itself comes through
//! [`Face`].

mod access_review;
mod admission;
mod auth;
pub(super) mod builtin;
mod character;
mod decode;
mod definition;
mod delete;
pub(super) mod event_view;
mod face_seam;
mod fields;
mod garbage;
mod http;
mod list;
mod named;
mod node_proxy;
mod object;
mod patch;
mod prepare;
mod protobuf;
#[cfg(test)]
pub(crate) mod replay;
mod request;
mod resource;
mod rules;
mod schema;
mod selectors;
pub(super) mod shape;
mod status;
mod store;
mod validate;
mod view;
mod watch;
mod write;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use ::http::{HeaderMap, Request, header};
use axum::Router;
use axum::body::Body;
use jiff::Timestamp;
use serde_json::{Value, json};
use tower::ServiceExt;

pub use auth::{Access, Rule, User};
pub use character::ServerProfile;
pub use face_seam::{Face, FaceAnswer, TableRequest};
pub use node_proxy::{NodeProxy, Proxied};
pub use status::ApiError;

use auth::Denials;
use fields::managed::{self, Writer};
use object::Stored;
use request::ResourcePath;
use resource::{DEFINITIONS, Nature, Resource};
use status::ApiResult;
use store::{Limits, Store, key};
use validate::text;
use write::{Unknown, Write};

/// Tells the time.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// How an API server is to be.
#[derive(Clone)]
pub struct ApiOptions {
    /// Which server it behaves like.
    pub character: ServerProfile,
    /// Seeds uids and generated names.
    pub seed: u64,
    /// Changes of each resource that are kept for watches and for consistent continuation of lists.
    pub history: usize,
    /// Bytes of superseded states of each resource that are kept at most.
    pub history_bytes: usize,
    /// How often a watch that asked for bookmarks gets one.
    pub bookmark_interval: Duration,
    /// Tells creation and other times.
    pub clock: Clock,
    /// Bearer tokens and whose they are. Requests with any other token are refused; those with none are anonymous.
    pub tokens: BTreeMap<String, User>,
    /// Prints tables, discovery and OpenAPI.
    pub face: Option<Arc<dyn Face>>,
}

impl Default for ApiOptions {
    fn default() -> Self {
        Self {
            character: ServerProfile::V1_21,
            seed: 0,
            history: 20_000,
            history_bytes: 64 * 1024 * 1024,
            bookmark_interval: Duration::from_secs(60),
            clock: Arc::new(nodecfg_clock::now),
            tokens: BTreeMap::new(),
            face: None,
        }
    }
}

type Registry = BTreeMap<(String, String, String), Arc<Resource>>;

struct Inner {
    options: ApiOptions,
    store: Mutex<Store>,
    registry: RwLock<Registry>,
    random: Mutex<fastrand::Rng>,
    denials: RwLock<Denials>,
    node_proxy: OnceLock<Arc<dyn NodeProxy>>,
}

/// An API server. Clones share one cluster.
#[derive(Clone)]
pub struct Api(Arc<Inner>);

impl Api {
    /// Starts a cluster with the namespaces that every cluster has.
    #[must_use]
    pub fn new(options: ApiOptions) -> Self {
        let registry = resource::built_ins(options.character)
            .into_iter()
            .map(|r| ((r.group.clone(), r.version.clone(), r.plural.clone()), Arc::new(r)))
            .collect();
        let limits = Limits { events: options.history.max(1), bytes: options.history_bytes };
        let api = Self(Arc::new(Inner {
            random: Mutex::new(fastrand::Rng::with_seed(options.seed)),
            options,
            store: Mutex::new(Store::new(limits)),
            registry: RwLock::new(registry),
            denials: RwLock::default(),
            node_proxy: OnceLock::new(),
        }));
        for name in ["default", "kube-node-lease", "kube-public", "kube-system"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            // Nothing can refuse these in an empty cluster.
            let _ = api.create("", "namespaces", "", namespace, "kube-apiserver");
        }
        api
    }

    /// The HTTP service. Requests may carry a [`User`] in their extensions, which replaces authentication by token.
    pub fn router(&self) -> Router {
        Router::new().fallback(http::serve).with_state(self.clone())
    }

    /// A client of this server, within the process and without sockets, as an administrator. Needs a Tokio runtime.
    #[must_use]
    pub fn client(&self) -> kube::Client {
        self.client_as(User::admin("kubernetes-admin"))
    }

    /// The same, as somebody else.
    #[must_use]
    pub fn client_as(&self, user: User) -> kube::Client {
        let service = self.router().into_service::<Body>().map_request(move |request: Request<kube::client::Body>| {
            let (mut parts, body) = request.into_parts();
            parts.extensions.insert(user.clone());
            Request::from_parts(parts, Body::new(body))
        });
        kube::Client::new(service, "default")
    }

    /// Refuses a verb on a resource (`nodes`, `nodes/status`, `*`), whoever asks. `watch` and `list` are verbs of their own.
    pub fn deny(&self, verb: &str, resource: &str) {
        self.0.denials.write().unwrap_or_else(PoisonError::into_inner).insert(None, verb, resource);
    }

    /// Refuses a verb on a resource to one user.
    pub fn deny_user(&self, user: &str, verb: &str, resource: &str) {
        self.0.denials.write().unwrap_or_else(PoisonError::into_inner).insert(Some(user), verb, resource);
    }

    /// Takes back all denials.
    pub fn allow_again(&self) {
        self.0.denials.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Compacts the storage, as etcd does every few minutes. A 1.21 server then answers 410 for older revisions; a 1.36
    /// server goes on serving them from its cache, see [`Api::forget_history`].
    pub fn compact(&self) {
        if !self.character().serves_compacted() {
            self.forget_history();
        }
    }

    /// Forgets all history, whatever the character: older revisions can be neither listed nor watched from (410).
    pub fn forget_history(&self) {
        self.lock().compact();
    }

    /// The present revision of the cluster.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.lock().revision()
    }

    /// Creates an object without a request: everything but authorisation is as for one. `namespace` is empty for
    /// resources of the cluster.
    ///
    /// # Errors
    /// What the server would refuse the request with.
    pub fn create(
        &self,
        group: &str,
        resource: &str,
        namespace: &str,
        object: Value,
        manager: &str,
    ) -> ApiResult<Value> {
        let resource = self.resource_of(group, resource).ok_or_else(ApiError::no_such_resource)?;
        let write = Write {
            api: self,
            resource: &resource,
            namespace,
            name: "",
            status: false,
            manager,
            dry_run: false,
            unknown: Unknown::Ignore,
        };
        write.create(object).map(|written| written.object.value())
    }

    /// An object, read without a request; none when it is not there.
    #[must_use]
    pub fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let resource = self.resource_of(group, resource)?;
        let stored = self.lock().get(&resource.collection, &key(namespace, name))?;
        Some(stored.value())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which server this behaves like.
    #[must_use]
    pub fn character(&self) -> ServerProfile {
        self.0.options.character
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.0.options.clock)()
    }

    pub(crate) fn bookmark_interval(&self) -> Duration {
        self.0.options.bookmark_interval
    }

    /// Says who answers for the kubelets. The first counts.
    pub(crate) fn answer_for_kubelets(&self, proxy: Arc<dyn NodeProxy>) {
        let _ = self.0.node_proxy.set(proxy);
    }

    /// A GET of a path of a node's kubelet. Where nobody answers for kubelets, none can be reached.
    pub(crate) fn proxied(&self, node: &str, path: &str) -> Proxied {
        let nobody = || Proxied::Unreachable("dial tcp: no kubelet listens".to_owned());
        self.0.node_proxy.get().map_or_else(nobody, |proxy| proxy.get(self, node, path))
    }

    pub(crate) fn face(&self) -> Option<&dyn Face> {
        self.0.options.face.as_deref()
    }

    fn random(&self) -> MutexGuard<'_, fastrand::Rng> {
        self.0.random.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A random uid (RFC 4122, version 4).
    pub(crate) fn uid(&self) -> String {
        let bits = self.random().u128(..);
        let bits = bits & !(0xf << 76) & !(0x3 << 62) | (0x4 << 76) | (0x2 << 62);
        let text = format!("{bits:032x}");
        let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
        format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
    }

    /// The end of a generated name (apimachinery `pkg/util/rand`).
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

    /// Whether a built-in group version is served, so that an unknown resource is one of it. Custom groups answer as if
    /// there were no such path.
    pub(crate) fn has_group(&self, group: &str, version: &str) -> bool {
        let registry = self.0.registry.read().unwrap_or_else(PoisonError::into_inner);
        registry.values().any(|r| r.group == group && r.version == version && r.nature != Nature::Custom)
    }

    /// The definitions that are established.
    pub(crate) fn definitions(&self) -> Vec<Value> {
        let stored = self.lock().scan(DEFINITIONS, "", "", None).unwrap_or_default();
        stored.iter().map(|definition| definition.value()).filter(definition::is_established).collect()
    }

    /// What the server's controllers do after an object was created.
    pub(crate) fn after_create(&self, resource: &Resource, created: &Stored) {
        garbage::collect_orphan(self, &resource.collection, &key(&created.namespace, &created.name));
        if resource.nature != Nature::Definition {
            return;
        }
        let old = created.value();
        let mut new = old.clone();
        definition::establish(&mut new, self.now());
        let version = resource.api_version();
        let writer = Writer {
            manager: "kube-apiserver",
            version: &version,
            subresource: "status",
            now: self.now(),
            character: self.character(),
            reset: prepare::reset(resource, true),
        };
        managed::update(&resource.shape, &old, &mut new, &writer);
        self.register(&new);
        // When somebody was faster, their update has registered it.
        let _ = self.lock().put(DEFINITIONS, text(&old, "/metadata/name"), Some(created.revision), new);
    }

    /// The same after a change.
    pub(crate) fn after_update(&self, resource: &Resource, object: &Value, stored: &Stored) {
        garbage::collect_orphan(self, &resource.collection, &key(&stored.namespace, &stored.name));
        if resource.nature == Nature::Definition && definition::is_established(object) {
            self.register(object);
        }
    }

    fn register(&self, definition: &Value) {
        let mut registry = self.0.registry.write().unwrap_or_else(PoisonError::into_inner);
        let name = text(definition, "/metadata/name");
        registry.retain(|_, resource| resource.collection != name);
        for resource in definition::resources(definition, self.character()) {
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
mod custom_tests;
#[cfg(test)]
mod tests;
