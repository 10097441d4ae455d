//! Paged reading of whole collections. Decodes each object of a page separately and keeps only the requested parts.

use std::ops::RangeInclusive;

use http::Method;

use super::wire::{ListMeta, Page, PageContent, PageSize};
use crate::connection::error::ClusterError;
use crate::connection::operation::{Operation, escape};
use crate::connection::transport::{Call, MOST_OBJECTS, Transport};
use nodecfg_contract::names::NodeName;

/// Objects of the first page, whose size is unknown.
const FIRST_PAGE: usize = 250;
/// Size of a page in bytes: a compromise between the number of requests and the server's work for one request.
const PAGE_BYTES: usize = 4 << 20;
/// Limits of the objects of a page. Priority and Fairness counts a list of 1,000 objects as its largest request
/// (apiserver, `pkg/util/flowcontrol/request`: 100 objects for each of at most 10 seats).
const PAGES: RangeInclusive<usize> = 50..=1000;
/// Limit of the pages of a list. Even pages of the smallest size hold more objects than a cluster.
const MOST_PAGES: usize = 5000;
/// Limit of restarts of a list after expired continuations.
const LIST_RESTARTS: u32 = 3;

/// Objects of one kind, limited by an optional selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// Operation on the collection.
    pub operation: Operation,
    /// `fieldSelector` or `labelSelector`, and its value.
    pub selector: Option<(&'static str, String)>,
}

impl Collection {
    /// All objects.
    pub fn all(operation: Operation) -> Self {
        Self { operation, selector: None }
    }

    /// Objects that match a label selector.
    pub fn labelled(operation: Operation, selector: String) -> Self {
        Self { operation, selector: Some(("labelSelector", selector)) }
    }

    /// The object of this name, which may be missing. RBAC can grant list and watch of this collection by name
    /// (`resourceNames`).
    pub fn one(operation: Operation, name: &str) -> Self {
        Self { operation, selector: Some(("fieldSelector", format!("metadata.name={name}"))) }
    }

    /// The pods that are bound to a node.
    pub fn on_node(operation: Operation, node: &NodeName) -> Self {
        Self { operation, selector: Some(("fieldSelector", format!("spec.nodeName={node}"))) }
    }

    /// Path and query of a request, with these parameters.
    pub fn uri(&self, parameters: &str) -> String {
        let mut uri = format!("{}?{parameters}", self.operation.path());
        if let Some((kind, text)) = &self.selector {
            uri.push_str(&format!("&{kind}={}", escape(text)));
        }
        uri
    }
}

/// What `keep` returns for the JSON of the first object of a collection; `None` for an empty collection.
pub async fn any<T>(
    transport: &Transport,
    collection: Collection,
    keep: impl Fn(&[u8]) -> serde_json::Result<Option<T>>,
) -> Result<Option<T>, ClusterError> {
    let call = Call::new(Method::GET, collection.uri("limit=1"));
    let page = transport.call(&collection.operation, &call, || Page::new(&keep)).await?;
    Ok(page.items.into_iter().next())
}

/// Reads a collection from the cache of the API server, which may be some moments old. The server sends one page.
///
/// # Errors
/// Every [`ClusterError`] of a request.
pub async fn cached<T>(
    transport: &Transport,
    collection: &Collection,
    keep: impl Fn(&[u8]) -> serde_json::Result<Option<T>>,
) -> Result<Vec<T>, ClusterError> {
    let call = Call::new(Method::GET, collection.uri("resourceVersion=0"));
    Ok(transport.call(&collection.operation, &call, || Page::new(&keep)).await?.items)
}

/// Reads a whole collection and its version. `keep` decodes the JSON of each object. All pages have the same version,
/// so the result is consistent.
///
/// # Errors
/// Every [`ClusterError`] of a request; `Expired` when continuations expire repeatedly.
pub async fn list<T>(
    transport: &Transport,
    collection: &Collection,
    accept: &'static str,
    keep: impl Fn(&[u8]) -> serde_json::Result<Option<T>>,
) -> Result<(Vec<T>, String), ClusterError> {
    let operation = &collection.operation;
    let (mut restarts, mut pages) = (0, 0);
    let mut all = Vec::new();
    let mut next: Option<String> = None;
    let mut limit = FIRST_PAGE;
    loop {
        let mut uri = collection.uri(&format!("limit={limit}"));
        if let Some(next) = &next {
            uri.push_str("&continue=");
            uri.push_str(&escape(next));
        }
        let call = Call::new(Method::GET, uri).accept(accept);
        match transport.call(operation, &call, || Page::new(&keep)).await {
            Ok(PageContent { items, size, meta: ListMeta { resource_version, next: continuation } }) => {
                all.extend(items);
                pages += 1;
                if pages > MOST_PAGES || all.len() > MOST_OBJECTS {
                    let message = "the list does not end".to_owned();
                    return Err(ClusterError::Unexpected { operation: Box::new(operation.clone()), message });
                }
                limit = next_limit(size, limit);
                next = continuation.filter(|token| !token.is_empty());
                if next.is_none() {
                    return Ok((all, resource_version.unwrap_or_default()));
                }
            }
            Err(ClusterError::Expired { .. }) if next.is_some() && restarts < LIST_RESTARTS => {
                restarts += 1;
                tracing::debug!(%operation, restarts, "the continuation expired; restarting the list");
                all.clear();
                next = None;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Number of objects of the page after one of this size. At most twice as many, because the next objects may be larger.
fn next_limit(size: PageSize, limit: usize) -> usize {
    let Some(each) = size.bytes.checked_div(size.objects) else { return limit };
    (PAGE_BYTES / each.max(1)).min(2 * limit).clamp(*PAGES.start(), *PAGES.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_about_the_same_size() {
        let after = |objects, each| next_limit(PageSize { objects, bytes: objects * each }, FIRST_PAGE);
        assert_eq!([800, 14_000, 50_000, 2 << 20].map(|each| after(250, each)), [500, 299, 83, 50]);
        assert_eq!(after(0, 1), FIRST_PAGE);
        let tiny = PageSize { objects: 9, bytes: 0 };
        assert_eq!([500, 501, 1000].map(|limit| next_limit(tiny, limit)), [1000; 3]);
    }
}
