//! Garbage collector: deletes objects whose owners are all missing. Real clusters collect asynchronously; the sandbox
//! collects before it responds to the request.

use serde_json::Value;

use super::Api;
use super::delete::{self, DeleteOptions};
use super::object::{set_metadata, time_text};
use super::resource::PODS;
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

impl Api {
    /// Removes an object and ignores its finalizers.
    pub(crate) fn remove_now(&self, resource: &str, key: &str) {
        loop {
            let Some(stored) = self.lock().get(resource, key) else { return };
            if self.lock().remove(resource, key, stored.revision) {
                collect(self, text(&stored.value(), "/metadata/uid"));
                self.complete_namespace(&stored.namespace);
                return;
            }
        }
    }

    /// Removes a terminating namespace without objects.
    pub(crate) fn complete_namespace(&self, namespace: &str) {
        let mut store = self.lock();
        let Some(stored) = store.get("namespaces", namespace).filter(|stored| &*stored.phase == "Terminating") else {
            return;
        };
        if store.in_namespace(namespace).is_empty() {
            store.remove("namespaces", namespace, stored.revision);
        }
    }

    /// Removes an object, or marks it for deletion if it has finalizers or is a pod on a node.
    pub(crate) fn remove_or_mark(&self, resource: &str, key: &str) {
        loop {
            let Some(stored) = self.lock().get(resource, key) else { return };
            if let Some(pods) = self.resource_of("", PODS).filter(|pods| pods.collection == resource) {
                // Without preconditions, only a missing pod is an error.
                let _ = delete::delete(self, &pods, &stored.namespace, &stored.name, &DeleteOptions::default());
                return;
            }
            let mut object = stored.value();
            let has_finalizers =
                object.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
            if !has_finalizers {
                return self.remove_now(resource, key);
            }
            if !text(&object, "/metadata/deletionTimestamp").is_empty() {
                return;
            }
            set_metadata(&mut object, "deletionTimestamp", time_text(self.now()));
            set_metadata(&mut object, "deletionGracePeriodSeconds", 0);
            if self.lock().put(resource, key, Some(stored.revision), object).is_ok() {
                return;
            }
        }
    }
}
