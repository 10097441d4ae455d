//! Attributes of an API request, for the log and for faults.

use std::fmt;

use http::{HeaderMap, Method, Uri};

use crate::api::request::{self, Query, ResourcePath, ResponseFormat, Route};

/// Attributes of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiRequest {
    /// HTTP method.
    pub method: Method,
    /// Path as sent.
    pub path: String,
    /// Query as sent, or empty.
    pub query: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `other`. A request without
    /// a resource is `get`.
    pub verb: &'static str,
    /// Resource, with its subresource after a slash: `nodes`, `nodes/status`. Empty for discovery and similar
    /// requests.
    pub resource: String,
    /// Namespace; empty for cluster-scoped resources and across all namespaces.
    pub namespace: String,
    /// Object name; empty for collections.
    pub name: String,
    /// Set for a dry run: any nonempty `dryRun`. The API server refuses values other than `All`.
    pub dry_run: bool,
    /// Requested form of the objects in the response.
    pub format: ResponseFormat,
}

impl ApiRequest {
    /// Parses a request.
    #[must_use]
    pub fn of(method: &Method, uri: &Uri, headers: &HeaderMap) -> Self {
        let query = Query::of(uri).unwrap_or_default();
        let (verb, target) = match Route::of(uri.path()) {
            Route::Resource(target) => (request::verb(method, &target, &query).unwrap_or("other"), target),
            _ => ("get", ResourcePath::default()),
        };
        Self {
            method: method.clone(),
            path: uri.path().to_owned(),
            query: uri.query().unwrap_or_default().to_owned(),
            verb,
            resource: target.resource_text(),
            // Namespaces themselves are cluster-scoped.
            namespace: if target.resource == "namespaces" { String::new() } else { target.namespace },
            name: target.name,
            dry_run: !query.text("dryRun").is_empty(),
            format: request::accepted(headers).unwrap_or(ResponseFormat::Plain),
        }
    }

    /// Reports whether the request changes objects if it succeeds.
    #[must_use]
    pub fn writes(&self) -> bool {
        !self.dry_run && matches!(self.verb, "create" | "update" | "patch" | "delete" | "deletecollection")
    }

    /// Reports whether the request continues a list.
    pub(super) fn continues_list(&self) -> bool {
        self.query.split('&').any(|pair| pair.strip_prefix("continue=").is_some_and(|token| !token.is_empty()))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, uri: &str) -> ApiRequest {
        ApiRequest::of(&method, &uri.parse().expect("is a URI"), &HeaderMap::new())
    }

    #[test]
    fn parses_verbs_and_resources() {
        let cases = [
            (Method::GET, "/api/v1/nodes?limit=500", "list", "nodes", "", ""),
            (Method::GET, "/api/v1/nodes?watch=true&resourceVersion=4", "watch", "nodes", "", ""),
            (Method::GET, "/api/v1/nodes?watch=false", "list", "nodes", "", ""),
            (Method::GET, "/api/v1/nodes/n1", "get", "nodes", "", "n1"),
            (Method::PATCH, "/api/v1/nodes/n1/status", "patch", "nodes/status", "", "n1"),
            (Method::POST, "/api/v1/namespaces/a/configmaps", "create", "configmaps", "a", ""),
            (Method::DELETE, "/api/v1/namespaces/a/configmaps", "deletecollection", "configmaps", "a", ""),
            (Method::DELETE, "/api/v1/namespaces/a/configmaps/c", "delete", "configmaps", "a", "c"),
            (Method::GET, "/api/v1/namespaces/a", "get", "namespaces", "", "a"),
            (Method::PUT, "/api/v1/namespaces/a/status", "update", "namespaces/status", "", "a"),
            (Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", "update", "leases", "a", "l"),
            (Method::GET, "/apis/nodecfg.dev/v1alpha1/nodeconfigs", "list", "nodeconfigs", "", ""),
            (Method::GET, "/version", "get", "", "", ""),
            (Method::GET, "/apis/nodecfg.dev", "get", "", "", ""),
            (Method::GET, "/api/v1", "get", "", "", ""),
        ];
        for (method, uri, verb, resource, namespace, name) in cases {
            let request = of(method, uri);
            assert_eq!(
                (request.verb, &*request.resource, &*request.namespace, &*request.name),
                (verb, resource, namespace, name),
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
}
