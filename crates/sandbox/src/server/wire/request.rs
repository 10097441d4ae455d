//! API request attributes parsed from method, path, query and headers, as apiserver's `RequestInfoFactory` does.

use std::fmt;

use http::header::ACCEPT;
use http::{HeaderMap, Method, Uri};

/// Requested form of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// Complete objects.
    Whole,
    /// `PartialObjectMetadata`: metadata only.
    Metadata,
    /// `Table`: printable rows.
    Table,
}

/// Attributes of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequest {
    /// HTTP method.
    pub method: Method,
    /// Path as sent.
    pub path: String,
    /// Query as sent, or empty.
    pub query: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `other`. A GET or HEAD
    /// without a resource is `get`.
    pub verb: &'static str,
    /// API group; empty for core and without a resource.
    pub group: String,
    /// Resource, with its subresource after a slash: `nodes`, `nodes/status`. Empty for discovery and similar
    /// requests.
    pub resource: String,
    /// Namespace; empty for cluster-scoped resources and across all namespaces.
    pub namespace: String,
    /// Object name; empty for collections.
    pub name: String,
    /// Set for a dry run: any nonempty `dryRun`. The API server refuses values other than `All`.
    pub dry_run: bool,
    /// Requested form of the response.
    pub form: Form,
}

impl ApiRequest {
    /// Parses a request.
    #[must_use]
    pub fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let query = uri.query().unwrap_or_default();
        let mut request = Self {
            method: method.clone(),
            path: uri.path().to_owned(),
            query: query.to_owned(),
            verb: "",
            group: String::new(),
            resource: String::new(),
            namespace: String::new(),
            name: String::new(),
            dry_run: query_value(query, "dryRun").is_some_and(|value| !value.is_empty()),
            form: form(headers),
        };
        request.read_path(uri.path());
        request.verb = verb(method, query, &request);
        request
    }

    /// Reports whether the request changes objects if it succeeds.
    #[must_use]
    pub fn writes(&self) -> bool {
        !self.dry_run && matches!(self.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    fn read_path(&mut self, path: &str) {
        let mut parts = path.split('/').filter(|part| !part.is_empty());
        let group = match parts.next() {
            Some("api") => "",
            Some("apis") => parts.next().unwrap_or_default(),
            _ => return,
        };
        let Some(_version) = parts.next() else { return };
        let rest: Vec<&str> = parts.collect();
        let (namespace, rest) = match rest.as_slice() {
            // `namespaces/x` and its subresources are the namespace itself; other paths are inside the namespace.
            ["namespaces", name, kind, rest @ ..] if !matches!(*kind, "status" | "finalize") => {
                (*name, [&[*kind], rest].concat())
            }
            other => ("", other.to_vec()),
        };
        let Some(resource) = rest.first() else { return };
        self.group = group.to_owned();
        self.namespace = namespace.to_owned();
        self.name = rest.get(1).copied().unwrap_or_default().to_owned();
        self.resource = match rest.get(2) {
            Some(subresource) => format!("{resource}/{subresource}"),
            None => (*resource).to_owned(),
        };
    }
}

impl fmt::Display for ApiRequest {
    /// Writes `GET /api/v1/nodes?limit=500`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        Ok(())
    }
}

fn verb(method: &Method, query: &str, request: &ApiRequest) -> &'static str {
    let collection = request.name.is_empty();
    match *method {
        Method::GET | Method::HEAD if request.resource.is_empty() => "get",
        Method::GET | Method::HEAD if watches(query) => "watch",
        Method::GET | Method::HEAD if collection => "list",
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE if collection => "deletecollection",
        Method::DELETE => "delete",
        _ => "other",
    }
}

fn watches(query: &str) -> bool {
    query_value(query, "watch").is_some_and(|value| matches!(value, "1" | "true" | "True" | "TRUE" | "t" | "T" | ""))
}

/// First value of a query parameter without percent-decoding, which suffices for flags and base64url.
pub(super) fn query_value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

fn form(headers: &HeaderMap) -> Form {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    // Table wins over metadata, and both over plain JSON: kubectl lists Table first, then plain JSON.
    if accept.contains("as=Table") {
        Form::Table
    } else if accept.contains("as=PartialObjectMetadata") {
        Form::Metadata
    } else {
        Form::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, uri: &str) -> ApiRequest {
        ApiRequest::of(&method, &uri.parse().expect("is a URI"), &HeaderMap::new())
    }

    #[test]
    fn parses_verbs_and_resources() {
        let cases = [
            (Method::GET, "/api/v1/nodes?limit=500", "list", "", "nodes", "", ""),
            (Method::GET, "/api/v1/nodes?watch=true&resourceVersion=4", "watch", "", "nodes", "", ""),
            (Method::GET, "/api/v1/nodes?watch=false", "list", "", "nodes", "", ""),
            (Method::GET, "/api/v1/nodes/n1", "get", "", "nodes", "", "n1"),
            (Method::PATCH, "/api/v1/nodes/n1/status", "patch", "", "nodes/status", "", "n1"),
            (Method::POST, "/api/v1/namespaces/a/configmaps", "create", "", "configmaps", "a", ""),
            (Method::DELETE, "/api/v1/namespaces/a/configmaps", "deletecollection", "", "configmaps", "a", ""),
            (Method::DELETE, "/api/v1/namespaces/a/configmaps/c", "delete", "", "configmaps", "a", "c"),
            (Method::GET, "/api/v1/namespaces/a", "get", "", "namespaces", "", "a"),
            (Method::PUT, "/api/v1/namespaces/a/status", "update", "", "namespaces/status", "", "a"),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
                "update",
                "coordination.k8s.io",
                "leases",
                "a",
                "l",
            ),
            (Method::GET, "/apis/nodecfg.dev/v1alpha1/nodeconfigs", "list", "nodecfg.dev", "nodeconfigs", "", ""),
            (Method::GET, "/version", "get", "", "", "", ""),
            (Method::GET, "/apis/nodecfg.dev", "get", "", "", "", ""),
            (Method::GET, "/api/v1", "get", "", "", "", ""),
        ];
        for (method, uri, verb, group, resource, namespace, name) in cases {
            let request = of(method, uri);
            assert_eq!(
                (request.verb, &*request.group, &*request.resource, &*request.namespace, &*request.name),
                (verb, group, resource, namespace, name),
                "{uri}"
            );
        }
    }

    #[test]
    fn dry_run_is_not_a_write() {
        assert!(of(Method::PATCH, "/api/v1/nodes/n").writes());
        assert!(!of(Method::PATCH, "/api/v1/nodes/n?dryRun=All").writes());
        assert!(!of(Method::GET, "/api/v1/nodes/n").writes());
    }

    #[test]
    fn form_follows_accept_header() {
        for (accept, form) in [
            ("application/json", Form::Whole),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Form::Table),
            ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", Form::Metadata),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, accept.parse().expect("is a header value"))]);
            let request = ApiRequest::of(&Method::GET, &Uri::from_static("/api/v1/nodes"), &headers);
            assert_eq!(request.form, form, "{accept}");
        }
    }
}
