//! Reads whole collections, page by page. A page is never held whole: each object is decoded, and what is wanted of it kept.

use http::Method;
use serde::de::DeserializeOwned;

use super::error::ClusterError;
use super::operation::{Operation, escape};
use super::transport::{Call, Transport};
use super::wire::{ListMeta, Page};

/// Objects per page of a list: a compromise between requests and the work one request makes the server do.
const PAGE: usize = 250;
/// How often a list is begun anew because its continuation expired.
const LIST_RESTARTS: u32 = 3;

/// The objects of one kind, or those of them that a selector picks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collection {
    /// What is done with it.
    pub operation: Operation,
    /// `fieldSelector` or `labelSelector`, and its text.
    pub selector: Option<(&'static str, String)>,
}

impl Collection {
    /// All objects.
    pub fn all(operation: Operation) -> Self {
        Self { operation, selector: None }
    }

    /// Those whose labels are so.
    pub fn labelled(operation: Operation, selector: String) -> Self {
        Self { operation, selector: Some(("labelSelector", selector)) }
    }

    /// The one object of this name, which may not exist. What may be listed and watched so, may be granted by name (RBAC's
    /// `resourceNames`).
    pub fn one(operation: Operation, name: &str) -> Self {
        Self { operation, selector: Some(("fieldSelector", format!("metadata.name={name}"))) }
    }

    /// The address of a request of it, ending in these parameters.
    pub fn uri(&self, parameters: &str) -> String {
        let mut uri = format!("{}?{parameters}", self.operation.path());
        if let Some((kind, text)) = &self.selector {
            uri.push_str(&format!("&{kind}={}", escape(text)));
        }
        uri
    }
}

/// Any one object of a collection, if there is one.
///
/// # Errors
/// Every [`ClusterError`] of a request.
pub async fn any<W: DeserializeOwned, T>(
    transport: &Transport,
    collection: Collection,
    keep: impl Fn(W) -> Option<T>,
) -> Result<Option<T>, ClusterError> {
    let call = Call::new(Method::GET, collection.uri("limit=1"));
    let (items, _) = transport.call(&collection.operation, &call, || Page::new(&keep)).await?;
    Ok(items.into_iter().next())
}

/// Reads a whole collection and its version. The versions of all pages are one, so the result is a consistent picture.
///
/// # Errors
/// Every [`ClusterError`] of a request; `Expired` when continuations expire again and again.
pub async fn list<W: DeserializeOwned, T>(
    transport: &Transport,
    collection: &Collection,
    accept: &'static str,
    keep: impl Fn(W) -> Option<T>,
) -> Result<(Vec<T>, String), ClusterError> {
    let operation = &collection.operation;
    let mut restarts = 0;
    let mut all = Vec::new();
    let mut next: Option<String> = None;
    loop {
        let mut uri = collection.uri(&format!("limit={PAGE}"));
        if let Some(next) = &next {
            uri.push_str("&continue=");
            uri.push_str(&escape(next));
        }
        let call = Call::new(Method::GET, uri).accept(accept);
        match transport.call(operation, &call, || Page::new(&keep)).await {
            Ok((items, ListMeta { resource_version, next: continuation })) => {
                all.extend(items);
                next = continuation.filter(|token| !token.is_empty());
                if next.is_none() {
                    return Ok((all, resource_version.unwrap_or_default()));
                }
            }
            Err(ClusterError::Expired { .. }) if next.is_some() && restarts < LIST_RESTARTS => {
                restarts += 1;
                tracing::debug!(%operation, restarts, "the continuation expired; listing anew");
                all.clear();
                next = None;
            }
            Err(error) => return Err(error),
        }
    }
}
