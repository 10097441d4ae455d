//! Reading of a whole collection as the initial events of a watch (streaming list, KEP-3157). The API server sends its
//! cache object by object, and neither side holds a page.
//!
//! On by default since API server 1.34, and in 1.32 (gate WatchList). Its etcd must report progress
//! (3.4.25, 3.5.8 or later), else the server answers with an error.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use serde::Deserialize;

use super::follow::{GRACE, Lines, RawEvent};
use super::list::Collection;
use crate::connection::failure::AttemptError;
use crate::connection::transport::{Call, MOST_OBJECTS, Transport};
use nodecfg_contract::names::NodeName;
use nodecfg_contract::printable::remark;

/// Parameters of the request. Without a version, the list is consistent.
const INITIAL_EVENTS: &str =
    "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
/// Time after which the server ends the watch. The client ends it earlier, with the last initial event.
const LIMIT: Duration = Duration::from_secs(300);

/// The bookmark after the last initial event.
#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMeta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMeta {
    resource_version: Option<String>,
    #[serde(default)]
    annotations: BookmarkAnnotations,
}

#[derive(Default, Deserialize)]
struct BookmarkAnnotations {
    #[serde(rename = "k8s.io/initial-events-end")]
    initial_events_end: Option<String>,
}

/// Reads a whole collection by name, and its version, in one attempt. `keep` decodes the JSON of each object.
///
/// # Errors
/// Any failure. A server may refuse the request, or end the stream before its last event; the caller reads pages then.
pub(crate) async fn stream_list<T>(
    transport: &Transport,
    collection: &Collection,
    keep: impl Fn(&[u8]) -> serde_json::Result<Option<(NodeName, T)>>,
) -> Result<(BTreeMap<NodeName, T>, String), AttemptError> {
    let call = Call::new(Method::GET, collection.uri(&format!("{INITIAL_EVENTS}&timeoutSeconds={}", LIMIT.as_secs())));
    let limit = transport.limits.attempt.min(transport.limits.total);
    let too_slow = |_| AttemptError::TooSlow(limit);
    let end = nodecfg_clock::instant() + LIMIT + LIMIT / GRACE;
    let response = tokio::time::timeout(limit, transport.open(&call)).await.map_err(too_slow)??;
    let mut body = response.into_body();
    let (mut lines, mut all) = (Lines::default(), BTreeMap::new());
    loop {
        // The limit applies to each part: the whole of a large list may take longer.
        let next = end.min(nodecfg_clock::instant() + limit);
        let frame = tokio::time::timeout_at(next, body.frame()).await.map_err(too_slow)?;
        let Some(frame) = frame else {
            return Err(AttemptError::Lost("the list ended before its last object".to_owned()));
        };
        let frame = frame.map_err(AttemptError::of_client)?;
        lines.push(frame.data_ref().map(AsRef::as_ref).unwrap_or_default())?;
        while let Some(line) = lines.take() {
            let event = RawEvent::read(line)?;
            match &*event.kind {
                // Objects change before the last initial event, too.
                "ADDED" | "MODIFIED" if all.len() < MOST_OBJECTS => all.extend(event.keep(&keep)?),
                "ADDED" | "MODIFIED" => return Err(AttemptError::Unreadable("the list does not end".to_owned())),
                "DELETED" => {
                    if let Some((name, _)) = event.keep(&keep)? {
                        all.remove(&name);
                    }
                }
                "BOOKMARK" => {
                    let Bookmark { metadata } = event.decode()?;
                    let version =
                        metadata.resource_version.filter(|_| metadata.annotations.initial_events_end.is_some());
                    if let Some(version) = version {
                        return Ok((all, version));
                    }
                }
                other => {
                    return Err(AttemptError::Unreadable(format!("a list contains the event {:?}", remark(other))));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "streaming_list_tests.rs"]
mod tests;
