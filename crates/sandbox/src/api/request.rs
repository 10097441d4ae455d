//! Parsing of requests: paths, queries, accepted formats and content types.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, Uri, header};

use super::status::{ApiError, ApiResult};

/// Endpoint of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz` and their subpaths.
    Health,
    /// Discovery and OpenAPI.
    Document,
    /// A resource.
    Resource(ResourcePath),
    /// Any other path.
    Unknown,
}

/// A path to a collection, an object or a subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// API group; empty for core.
    pub(crate) group: String,
    /// API version.
    pub(crate) version: String,
    /// Namespace; empty for cluster-scoped resources and for all namespaces.
    pub(crate) namespace: String,
    /// Plural name of the resource.
    pub(crate) resource: String,
    /// Name; empty for a collection.
    pub(crate) name: String,
    /// Subresource; empty for none.
    pub(crate) subresource: String,
}

impl ResourcePath {
    /// Resource and subresource as in rights: `nodes`, `nodes/status`.
    pub(crate) fn resource_text(&self) -> String {
        let Self { resource, subresource, .. } = self;
        if subresource.is_empty() { resource.clone() } else { format!("{resource}/{subresource}") }
    }
}

/// Decodes percent-encoding. Segments with invalid UTF-8 stay unchanged, because no object has such a name.
fn decoded(segment: &str) -> String {
    if !segment.contains('%') {
        return segment.to_owned();
    }
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let [first, tail @ ..] = rest {
        let pair = tail.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_owned())
}

impl Route {
    /// Parses a path.
    pub(crate) fn of(path: &str) -> Self {
        let segments: Vec<String> = path.split('/').filter(|s| !s.is_empty()).map(decoded).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments.as_slice() {
            ["version"] => Self::Version,
            ["healthz" | "livez" | "readyz", ..] => Self::Health,
            ["api"] | ["apis"] | ["openapi", ..] | ["api", _] | ["apis", _] | ["apis", _, _] => Self::Document,
            ["api", version, rest @ ..] => Self::resource("", version, rest),
            ["apis", group, version, rest @ ..] => Self::resource(group, version, rest),
            _ => Self::Unknown,
        }
    }

    fn resource(group: &str, version: &str, rest: &[&str]) -> Self {
        let (namespace, resource, name, subresource) = match rest {
            ["namespaces", name, sub @ ("status" | "finalize")] => (*name, "namespaces", *name, *sub),
            ["namespaces", name] => (*name, "namespaces", *name, ""),
            ["namespaces", namespace, resource] => (*namespace, *resource, "", ""),
            ["namespaces", namespace, resource, name] => (*namespace, *resource, *name, ""),
            ["namespaces", namespace, resource, name, sub] => (*namespace, *resource, *name, *sub),
            [resource] => ("", *resource, "", ""),
            [resource, name] => ("", *resource, *name, ""),
            ["nodes", name, "proxy", ..] => ("", "nodes", *name, "proxy"),
            [resource, name, sub] => ("", *resource, *name, *sub),
            _ => return Self::Unknown,
        };
        Self::Resource(ResourcePath {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace: namespace.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            subresource: subresource.to_owned(),
        })
    }
}

/// Query of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Parses a query. The first value of a repeated key counts, as in Go.
    ///
    /// # Errors
    /// 400 for an invalid encoding.
    pub(crate) fn of(uri: &Uri) -> ApiResult<Self> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut query = BTreeMap::new();
        for (key, value) in pairs.0 {
            query.entry(key).or_insert(value);
        }
        Ok(Self(query))
    }

    /// Returns a parameter; empty if missing.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// Returns a boolean parameter: `true` and `1` are true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.text(key), "true" | "1")
    }

    /// Returns a number; `None` if missing or zero.
    ///
    /// # Errors
    /// 400 for an invalid number.
    pub(crate) fn number(&self, key: &str) -> ApiResult<Option<u64>> {
        match self.text(key) {
            "" => Ok(None),
            text => match text.parse::<u64>() {
                Ok(0) => Ok(None),
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(ApiError::bad_request(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))),
            },
        }
    }

    /// Reports whether the request is a dry run.
    ///
    /// # Errors
    /// 400 for any value but `All` and the empty one.
    pub(crate) fn dry_run(&self, options: &str) -> ApiResult<bool> {
        dry_run(self.text("dryRun"), options)
    }
}

/// Parses a value of `dryRun`. `options` is the kind in the error message.
///
/// # Errors
/// 400 for any value but `All` and the empty one.
pub(crate) fn dry_run(value: &str, options: &str) -> ApiResult<bool> {
    match value {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            Err(ApiError::bad_request(format!("{options}: dryRun {other:?} is not supported; the only value is All")))
        }
    }
}

/// Format of the objects in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// Full objects.
    Plain,
    /// `PartialObjectMetadata` and its list.
    Metadata,
    /// `Table`.
    Table,
}

/// Returns the first accepted format that the server supports.
///
/// # Errors
/// 406 if the server supports none of them.
pub(crate) fn accepted(headers: &HeaderMap) -> ApiResult<ResponseFormat> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.is_empty() {
        return Ok(ResponseFormat::Plain);
    }
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let media = parts.next().unwrap_or_default();
        if !matches!(media, "application/json" | "application/*" | "*/*" | "") {
            continue;
        }
        let parameters: BTreeMap<&str, &str> = parts.filter_map(|part| part.split_once('=')).collect();
        let ours = parameters.get("g").is_none_or(|group| *group == "meta.k8s.io")
            && parameters.get("v").is_none_or(|version| *version == "v1");
        match parameters.get("as").copied() {
            None => return Ok(ResponseFormat::Plain),
            Some("Table") if ours => return Ok(ResponseFormat::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if ours => return Ok(ResponseFormat::Metadata),
            Some(_) => {}
        }
    }
    Err(ApiError::not_acceptable())
}

/// Returns the media type of the body, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the field manager: the parameter, or else the client name in `User-Agent`.
pub(crate) fn manager(query: &Query, headers: &HeaderMap) -> String {
    let asked = query.text("fieldManager");
    if !asked.is_empty() {
        return asked.to_owned();
    }
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    match agent.split('/').next().unwrap_or_default() {
        "" => "unknown".to_owned(),
        name => name.chars().filter(|c| !c.is_control()).take(128).collect(),
    }
}

/// Returns the verb for authorization.
///
/// # Errors
/// 405 for a method that the path does not support.
pub(crate) fn verb(method: &Method, path: &ResourcePath, query: &Query) -> ApiResult<&'static str> {
    Ok(match (method.as_str(), path.name.is_empty()) {
        ("GET" | "HEAD", true) if query.flag("watch") => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("POST", true) => "create",
        ("POST", false) if path.subresource == "eviction" => "create",
        ("PUT", false) => "update",
        ("PATCH", false) => "patch",
        ("DELETE", false) => "delete",
        ("DELETE", true) => "deletecollection",
        _ => return Err(ApiError::method_not_allowed()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> ResourcePath {
        match Route::of(text) {
            Route::Resource(path) => path,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn parses_paths() {
        assert_eq!(Route::of("/healthz/ping"), Route::Health);
        assert_eq!(Route::of("/apis/a.b/v1"), Route::Document);
        assert_eq!(Route::of("/nope"), Route::Unknown);
        let cm = path("/api/v1/namespaces/kube-system/configmaps/a%20b");
        assert_eq!(
            (cm.namespace.as_str(), cm.resource.as_str(), cm.name.as_str()),
            ("kube-system", "configmaps", "a b")
        );
        let ns = path("/api/v1/namespaces/x/status");
        assert_eq!((ns.resource.as_str(), ns.name.as_str(), ns.subresource.as_str()), ("namespaces", "x", "status"));
        let cr = path("/apis/nodecfg.dev/v1alpha1/nodeconfigs/n/status");
        assert_eq!(
            (cr.group.as_str(), cr.version.as_str(), cr.subresource.as_str()),
            ("nodecfg.dev", "v1alpha1", "status")
        );
    }

    #[test]
    fn selects_first_supported_format() {
        let format = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            accepted(&headers).map_err(|error| error.code)
        };
        assert_eq!(format("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), Ok(ResponseFormat::Table));
        assert_eq!(
            format("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"),
            Ok(ResponseFormat::Plain)
        );
        assert_eq!(
            format("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"),
            Ok(ResponseFormat::Metadata)
        );
        assert_eq!(format("application/vnd.kubernetes.protobuf,application/json"), Ok(ResponseFormat::Plain));
        assert_eq!(format("text/html"), Err(406));
    }
}
