//! OpenAPI, as far as kubectl needs it: which fields there are, what they mean, how lists merge, and which parameters a
//! PATCH takes (kubectl looks there whether the server validates fields itself).
//!
//! Version 3 is an index and one document a group version (since 1.24); version 2 is one document, which kubectl takes
//! only as protobuf.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::served::{self, Resource};
use crate::api::{FaceAnswer, ServerProfile};

mod paths;
mod protobuf;
mod schemas;
mod words;

#[cfg(test)]
mod tests;

use schemas::Schemas;

/// What version 2 is sent as. kubectl asks for `…v2@v1.0+protobuf`, which is no media type that it would read in an answer.
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The OpenAPI document at `path`, as `accept` asks for it; `None` where there is none.
#[must_use]
pub fn document(character: ServerProfile, path: &str, accept: &str, crds: &[Value]) -> Option<FaceAnswer> {
    let rest = path.strip_prefix("/openapi/")?.trim_end_matches('/');
    let resources = served::all(character, crds);
    if rest == "v2" {
        return Some(version_2(character, accept, &resources));
    }
    if character == ServerProfile::V1_21 {
        return None;
    }
    match rest.strip_prefix("v3")? {
        "" => Some(index(character, &resources)),
        below => {
            let group_version = below.strip_prefix('/')?;
            let here: Vec<&Resource> = resources.iter().filter(|r| schema_path(r) == group_version).collect();
            (!here.is_empty()).then(|| plain(version_3(character, &here).to_string()))
        }
    }
}

fn plain(body: String) -> FaceAnswer {
    FaceAnswer { content_type: "application/json".to_owned(), body: Bytes::from(body) }
}

/// `api/v1`, `apis/<group>/<version>`: where a group version's document lies, and its objects with it.
fn schema_path(resource: &Resource) -> String {
    match resource.group.as_str() {
        "" => format!("api/{}", resource.version),
        group => format!("apis/{group}/{}", resource.version),
    }
}

/// The index: every document with a hash of its content, by which clients cache it.
fn index(character: ServerProfile, resources: &[Resource]) -> FaceAnswer {
    let mut paths = Map::new();
    for resource in resources {
        let path = schema_path(resource);
        if paths.contains_key(&path) {
            continue;
        }
        let here: Vec<&Resource> = resources.iter().filter(|other| schema_path(other) == path).collect();
        let hash = blake3::hash(version_3(character, &here).to_string().as_bytes()).to_hex().to_uppercase();
        let url = json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash={hash}")});
        paths.insert(path, url);
    }
    plain(json!({"paths": paths}).to_string())
}

fn info(character: ServerProfile) -> Value {
    json!({"title": "Kubernetes", "version": character.git_version()})
}

fn version_3(character: ServerProfile, resources: &[&Resource]) -> Value {
    let mut schemas = Schemas::new(character, "#/components/schemas/");
    let mut paths = Map::new();
    for resource in resources {
        schemas.add(resource);
        paths.extend(paths::of(character, resource, |parameter, kind| {
            json!({
                "name": parameter, "in": "query", "schema": {"type": kind, "uniqueItems": true},
            })
        }));
    }
    json!({
        "openapi": "3.0.0",
        "info": info(character),
        "paths": paths,
        "components": {"schemas": schemas.into_value()},
    })
}

fn version_2(character: ServerProfile, accept: &str, resources: &[Resource]) -> FaceAnswer {
    let mut schemas = Schemas::new(character, "#/definitions/");
    let mut paths = Map::new();
    for resource in resources {
        schemas.add(resource);
        paths.extend(paths::of(character, resource, |parameter, kind| {
            json!({
                "name": parameter, "in": "query", "type": kind, "uniqueItems": true,
            })
        }));
    }
    let document =
        json!({"swagger": "2.0", "info": info(character), "paths": paths, "definitions": schemas.into_value()});
    if accept.contains("proto-openapi.spec.v2") {
        FaceAnswer { content_type: V2_PROTOBUF.to_owned(), body: protobuf::encode(&document).into() }
    } else {
        plain(document.to_string())
    }
}
