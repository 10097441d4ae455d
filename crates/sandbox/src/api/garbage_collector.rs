//! Garbage collector: deletes objects whose owners are all missing. Real clusters collect asynchronously; the sandbox
//! collects before it responds to the request.

use serde_json::Value;

use super::Api;
use super::store::key;
use super::validate::text;

/// Deletes the dependents of a deleted owner that have no other owner.
pub(crate) fn collect(api: &Api, uid: &str) {
    let dependents = api.lock().dependents(uid);
    for (resource, key) in dependents {
        collect_orphan(api, &resource, &key);
    }
}

/// Deletes an object that has owners if all of them are missing.
pub(crate) fn collect_orphan(api: &Api, collection: &str, key: &str) {
    let Some(stored) = api.lock().get(collection, key) else { return };
    if !stored.has_owners() {
        return;
    }
    let object = stored.value();
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    if owners.clone().count() > 0 && owners.clone().all(|owner| is_missing(api, owner, &stored.namespace)) {
        api.remove_or_mark(collection, key);
    }
}

/// Reports whether an owner is missing. Owners of unserved kinds count as existing.
fn is_missing(api: &Api, owner: &Value, namespace: &str) -> bool {
    let (group, version) = text(owner, "/apiVersion").rsplit_once('/').unwrap_or(("", text(owner, "/apiVersion")));
    let Some(resource) = api.resource_of_kind(group, version, text(owner, "/kind")) else { return false };
    let key = key(if resource.namespaced { namespace } else { "" }, text(owner, "/name"));
    let found = api.lock().get(&resource.collection, &key);
    found.is_none_or(|found| text(&found.value(), "/metadata/uid") != text(owner, "/uid"))
}
