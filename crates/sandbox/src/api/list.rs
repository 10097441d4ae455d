//! Lists: selection, pages, continue tokens and revisions.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::Api;
use super::object::StoredObject;
use super::request::{Query, ResponseFormat};
use super::resource::Resource;
use super::selectors::Selector;
use super::status::{ApiError, ApiResult};
use super::store::{RevisionError, Store, key};
use super::view::View;

/// Size at which a list chunk is sent, in bytes.
const CHUNK: usize = 256 * 1024;

/// A page of a list.
pub(crate) struct Page {
    /// Objects, in order.
    pub(crate) objects: Vec<Arc<StoredObject>>,
    /// Metadata of the list.
    pub(crate) metadata: Value,
}

/// Position at which a list continues.
struct ContinueToken {
    revision: Option<u64>,
    start: String,
}

impl ContinueToken {
    fn encode(revision: i64, start: &str) -> String {
        URL_SAFE_NO_PAD
            .encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": format!("{start}\0")}).to_string())
    }

    fn decode(text: &str) -> ApiResult<Self> {
        let bad = |why: &str| ApiError::bad_request(format!("continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|error| bad(&error.to_string()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|error| bad(&error.to_string()))?;
        let version =
            token.get("rv").and_then(Value::as_i64).ok_or_else(|| bad("incorrect encoded start resourceVersion"))?;
        let start = token.get("start").and_then(Value::as_str).unwrap_or_default();
        Ok(Self { revision: u64::try_from(version).ok(), start: start.to_owned() })
    }
}

/// Returns the candidates for a selector. A selector by name reads at most one object, unless it needs an older
/// revision or all namespaces.
pub(crate) fn select(
    store: &Store,
    resource: &Resource,
    namespace: &str,
    start: &str,
    at: Option<u64>,
    selector: &Selector,
) -> Result<Vec<Arc<StoredObject>>, RevisionError> {
    match selector.fields.name() {
        Some(name) if at.is_none() && resource.namespaced != namespace.is_empty() => {
            Ok(store.get(&resource.collection, &key(namespace, name)).into_iter().collect())
        }
        _ => store.scan(&resource.collection, namespace, start, at),
    }
}

/// Reads a page.
///
/// # Errors
/// 400 for invalid options, 410 for a compacted revision, 504 for a future revision.
pub(crate) fn page(api: &Api, resource: &Resource, namespace: &str, query: &Query) -> ApiResult<Page> {
    let selector = Selector::of(query, resource.resource_type)?;
    let limit = query.number("limit")?;
    let version = query.number("resourceVersion")?;
    let token = match query.text("continue") {
        "" => None,
        _ if version.is_some() => {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        text => Some(ContinueToken::decode(text)?),
    };
    // A limit turns an unqualified resourceVersion into an exact one (apimachinery, since 1.19).
    let exact = match query.text("resourceVersionMatch") {
        "Exact" => true,
        "" => limit.is_some(),
        _ => false,
    };
    let at = match (&token, version) {
        (Some(token), _) => token.revision,
        (None, Some(version)) if exact => Some(version),
        _ => None,
    };
    let start = token.as_ref().map_or("", |token| token.start.as_str());
    let store = api.lock();
    let current = store.revision();
    if let (None, Some(version)) = (at, version.filter(|version| *version > current)) {
        return Err(ApiError::too_new(version, current));
    }
    let found = select(&store, resource, namespace, start, at, &selector).map_err(|error| match (error, &token) {
        (RevisionError::Future(current), _) => ApiError::too_new(at.unwrap_or_default(), current),
        (RevisionError::Compacted(_), Some(token)) => {
            ApiError::expired_continue(ContinueToken::encode(-1, token.start.trim_end_matches('\0')))
        }
        (RevisionError::Compacted(_), None) => {
            ApiError::expired("The resourceVersion for the provided list is too old.")
        }
    })?;
    drop(store);
    let shown = at.unwrap_or(current);
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), shown.to_string().into());
    let total = found.len();
    let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX);
    let mut objects = Vec::with_capacity(total.min(limit));
    let mut rest = found.into_iter().filter(|stored| selector.matches(stored));
    objects.extend(rest.by_ref().take(limit));
    if let (Some(last), Some(_)) = (objects.last(), rest.next()) {
        let key = key(if resource.namespaced { &last.namespace } else { "" }, &last.name);
        let revision = i64::try_from(shown).unwrap_or(i64::MAX);
        metadata.insert("continue".to_owned(), ContinueToken::encode(revision, &key).into());
        if selector.is_empty() {
            metadata.insert("remainingItemCount".to_owned(), (total - objects.len()).into());
        }
    }
    Ok(Page { objects, metadata: Value::Object(metadata) })
}

/// Body of a list. Each chunk is built when sent, so that a long list is never in memory as a whole.
pub(crate) struct ListBody {
    api: Api,
    resource: Arc<Resource>,
    format: ResponseFormat,
    opening: Option<Vec<u8>>,
    objects: std::vec::IntoIter<Arc<StoredObject>>,
    first: bool,
    closed: bool,
}

/// Returns the body of a page.
pub(crate) fn list_body(
    api: &Api,
    resource: &Arc<Resource>,
    format: ResponseFormat,
    include: &str,
    page: Page,
) -> ListBody {
    let view = View { api, resource, format, include };
    let mut chunks = ListBody {
        api: api.clone(),
        resource: resource.clone(),
        format,
        opening: None,
        objects: Vec::new().into_iter(),
        first: true,
        closed: false,
    };
    if format == ResponseFormat::Table {
        let objects: Vec<Value> = page.objects.iter().map(|stored| stored.value()).collect();
        chunks.opening = Some(view.table(&objects, &page.metadata, false).to_string().into_bytes());
        chunks.closed = true;
        return chunks;
    }
    let metadata = page.metadata;
    let (kind, version) = match format {
        ResponseFormat::Metadata => ("PartialObjectMetadataList".to_owned(), "meta.k8s.io/v1".to_owned()),
        _ => (resource.list_kind.clone(), resource.api_version()),
    };
    let opening = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{version}\",\"metadata\":{metadata},\"items\":[");
    chunks.opening = Some(opening.into_bytes());
    chunks.objects = page.objects.into_iter();
    chunks
}

impl Iterator for ListBody {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        let mut buffer = self.opening.take().unwrap_or_default();
        if self.closed {
            return (!buffer.is_empty()).then(|| buffer.into());
        }
        let view = View { api: &self.api, resource: &self.resource, format: self.format, include: "" };
        for stored in self.objects.by_ref() {
            if !std::mem::take(&mut self.first) {
                buffer.push(b',');
            }
            let (opening, item) = view.item(&stored);
            buffer.extend_from_slice(opening);
            buffer.extend_from_slice(&item);
            if buffer.len() > CHUNK {
                return Some(buffer.into());
            }
        }
        buffer.extend_from_slice(b"]}");
        self.closed = true;
        Some(buffer.into())
    }
}
