//! Endless list and watch of a collection, as the simulated components of a cluster use it. A watch that ends is opened
//! again at its last version. One that has expired starts with a new list.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::TryStreamExt as _;
use kube::Client;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Requested duration of one watch, seconds; the same value that client libraries use.
const WATCH_SECONDS: u32 = 290;
/// Pause between two watches. It prevents a tight loop with a server that is unavailable.
const PAUSE: Duration = Duration::from_millis(100);

/// Metadata of an object, and of a list.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub deletion_timestamp: Option<String>,
    pub owner_references: Vec<Owner>,
}

/// Owner of an object.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Owner {
    pub uid: String,
    pub controller: bool,
}

/// An object, of which only parts are read. Parsing skips the rest, which may be large.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, bound(deserialize = "S: Deserialize<'de> + Default, T: Deserialize<'de> + Default"))]
pub struct Object<S, T> {
    pub metadata: Meta,
    pub spec: S,
    pub status: T,
}

impl<S: Part, T: Part> Object<S, T> {
    /// Reports whether more than the version and other unread parts differ.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let read = |Meta { labels, annotations, uid, generation, deletion_timestamp, .. }: &Meta| {
            (labels.clone(), annotations.clone(), uid.clone(), *generation, deletion_timestamp.clone())
        };
        read(&self.metadata) != read(&other.metadata) || self.spec != other.spec || self.status != other.status
    }
}

impl Meta {
    /// Version of the object, which increases with its changes.
    pub(crate) fn version(&self) -> u64 {
        self.resource_version.parse().unwrap_or_default()
    }
}

/// Spec or status of an object.
pub trait Part: DeserializeOwned + Clone + Default + PartialEq + Send + 'static {}

impl<P: DeserializeOwned + Clone + Default + PartialEq + Send + 'static> Part for P {}

/// Change that a watch delivers.
#[derive(Debug)]
pub enum Change<K> {
    /// A new list of the whole collection at a version. Objects missing from it were deleted, or are newer.
    Relist(Vec<K>, u64),
    /// An object was created or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
}

impl<K> Change<K> {
    /// The result of [`list`].
    pub(crate) fn relist(all: Vec<K>, version: &str) -> Self {
        Self::Relist(all, version.parse().unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct List<K> {
    metadata: Meta,
    #[serde(default = "Vec::new")]
    items: Vec<K>,
}

/// Lists a collection. Returns its objects and its version.
pub(crate) async fn list<K: DeserializeOwned>(client: &Client, path: &str) -> Result<(Vec<K>, String), kube::Error> {
    let request = Request::new(path).list(&ListParams::default()).map_err(kube::Error::BuildRequest)?;
    let List { metadata, items } = client.request(request).await?;
    Ok((items, metadata.resource_version))
}

/// Takes over the changes of a collection after `version`. Never ends.
pub(crate) async fn follow<S: Part, T: Part>(
    client: Client,
    path: &'static str,
    mut version: String,
    take_over: impl Fn(Change<Object<S, T>>),
) {
    loop {
        let mut ended = watch(&client, path, &mut version, &take_over).await;
        if ended.as_ref().is_err_and(expired) {
            ended = list(&client, path).await.map(|(all, listed)| {
                take_over(Change::relist(all, &listed));
                version = listed;
            });
        }
        if let Err(error) = ended {
            tracing::debug!(path, %error, "a watch of the sandbox failed; retrying");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Takes over changes until the watch ends.
async fn watch<S: Part, T: Part>(
    client: &Client,
    path: &str,
    version: &mut String,
    take_over: impl Fn(Change<Object<S, T>>),
) -> Result<(), kube::Error> {
    let params = WatchParams { timeout: Some(WATCH_SECONDS), bookmarks: true, ..WatchParams::default() };
    let request = Request::new(path).watch(&params, version).map_err(kube::Error::BuildRequest)?;
    let mut events = std::pin::pin!(client.request_events::<Object<S, T>>(request).await?);
    while let Some(event) = events.try_next().await? {
        let change = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => Change::Applied(object),
            WatchEvent::Deleted(object) => Change::Deleted(object),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                continue;
            }
            WatchEvent::Error(status) => return Err(kube::Error::Api(status)),
        };
        if let Change::Applied(object) | Change::Deleted(object) = &change {
            version.clone_from(&object.metadata.resource_version);
        }
        take_over(change);
    }
    Ok(())
}

/// Reports whether the requested version has expired.
fn expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410 || status.reason == "Expired" || status.reason == "Gone")
}
