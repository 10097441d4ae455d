//! What a request asks for: the path, the query and the content types, taken apart.

use std::collections::BTreeMap;

use http::{HeaderMap, Method, Uri, header};

use super::status::{ApiError, ApiResult};

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// `/version`.
    Version,
    /// `/healthz`, `/livez`, `/readyz` and what is below them.
    Health,
    /// Discovery and OpenAPI.
    Document,
    /// A resource.
    Resource(ResourcePath),
    /// None of these.
    Unknown,
}

/// A path to a collection, an object or a subresource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ResourcePath {
    /// API group; empty for core.
    pub(crate) group: String,
    /// API version.
    pub(crate) version: String,
    /// Namespace; empty for none and for all.
    pub(crate) namespace: String,
    /// Plural name of the resource.
    pub(crate) resource: String,
    /// Name; empty for the collection.
    pub(crate) name: String,
    /// Subresource; empty for none.
    pub(crate) subresource: String,
}

/// Undoes percent-encoding; what is not UTF-8 afterwards names nothing and stays as it is.
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
    /// Takes a path apart.
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

/// The query of a request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(BTreeMap<String, String>);

impl Query {
    /// Takes a query apart. Of a key that is given twice the first counts, as in Go.
    ///
    /// # Errors
    /// 400 when it is not URL-encoded.
    pub(crate) fn of(uri: &Uri) -> ApiResult<Self> {
        let pairs = axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        let mut query = BTreeMap::new();
        for (key, value) in pairs.0 {
            query.entry(key).or_insert(value);
        }
        Ok(Self(query))
    }

    /// A parameter; empty when it is not given.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.0.get(key).map_or("", String::as_str)
    }

    /// A switch: `true` and `1` turn it on.
    pub(crate) fn flag(&self, key: &str) -> bool {
        matches!(self.text(key), "true" | "1")
    }

    /// A number; none when it is not given or is zero.
    ///
    /// # Errors
    /// 400 when it is not a number.
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

    /// Whether nothing is to be stored.
    ///
    /// # Errors
    /// 422 for any value but `All`.
    pub(crate) fn dry_run(&self, options: &str) -> ApiResult<bool> {
        dry_run(self.text("dryRun"), options)
    }
}

/// Reads a value of `dryRun`.
///
/// # Errors
/// 422 for any value but `All`.
pub(crate) fn dry_run(value: &str, options: &str) -> ApiResult<bool> {
    match value {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            let shown = format!("[]string{{{other:?}}}");
            let error = super::status::FieldError::not_supported("dryRun", &shown, &["\"All\"".to_owned()]);
            Err(ApiError::invalid(options, "meta.k8s.io", "", &[error]))
        }
    }
}

/// The form that an answer takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The objects.
    Plain,
    /// `PartialObjectMetadata` and its list.
    Metadata,
    /// `Table`.
    Table,
}

/// The best form that a client accepts and the server has.
///
/// # Errors
/// 406 when there is none.
pub(crate) fn accepted(headers: &HeaderMap) -> ApiResult<Form> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accept.is_empty() {
        return Ok(Form::Plain);
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
            None => return Ok(Form::Plain),
            Some("Table") if ours => return Ok(Form::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if ours => return Ok(Form::Metadata),
            Some(_) => {}
        }
    }
    Err(ApiError::not_acceptable())
}

/// The media type of the body, without parameters.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// The field manager: as asked for, else what the client calls itself.
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

/// The verb, as authorisation names it.
pub(crate) fn verb(method: &Method, path: &ResourcePath, query: &Query) -> ApiResult<&'static str> {
    Ok(match (method.as_str(), path.name.is_empty()) {
        ("GET" | "HEAD", true) if query.flag("watch") => "watch",
        ("GET" | "HEAD", true) => "list",
        ("GET" | "HEAD", false) => "get",
        ("POST", true) => "create",
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
    fn paths_are_taken_apart() {
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
    fn forms_are_negotiated_in_order() {
        let form = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            accepted(&headers).map_err(|error| error.code)
        };
        assert_eq!(form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), Ok(Form::Table));
        assert_eq!(form("application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"), Ok(Form::Plain));
        assert_eq!(form("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), Ok(Form::Metadata));
        assert_eq!(form("application/vnd.kubernetes.protobuf,application/json"), Ok(Form::Plain));
        assert_eq!(form("text/html"), Err(406));
    }
}
