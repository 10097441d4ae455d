//! OpenAPI documents to the extent that kubectl needs: fields, descriptions, list merge rules and PATCH parameters.
//! kubectl reads from the parameters whether the server validates fields.
//!
//! Version 3 is an index and one document per group version (since 1.24). Version 2 is one document, which kubectl
//! accepts only as protobuf.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::resources::{self, Resource};
use crate::api::{RenderedDocument, ServerProfile};

mod descriptions;
mod paths;
mod protobuf;
mod schemas;

#[cfg(test)]
mod tests;

use schemas::Schemas;

/// Content type of version 2. kubectl requests `…v2@v1.0+protobuf`, which is not a valid media type for a response.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// OpenAPI document at `path` in the format that `accept` requests; `None` for an unknown path.
#[must_use]
pub fn document(profile: ServerProfile, path: &str, accept: &str, crds: &[Value]) -> Option<RenderedDocument> {
    let rest = path.strip_prefix("/openapi/")?.trim_end_matches('/');
    let resources = resources::all(profile, crds);
    if rest == "v2" {
        return Some(version_2(profile, accept, &resources));
    }
    if profile == ServerProfile::V1_21 {
        return None;
    }
    match rest.strip_prefix("v3")? {
        "" => Some(index(profile, &resources)),
        below => {
            let group_version = below.strip_prefix('/')?;
            let here: Vec<&Resource> = resources.iter().filter(|r| schema_path(r) == group_version).collect();
            (!here.is_empty()).then(|| json_document(version_3(profile, &here).to_string()))
        }
    }
}

fn json_document(body: String) -> RenderedDocument {
    RenderedDocument { content_type: "application/json".to_owned(), body: Bytes::from(body) }
}

/// Path of a group version's document and objects: `api/v1`, `apis/<group>/<version>`.
fn schema_path(resource: &Resource) -> String {
    match resource.group.as_str() {
        "" => format!("api/{}", resource.version),
        group => format!("apis/{group}/{}", resource.version),
    }
}

/// Index of all documents with content hashes, which clients use for caching.
fn index(profile: ServerProfile, resources: &[Resource]) -> RenderedDocument {
    let mut paths = Map::new();
    for resource in resources {
        let path = schema_path(resource);
        if paths.contains_key(&path) {
            continue;
        }
        let here: Vec<&Resource> = resources.iter().filter(|other| schema_path(other) == path).collect();
        let hash = blake3::hash(version_3(profile, &here).to_string().as_bytes()).to_hex().to_uppercase();
        let url = json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
        paths.insert(path, url);
    }
    json_document(json!({"paths": paths}).to_string())
}

fn info(profile: ServerProfile) -> Value {
    json!({"title": "Kubernetes", "version": profile.git_version()})
}

fn version_3(profile: ServerProfile, resources: &[&Resource]) -> Value {
    let mut schemas = Schemas::new(profile, "#/components/schemas/");
    let mut paths = Map::new();
    for resource in resources {
        schemas.add(resource);
        paths.extend(paths::of(profile, resource, |parameter, kind| {
            json!({
                "name": parameter, "in": "query", "schema": {"type": kind, "uniqueItems": true},
            })
        }));
    }
    json!({
        "openapi": "3.0.0",
        "info": info(profile),
        "paths": paths,
        "components": {"schemas": schemas.into_value()},
    })
}

fn version_2(profile: ServerProfile, accept: &str, resources: &[Resource]) -> RenderedDocument {
    let mut schemas = Schemas::new(profile, "#/definitions/");
    let mut paths = Map::new();
    for resource in resources {
        schemas.add(resource);
        paths.extend(paths::of(profile, resource, |parameter, kind| {
            json!({
                "name": parameter, "in": "query", "type": kind, "uniqueItems": true,
            })
        }));
    }
    let document =
        json!({"swagger": "2.0", "info": info(profile), "paths": paths, "definitions": schemas.into_value()});
    if accept.contains("proto-openapi.spec.v2") {
        RenderedDocument { content_type: V2_PROTOBUF.to_owned(), body: protobuf::encode(&document).into() }
    } else {
        json_document(document.to_string())
    }
}
