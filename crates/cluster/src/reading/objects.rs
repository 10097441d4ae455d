//! Reads of objects of any kind, found by discovery. Gates read such objects; nodecfg itself uses known kinds only.
//!
//! Requests are sent once: the caller asks again after its interval.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::Value;

use super::reader::ClusterReader;
use crate::connection::failure::AttemptError;
use crate::connection::operation::escape;
use crate::connection::transport::{Call, Transport};
use http_body_util::{BodyExt as _, Limited};
use kubelet_config::values::label::check_dns_label;
use nodecfg_contract::{ObjectId, ObjectRef};

/// Limit of the bytes read from a response. etcd's default limit is 1.5 MiB for an object.
const LIMIT: usize = 2 << 20;
/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Kinds of one group and version, by `kind`.
type Kinds = Arc<BTreeMap<String, ServedKind>>;

/// Reader of objects of any kind. It asks once for the kinds of each group and version. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ObjectReader {
    transport: Transport,
    known: Arc<Mutex<BTreeMap<String, Kinds>>>,
}

/// Reason why an object was not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The server does not serve the kind.
    #[error("the API server does not serve {kind} of {api_version}; see `kubectl api-resources`")]
    NotServed {
        /// Requested kind.
        kind: String,
        /// Requested group and version.
        api_version: String,
    },
    /// The kind is namespaced and the request is not, or the reverse.
    #[error("{}", if *.namespaced {
        format!("{kind} is in a namespace; add `namespace` to the gate")
    } else {
        format!("{kind} is in no namespace; remove `namespace` from the gate")
    })]
    WrongScope {
        /// Requested kind.
        kind: String,
        /// Whether objects of the kind are in namespaces.
        namespaced: bool,
    },
    /// The user has no right to read the object.
    #[error("reading {object} is forbidden; grant the verb {verb} on {resource}")]
    Forbidden {
        /// The object.
        object: String,
        /// Verb of the request.
        verb: &'static str,
        /// Resource as in a Role.
        resource: String,
    },
    /// The object does not exist.
    #[error("{object} is missing; check its namespace and its name or label")]
    Missing {
        /// The object.
        object: String,
    },
    /// Several objects have the label.
    #[error("several objects are {object}; only one may have the label")]
    Ambiguous {
        /// The object.
        object: String,
    },
    /// Another failure.
    #[error("{object} cannot be read: {cause}")]
    Failed {
        /// The object, or the group and version.
        object: String,
        /// The cause.
        cause: String,
    },
}

/// A kind in a discovery document (meta/v1 `APIResource`).
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServedKind {
    /// Plural; subresources contain a slash.
    name: String,
    kind: String,
    #[serde(default)]
    namespaced: bool,
}

/// A list of objects of any kind.
#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Value>,
}

#[derive(Debug, Deserialize)]
struct ServedKinds {
    #[serde(default)]
    resources: Vec<ServedKind>,
}

impl ClusterReader {
    /// Reader of objects of any kind on the same connection.
    #[must_use]
    pub fn objects(&self) -> ObjectReader {
        ObjectReader { transport: self.transport.clone(), known: Arc::default() }
    }
}

impl ObjectReader {
    /// Reads an object.
    ///
    /// # Errors
    /// The kind is not served, the object is missing or forbidden, or the server does not answer. Nothing is retried.
    pub async fn get(&self, wanted: &ObjectRef) -> Result<Value, ObjectError> {
        let ObjectRef { api_version, kind, namespace, by } = wanted;
        let kinds = self.kinds(api_version).await?;
        let not_served = || ObjectError::NotServed { kind: kind.clone(), api_version: api_version.clone() };
        let served = kinds.get(kind).ok_or_else(not_served)?;
        if served.namespaced != namespace.is_some() {
            return Err(ObjectError::WrongScope { kind: kind.clone(), namespaced: served.namespaced });
        }
        let scope = namespace.as_ref().map(|name| format!("/namespaces/{}", escape(name.as_str()))).unwrap_or_default();
        let all = format!("{}{scope}/{}", root(api_version), escape(&served.name));
        let object = wanted.to_string();
        let found = match by {
            ObjectId::Name(name) => self.read::<Value>(format!("{all}/{}", escape(name))).await,
            ObjectId::Label { key, value } => {
                let selector = escape(&format!("{key}={value}"));
                let path = format!("{all}?labelSelector={selector}&limit=2");
                match self.read::<List>(path).await.map(|list| <[Value; 1]>::try_from(list.items)) {
                    Ok(Ok([only])) => Ok(only),
                    Ok(Err(items)) if items.is_empty() => return Err(ObjectError::Missing { object }),
                    Ok(Err(_)) => return Err(ObjectError::Ambiguous { object }),
                    Err(error) => Err(error),
                }
            }
        };
        match found {
            Ok(found) => Ok(found),
            Err(AttemptError::Status { code: 403, .. }) => {
                let group = api_version.split_once('/').map(|(group, _)| format!(".{group}")).unwrap_or_default();
                let verb = if matches!(by, ObjectId::Name(_)) { "get" } else { "list" };
                Err(ObjectError::Forbidden { object, verb, resource: format!("{}{group}", served.name) })
            }
            Err(AttemptError::Status { code: 404, .. }) => {
                // The kind may have been removed since discovery.
                self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(api_version);
                Err(ObjectError::Missing { object })
            }
            Err(error) => Err(ObjectError::Failed { object, cause: error.summary() }),
        }
    }

    /// Kinds of a group and version. Only successes are cached, because a missing kind may be installed later.
    async fn kinds(&self, api_version: &str) -> Result<Kinds, ObjectError> {
        if let Some(kinds) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(api_version) {
            return Ok(Arc::clone(kinds));
        }
        let served = match self.read::<ServedKinds>(root(api_version)).await {
            Ok(served) => served,
            Err(AttemptError::Status { code: 404, .. }) => ServedKinds { resources: Vec::new() },
            Err(error) => {
                let object = format!("the list of kinds of {api_version}");
                return Err(ObjectError::Failed { object, cause: error.summary() });
            }
        };
        // Subresources have a slash. An aggregated server may send any text, which would become a part of a path.
        let kinds = served.resources.into_iter().filter(|kind| check_dns_label(&kind.name).is_ok());
        let kinds: Kinds = Arc::new(kinds.map(|kind| (kind.kind.clone(), kind)).collect());
        if !kinds.is_empty() {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            known.insert(api_version.to_owned(), Arc::clone(&kinds));
        }
        Ok(kinds)
    }

    async fn read<T: serde::de::DeserializeOwned>(&self, path: String) -> Result<T, AttemptError> {
        let call = Call::new(Method::GET, path);
        let exchange = async {
            let response = self.transport.open(&call).await?;
            let body = Limited::new(response.into_body(), LIMIT).collect().await;
            let bytes = body.map_err(|error| AttemptError::Lost(cut(&*error)))?.to_bytes();
            // The text of the error may quote the response.
            serde_json::from_slice(&bytes)
                .map_err(|_| AttemptError::Unreadable("the response is not readable".to_owned()))
        };
        let limit = self.transport.limits.attempt.min(TIMEOUT);
        tokio::time::timeout(limit, exchange).await.unwrap_or(Err(AttemptError::TooSlow(limit)))
    }
}

fn cut(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    if error.is::<http_body_util::LengthLimitError>() {
        format!("the response is larger than {} MiB", LIMIT >> 20)
    } else {
        error.to_string()
    }
}

/// Path of a group and version.
fn root(api_version: &str) -> String {
    match api_version.split_once('/') {
        Some((group, version)) => format!("/apis/{}/{}", escape(group), escape(version)),
        None => format!("/api/{}", escape(api_version)),
    }
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
