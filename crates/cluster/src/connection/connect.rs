//! Choice of the cluster and creation of its client, from an explicit kubeconfig, `$KUBECONFIG`, `~/.kube/config`, or
//! the service account of the pod. Sends no request.
//!
//! A kubeconfig contains credentials. No error and no Debug text may quote its content.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kube::Config;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

use super::failure::{AttemptError, describe_auth};
use super::proxy;

/// Time limit for a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Command-line options that select the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectOptions {
    /// `--kubeconfig`.
    pub kubeconfig: Option<PathBuf>,
    /// `--context`.
    pub context: Option<String>,
}

/// Environment variables and paths that select the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Environment {
    /// `$KUBECONFIG`.
    pub kubeconfig: Option<OsString>,
    /// The home directory.
    pub home: Option<PathBuf>,
    /// Whether `$KUBERNETES_SERVICE_HOST` is set, as in every pod.
    pub in_pod: bool,
    /// `$NO_PROXY`: hosts to reach without the proxy of `$HTTPS_PROXY`.
    pub no_proxy: Option<String>,
}

impl Environment {
    /// Reads the environment of this process.
    #[must_use]
    pub fn capture() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Self {
            kubeconfig: set("KUBECONFIG"),
            home: std::env::home_dir(),
            in_pod: set("KUBERNETES_SERVICE_HOST").is_some(),
            no_proxy: set("NO_PROXY").or_else(|| set("no_proxy")).and_then(|value| value.into_string().ok()),
        }
    }
}

/// Client for one cluster.
#[derive(Clone)]
pub struct Connection {
    /// The client. It does not retry; nodecfg's own policy does.
    pub client: kube::Client,
    /// Address of the API server, without user and password.
    pub server: String,
    /// Context of the kubeconfig; unset in a pod.
    pub context: Option<String>,
    /// Source of the address and the credentials, for messages.
    pub found: String,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("server", &self.server)
            .field("context", &self.context)
            .finish_non_exhaustive()
    }
}

/// Reason for a missing client.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// An explicitly given kubeconfig cannot be read.
    #[error("kubeconfig {} ({origin}) cannot be read: {cause}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Source of the path: `--kubeconfig`, `$KUBECONFIG`.
        origin: &'static str,
        /// Message of the operating system.
        cause: String,
    },
    /// The file is not YAML, or not a kubeconfig.
    #[error("{} is not a kubeconfig{}", path.display(), place.map(|(l, c)| format!(": line {l}, column {c}")).unwrap_or_default())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line and column of the error.
        place: Option<(u64, u64)>,
    },
    /// The kubeconfig is empty, as from a Secret without a value.
    #[error("kubeconfig {} ({origin}) is empty", paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    Empty {
        /// The files, all of them empty.
        paths: Vec<PathBuf>,
        /// Source of the path: `--kubeconfig`, `$KUBECONFIG`.
        origin: &'static str,
    },
    /// The context does not exist.
    #[error("the kubeconfig has no context {context:?}; it has {}", names_or_none(known))]
    UnknownContext {
        /// The requested context.
        context: String,
        /// Existing contexts, sorted.
        known: Vec<String>,
    },
    /// No context is requested, and the kubeconfig has no current context.
    #[error("the kubeconfig names no current context; it has {}", names_or_none(known))]
    NoCurrentContext {
        /// Existing contexts, sorted.
        known: Vec<String>,
    },
    /// The context exists but cannot be used.
    #[error("context {context:?} of the kubeconfig cannot be used: {message}")]
    Broken {
        /// The context.
        context: String,
        /// The reason.
        message: String,
    },
    /// The service account of the pod cannot be used.
    #[error("the service account of this pod cannot be used: {message}")]
    ServiceAccount {
        /// The reason.
        message: String,
    },
    /// No source names a cluster.
    #[error("no cluster: tried {}", tried.join(", "))]
    NoCluster {
        /// Sources that were tried, in order.
        tried: Vec<String>,
    },
}

fn names_or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl ConnectError {
    /// Fix for the user.
    #[must_use]
    pub fn help(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => "check the path and its permissions",
            Self::Malformed { .. } => "check the file with `kubectl config view --kubeconfig <file>`",
            Self::Empty { .. } => {
                "check that the Secret or variable of the file has a value, and that this run may read it"
            }
            Self::UnknownContext { .. } | Self::NoCurrentContext { .. } => "pass one of these contexts with --context",
            Self::Broken { .. } => "check the cluster and the user of the context with `kubectl config view --minify`",
            Self::ServiceAccount { .. } => "run the pod with a service account whose token is mounted",
            Self::NoCluster { .. } => "pass a kubeconfig with --kubeconfig",
        }
    }
}

/// Source of the client configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// Files, merged in order, with the source of their paths.
    Files(Vec<PathBuf>, &'static str),
    /// Service account of the pod.
    Pod,
}

impl fmt::Display for Origin {
    /// Prints for example `the kubeconfig /etc/k ($KUBECONFIG)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files(paths, origin) => {
                let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
                write!(f, "the kubeconfig {} ({origin})", paths.join(", "))
            }
            Self::Pod => f.write_str("the service account of this pod"),
        }
    }
}

/// Chooses the source as kubectl does. `is_file` reports whether a file exists.
fn choose(
    options: &ConnectOptions,
    environment: &Environment,
    is_file: impl Fn(&Path) -> bool,
) -> Result<Origin, ConnectError> {
    if let Some(path) = &options.kubeconfig {
        return Ok(Origin::Files(vec![path.clone()], "--kubeconfig"));
    }
    let mut tried = vec!["--kubeconfig (not given)".to_owned()];
    if let Some(variable) = &environment.kubeconfig {
        let named: Vec<PathBuf> = std::env::split_paths(variable).filter(|path| path != Path::new("")).collect();
        let present: Vec<PathBuf> = named.iter().filter(|path| is_file(path)).cloned().collect();
        // kubectl skips missing files. If all are missing, they are returned, so that reading reports the mistake.
        if !named.is_empty() {
            return Ok(Origin::Files(if present.is_empty() { named } else { present }, "$KUBECONFIG"));
        }
    }
    tried.push("$KUBECONFIG (not set)".to_owned());
    match environment.home.as_ref().map(|home| home.join(".kube").join("config")) {
        Some(path) if is_file(&path) => return Ok(Origin::Files(vec![path], "the default")),
        Some(path) => tried.push(format!("{} (missing)", path.display())),
        None => tried.push("~/.kube/config (no home directory)".to_owned()),
    }
    // A context belongs to a kubeconfig. With `--context`, the user does not mean the pod.
    if environment.in_pod && options.context.is_none() {
        return Ok(Origin::Pod);
    }
    tried.push("the service account of a pod (not in one)".to_owned());
    Err(ConnectError::NoCluster { tried })
}

/// Creates a client.
///
/// # Errors
/// No cluster is named, or its kubeconfig cannot be used. Only the first request shows whether the server answers.
pub async fn connect(options: &ConnectOptions, environment: &Environment) -> Result<Connection, ConnectError> {
    let origin = choose(options, environment, Path::is_file)?;
    let found = origin.to_string();
    let (mut config, context) = match origin {
        Origin::Files(paths, origin) => {
            config_from_files(&paths, origin, options.context.as_deref(), environment).await?
        }
        Origin::Pod => {
            let config =
                Config::incluster().map_err(|error| ConnectError::ServiceAccount { message: error.to_string() })?;
            (config, None)
        }
    };
    // Only nodecfg retries: disable the retries of kube.
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // Each attempt has its own time limit, and a watch has none.
    config.read_timeout = None;
    let server = proxy::without_userinfo(&config.cluster_url);

    // Another part of the process may have installed a provider already; any provider works.
    let _ = rustls::crypto::ring::default_provider().install_default();
    // Runs credential plugins, which may block.
    let built = tokio::task::spawn_blocking(move || ClientBuilder::try_from(config).map(ClientBuilder::build)).await;
    let named = context.clone().unwrap_or_default();
    let client = match built {
        Ok(Ok(client)) => client,
        Ok(Err(error)) => return Err(ConnectError::Broken { context: named, message: describe_client_error(error) }),
        Err(_) => {
            let message = "the creation of the client was interrupted".to_owned();
            return Err(ConnectError::Broken { context: named, message });
        }
    };
    let found = context.as_ref().map_or_else(|| found.clone(), |context| format!("context {context} of {found}"));
    Ok(Connection { client, server, context, found })
}

/// Creates a client that connects with its first request for which [`connect`] succeeds. Requests before that fail.
pub fn connect_later(options: ConnectOptions, environment: Environment) -> kube::Client {
    let shared = Arc::new((options, environment, tokio::sync::OnceCell::<kube::Client>::new()));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let shared = Arc::clone(&shared);
        async move {
            let (options, environment, client) = &*shared;
            let connected = async || Ok::<_, ConnectError>(connect(options, environment).await?.client);
            let client = client.get_or_try_init(connected).await?.clone();
            Ok::<_, tower::BoxError>(client.send(request).await?)
        }
    });
    kube::Client::new(service, "default")
}

/// Names of the contexts from which [`ConnectOptions::context`] chooses, sorted. Empty outside of kubeconfigs.
///
/// # Errors
/// No kubeconfig exists, or one cannot be read.
pub fn contexts(kubeconfig: Option<PathBuf>, environment: &Environment) -> Result<Vec<String>, ConnectError> {
    let options = ConnectOptions { kubeconfig, context: None };
    match choose(&options, environment, Path::is_file)? {
        Origin::Files(paths, origin) => Ok(context_names(&read_files(&paths, origin)?)),
        Origin::Pod => Ok(Vec::new()),
    }
}

/// Reads kubeconfigs as one. The first value of a name wins, as for kubectl.
fn read_files(paths: &[PathBuf], origin: &'static str) -> Result<Kubeconfig, ConnectError> {
    let mut merged = Kubeconfig::default();
    for path in paths {
        let malformed = || ConnectError::Malformed { path: path.clone(), place: None };
        let read = Kubeconfig::read_from(path).map_err(|error| read_error(error, path, origin))?;
        merged = merged.merge(read).map_err(|_| malformed())?;
    }
    Ok(merged)
}

fn context_names(kubeconfig: &Kubeconfig) -> Vec<String> {
    let mut names: Vec<String> = kubeconfig.contexts.iter().map(|context| context.name.clone()).collect();
    names.sort();
    names
}

async fn config_from_files(
    paths: &[PathBuf],
    origin: &'static str,
    context: Option<&str>,
    environment: &Environment,
) -> Result<(Config, Option<String>), ConnectError> {
    let merged = read_files(paths, origin)?;
    if merged.contexts.is_empty() && merged.clusters.is_empty() && merged.auth_infos.is_empty() {
        return Err(ConnectError::Empty { paths: paths.to_vec(), origin });
    }
    let known = context_names(&merged);
    let Some(context) = context.map(str::to_owned).or_else(|| merged.current_context.clone().filter(|c| !c.is_empty()))
    else {
        return Err(ConnectError::NoCurrentContext { known });
    };
    let Some(named) = merged.contexts.iter().find(|named| named.name == context) else {
        return Err(ConnectError::UnknownContext { context, known });
    };
    let cluster_name = named.context.as_ref().map(|context| context.cluster.clone()).unwrap_or_default();
    let own_proxy = merged
        .clusters
        .iter()
        .find(|named| named.name == cluster_name)
        .and_then(|named| named.cluster.as_ref()?.proxy_url.as_deref())
        .is_some_and(|proxy| !proxy.is_empty());
    let options = KubeConfigOptions { context: Some(context.clone()), ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(merged, &options)
        .await
        .map_err(|error| ConnectError::Broken { context: context.clone(), message: describe_kubeconfig(&error) })?;
    // kube applies $HTTPS_PROXY to every server address, so $NO_PROXY is applied here.
    let host = config.cluster_url.host().unwrap_or_default();
    if !own_proxy && proxy::bypasses(host, environment.no_proxy.as_deref()) {
        config.proxy_url = None;
    }
    Ok((config, Some(context)))
}

fn read_error(error: KubeconfigError, path: &Path, origin: &'static str) -> ConnectError {
    let path = path.to_path_buf();
    match error {
        KubeconfigError::ReadConfig(cause, _) => ConnectError::Unreadable { path, origin, cause: cause.to_string() },
        KubeconfigError::Parse(error) => {
            let place = error.location().map(|location| (location.line(), location.column()));
            ConnectError::Malformed { path, place }
        }
        _ => ConnectError::Malformed { path, place: None },
    }
}

fn describe_kubeconfig(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::LoadClusterOfContext(cluster) => format!("cluster {cluster:?} is missing"),
        KubeconfigError::MissingClusterUrl => "its cluster has no server".to_owned(),
        KubeconfigError::ParseClusterUrl(_) => "the server of its cluster is not a URL".to_owned(),
        KubeconfigError::ParseProxyUrl(_) => "its proxy (proxy-url, or $HTTPS_PROXY) is not a URL".to_owned(),
        KubeconfigError::ParseCertificates(_) => "its certificate authority holds no PEM certificates".to_owned(),
        // These errors contain file names and positions, never content.
        KubeconfigError::LoadCertificateAuthority(_)
        | KubeconfigError::LoadClientCertificate(_)
        | KubeconfigError::LoadClientKey(_) => error.to_string(),
        _ => "it is incomplete".to_owned(),
    }
}

fn describe_client_error(error: kube::Error) -> String {
    match error {
        kube::Error::Auth(error) => describe_auth(&error),
        kube::Error::InferKubeconfig(error) => describe_kubeconfig(&error),
        kube::Error::ProxyProtocolDisabled { .. } | kube::Error::ProxyProtocolUnsupported { .. } => {
            "nodecfg does not support its proxy (proxy-url, or $HTTPS_PROXY); add the host of the server to $NO_PROXY if \
             the server is reachable without a proxy"
                .to_owned()
        }
        kube::Error::RustlsTls(error) => format!("its certificates cannot be used: {error}"),
        other => AttemptError::of_client(other).summary(),
    }
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
