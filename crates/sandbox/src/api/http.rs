//! HTTP handlers: read requests, call the API and build responses.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};

use super::auth::{self, User};
use super::delete;
use super::discovery;
use super::eviction;
use super::list;
use super::patch::PatchKind;
use super::request::{self, Query, ResourcePath, ResponseFormat, Route};
use super::resource::{Resource, ResourceType};
use super::status::{ApiError, ApiResult};
use super::store::key;
use super::view::View;
use super::watch::Watch;
use super::write::{FieldValidation, WriteRequest, WriteResult};
use super::{Api, ProxyResult};

/// Maximum size of a request body, in bytes (`MaxRequestBodyBytes`).
const BODY_LIMIT: usize = 3 * 1024 * 1024;

fn respond(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

fn respond_json(status: StatusCode, body: impl Into<Body>) -> Response {
    respond(status, "application/json", body)
}

fn page_not_found() -> Response {
    respond(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n")
}

/// Builds the response of a refused request.
pub(crate) fn error_response(error: &ApiError) -> Response {
    let status = StatusCode::from_u16(error.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = respond_json(status, error.to_value().to_string());
    if let Some(seconds) = error.retry_after() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Serves one request.
pub(crate) async fn serve(State(api): State<Api>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let user = match parts.extensions.get::<User>() {
        Some(user) => user.clone(),
        None => match api.authenticate(&parts.headers) {
            Ok(user) => user,
            Err(error) => return error_response(&error),
        },
    };
    let path = parts.uri.path();
    let served = match Route::of(path) {
        Route::Version => Ok(respond_json(StatusCode::OK, api.profile().version().to_string())),
        Route::Health => Ok(respond(StatusCode::OK, "text/plain; charset=utf-8", "ok")),
        Route::Unknown => auth::authorize_path(&user, "get", path).map(|()| page_not_found()),
        Route::Document => auth::authorize_path(&user, "get", path).map(|()| document(&api, path)),
        Route::Resource(path) => ResourceRequest { api: &api, user: &user, path, parts: &parts }.serve(body).await,
    };
    served.unwrap_or_else(|error| error_response(&error))
}

fn document(api: &Api, path: &str) -> Response {
    let document = discovery::document(path, &api.resources());
    document.map_or_else(page_not_found, |document| respond_json(StatusCode::OK, document.to_string()))
}

/// One request for a resource.
struct ResourceRequest<'a> {
    api: &'a Api,
    user: &'a User,
    path: ResourcePath,
    parts: &'a http::request::Parts,
}

async fn read_body(body: Body) -> ApiResult<Bytes> {
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => Err(ApiError::too_large(BODY_LIMIT)),
        Err(error) => Err(ApiError::bad_request(error.to_string())),
    }
}

impl ResourceRequest<'_> {
    async fn serve(&self, body: Body) -> ApiResult<Response> {
        let query = Query::of(&self.parts.uri)?;
        let verb = request::verb(&self.parts.method, &self.path, &query)?;
        self.api.authorize(self.user, verb, &self.path)?;
        let Some(resource) = self.api.resource(&self.path.group, &self.path.version, &self.path.resource) else {
            return if self.api.has_group(&self.path.group, &self.path.version) {
                Err(ApiError::no_such_resource())
            } else {
                Ok(page_not_found())
            };
        };
        if (self.path.resource.as_str(), self.path.subresource.as_str(), verb) == ("nodes", "proxy", "get") {
            return self.proxy(&resource);
        }
        self.check_subresource(&resource, verb)?;
        if matches!(verb, "get" | "list" | "watch") {
            return self.read_from(&resource, verb, &query);
        }
        let format = request::accepted(&self.parts.headers)?;
        let body = read_body(body).await?;
        match verb {
            "create" if resource.resource_type == ResourceType::Review => {
                let review = auth::review(self.api, self.user, self.decode(&body)?);
                Ok(respond_json(StatusCode::CREATED, review.to_string()))
            }
            "create" if self.path.subresource == "eviction" => {
                let eviction = self.decode(&body)?;
                let dry_run = query.dry_run("CreateOptions")?;
                let (namespace, name) = (&self.path.namespace, &self.path.name);
                let answer = eviction::evict(self.api, &resource, namespace, name, &eviction, dry_run)?;
                Ok(respond_json(StatusCode::CREATED, answer.to_string()))
            }
            "delete" => {
                let options = delete::DeleteOptions::read(&body, &query)?;
                let deleted = delete::delete(self.api, &resource, &self.path.namespace, &self.path.name, &options)?;
                Ok(respond_json(StatusCode::OK, deleted.to_string()))
            }
            "deletecollection" => self.delete_collection(&resource, &body, &query),
            _ => {
                let written = self.write(&resource, verb, &body, &query)?;
                self.write_response(&resource, format, &query, &written)
            }
        }
    }

    fn check_subresource(&self, resource: &Resource, verb: &str) -> ApiResult<()> {
        match self.path.subresource.as_str() {
            "" => {}
            "status" if resource.status => {
                if !matches!(verb, "get" | "update" | "patch") {
                    return Err(ApiError::method_not_allowed());
                }
            }
            "eviction" if resource.resource_type == ResourceType::Pod => {
                if verb != "create" {
                    return Err(ApiError::method_not_allowed());
                }
            }
            _ => return Err(ApiError::no_such_resource()),
        }
        let has_namespace = !self.path.namespace.is_empty() || resource.resource_type == ResourceType::Namespace;
        let all_namespaces = matches!(verb, "list" | "watch");
        match (resource.namespaced, has_namespace) {
            (true, false) if !all_namespaces => Err(ApiError::no_such_resource()),
            (false, true) if resource.resource_type != ResourceType::Namespace => Err(ApiError::no_such_resource()),
            _ if !resource.verbs().contains(&verb) => Err(ApiError::method_not_allowed()),
            _ => Ok(()),
        }
    }

    /// Returns the response of a Node's kubelet.
    fn proxy(&self, resource: &Resource) -> ApiResult<Response> {
        if self.api.get("", "nodes", "", &self.path.name).is_none() {
            return Err(ApiError::not_found(&resource.plural, &resource.group, &self.path.name));
        }
        let rest = self.parts.uri.path().split_once("/proxy").map_or("", |(_, rest)| rest);
        match self.api.proxy_get(&self.path.name, rest) {
            ProxyResult::Unreachable(why) => {
                Err(ApiError::unavailable(format!("error trying to reach service: {why}")))
            }
            ProxyResult::Response { status, content_type, body } => {
                let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Ok(respond(status, content_type, body))
            }
        }
    }

    /// Returns the namespace to which reads are limited; empty for cluster-scoped resources.
    fn read_namespace(&self, resource: &Resource) -> &str {
        if resource.namespaced { &self.path.namespace } else { "" }
    }

    fn read_from(&self, resource: &Arc<Resource>, verb: &str, query: &Query) -> ApiResult<Response> {
        let format = request::accepted(&self.parts.headers)?;
        let view = View { api: self.api, resource, format, include: query.text("includeObject") };
        match verb {
            "get" => {
                let key = key(self.read_namespace(resource), &self.path.name);
                let missing = || ApiError::not_found(&resource.plural, &resource.group, &self.path.name);
                let stored = self.api.lock().get(&resource.collection, &key).ok_or_else(missing)?;
                Ok(respond_json(StatusCode::OK, view.object(&stored, false)))
            }
            "list" => {
                let page = list::page(self.api, resource, self.read_namespace(resource), query)?;
                let mut chunks =
                    list::list_body(self.api, resource, format, query.text("includeObject"), page).peekable();
                let first = chunks.next().unwrap_or_default();
                let body = if chunks.peek().is_none() {
                    Body::from(first)
                } else {
                    let all = std::iter::once(first).chain(chunks);
                    Body::from_stream(futures::stream::iter(all.map(Ok::<_, Infallible>)))
                };
                Ok(respond_json(StatusCode::OK, body))
            }
            _ => {
                let watch = Watch::begin(self.api, resource, self.read_namespace(resource), query, format)?;
                Ok(respond_json(StatusCode::OK, Body::from_stream(watch.stream())))
            }
        }
    }

    fn decode(&self, body: &[u8]) -> ApiResult<Value> {
        match request::content_type(&self.parts.headers).as_str() {
            "" | "application/json" => {
                serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))
            }
            _ => Err(ApiError::unsupported_media_type("application/json")),
        }
    }

    fn field_validation(&self, query: &Query) -> ApiResult<FieldValidation> {
        match query.text("fieldValidation") {
            "" | "Warn" => Ok(FieldValidation::Warn),
            "Strict" => Ok(FieldValidation::Strict),
            "Ignore" => Ok(FieldValidation::Ignore),
            other => Err(ApiError::bad_request(format!("unsupported fieldValidation {other:?}"))),
        }
    }

    fn write(&self, resource: &Resource, verb: &str, body: &[u8], query: &Query) -> ApiResult<WriteResult> {
        let manager = request::manager(query, &self.parts.headers);
        let options = match verb {
            "create" => "CreateOptions",
            "update" => "UpdateOptions",
            _ => "PatchOptions",
        };
        let write = WriteRequest {
            api: self.api,
            resource,
            namespace: &self.path.namespace,
            name: &self.path.name,
            status: self.path.subresource == "status",
            manager: &manager,
            dry_run: query.dry_run(options)?,
            field_validation: self.field_validation(query)?,
        };
        match verb {
            "create" => write.create(self.decode(body)?),
            "update" => write.update(self.decode(body)?),
            _ => {
                let kind = PatchKind::of(&request::content_type(&self.parts.headers), resource.is_custom())?;
                if kind == PatchKind::Apply && query.text("fieldManager").is_empty() {
                    return Err(ApiError::bad_request("fieldManager: Required value: is required for apply patch"));
                }
                write.patch(kind, body, query.flag("force"))
            }
        }
    }

    fn write_response(
        &self,
        resource: &Resource,
        format: ResponseFormat,
        query: &Query,
        written: &WriteResult,
    ) -> ApiResult<Response> {
        let view = View { api: self.api, resource, format, include: query.text("includeObject") };
        let status = if written.created { StatusCode::CREATED } else { StatusCode::OK };
        let mut response = respond_json(status, view.object(&written.object, false));
        for warning in &written.warnings {
            if let Ok(value) = HeaderValue::from_str(&format!("299 - {warning:?}")) {
                response.headers_mut().append(header::WARNING, value);
            }
        }
        Ok(response)
    }

    fn delete_collection(&self, resource: &Resource, body: &[u8], query: &Query) -> ApiResult<Response> {
        let options = delete::DeleteOptions::read(body, query)?;
        let page = list::page(self.api, resource, self.read_namespace(resource), query)?;
        for stored in &page.objects {
            match delete::delete(self.api, resource, &stored.namespace, &stored.name, &options) {
                Err(error) if error.code != 404 => return Err(error),
                _ => {}
            }
        }
        let items: Vec<Value> = page.objects.iter().map(|stored| stored.value()).collect();
        let list = json!({
            "kind": resource.list_kind,
            "apiVersion": resource.api_version(),
            "metadata": {"resourceVersion": self.api.lock().revision().to_string()},
            "items": items,
        });
        Ok(respond_json(StatusCode::OK, list.to_string()))
    }
}
