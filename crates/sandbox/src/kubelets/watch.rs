//! Endless list and watch of a collection. A closed watch is reopened at its last version, and an expired one starts
//! with a new list. Requests to an unavailable server are retried with backoff.

use std::time::Duration;

use futures::TryStreamExt;
use kube::Client;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::requests::{Meta, Object};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Requested duration of one watch, seconds; the same value that client libraries use.
const WATCH_SECONDS: u32 = 290;
/// First and longest pause between attempts, before jitter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Change that a watch delivers.
#[derive(Debug)]
pub(crate) enum Change<K> {
    /// A new list of the whole collection; objects missing from it were deleted. Empty if only changes were
    /// requested.
    Relist(Vec<K>),
    /// An object was created or changed.
    Applied(K),
    /// An object was deleted.
    Deleted(K),
}

/// Collection to watch.
#[derive(Debug, Clone)]
pub(crate) struct Collection {
    pub path: &'static str,
    pub labels: Option<String>,
    /// Request changes only. The list then only returns the version at which the watch starts.
    pub only_changes: bool,
}

#[derive(Deserialize)]
struct Page<K> {
    metadata: Meta,
    #[serde(default = "Vec::new")]
    items: Vec<K>,
}

impl Collection {
    /// Lists the collection. With `only_changes`, returns only its version and no objects.
    pub(crate) async fn list<K: DeserializeOwned>(&self, client: &Client) -> Result<(Vec<K>, String), kube::Error> {
        let mut all = Vec::new();
        let mut continuation = None;
        loop {
            let params = ListParams {
                label_selector: self.labels.clone(),
                limit: Some(if self.only_changes { 1 } else { PAGE }),
                continue_token: continuation,
                ..ListParams::default()
            };
            let request = Request::new(self.path).list(&params).map_err(kube::Error::BuildRequest)?;
            let page: Page<K> = client.request(request).await?;
            if self.only_changes {
                return Ok((all, page.metadata.resource_version));
            }
            all.extend(page.items);
            continuation = page.metadata.continuation.filter(|token| !token.is_empty());
            if continuation.is_none() {
                return Ok((all, page.metadata.resource_version));
            }
        }
    }

    /// Delivers changes after `version`, and a new list after an expired watch, until the receiver is dropped.
    pub(crate) async fn follow<K>(self, client: Client, mut version: String, changes: mpsc::Sender<Change<K>>)
    where
        K: DeserializeOwned + Clone + Object + Send + 'static,
    {
        let mut pause = PAUSES.0;
        loop {
            let ended = match self.watch(&client, &mut version, &changes).await {
                Ok(()) if changes.is_closed() => return,
                Ok(()) => Ok(()),
                Err(error) if expired(&error) => match self.list(&client).await {
                    Ok((all, listed)) => {
                        version = listed;
                        if changes.send(Change::Relist(all)).await.is_err() {
                            return;
                        }
                        Ok(())
                    }
                    Err(error) => Err(error),
                },
                Err(error) => Err(error),
            };
            pause = match ended {
                Ok(()) => PAUSES.0,
                Err(error) => {
                    tracing::debug!(path = self.path, %error, "the simulated kubelets' watch failed; retrying");
                    PAUSES.1.min(pause * 2)
                }
            };
            // Prevents a tight loop with a server that closes every watch immediately.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        }
    }

    async fn watch<K>(
        &self,
        client: &Client,
        version: &mut String,
        changes: &mpsc::Sender<Change<K>>,
    ) -> Result<(), kube::Error>
    where
        K: DeserializeOwned + Clone + Object + Send + 'static,
    {
        let params = WatchParams {
            label_selector: self.labels.clone(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: true,
            ..WatchParams::default()
        };
        let request = Request::new(self.path).watch(&params, version).map_err(kube::Error::BuildRequest)?;
        let stream = client.request_events::<K>(request).await?;
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.try_next().await? {
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
                version.clone_from(&object.meta().resource_version);
            }
            if changes.send(change).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Reports whether the requested version has expired.
fn expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 410 || status.reason == "Expired" || status.reason == "Gone")
}
