//! Deletion of objects: preconditions, finalizers, and dependents without owners. Real clusters collect dependents
//! asynchronously; the sandbox collects them before it responds to the request.

use serde_json::{Value, json};

use super::Api;
use super::object::{StoredObject, set_field, set_metadata, text, time_text};
use super::pod;
use super::request::{Query, dry_run};
use super::resource::{Resource, ResourceType};
use super::status::{ApiError, ApiResult, deleted};
use super::store::key;

/// Options of a deletion (`meta/v1 DeleteOptions`).
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    /// Uid that the object must have.
    pub(crate) uid: Option<String>,
    /// resourceVersion that the object must have.
    pub(crate) version: Option<String>,
    /// Seconds that a pod has to end; `None` for the value in its spec.
    pub(crate) grace: Option<i64>,
    /// True if dependents stay.
    pub(crate) orphan: bool,
    /// True if nothing is stored.
    pub(crate) dry_run: bool,
}

impl DeleteOptions {
    /// Reads the options from the query and from a body, which may be empty.
    ///
    /// # Errors
    /// 400 for a body that is not JSON, and for an invalid `dryRun`.
    pub(crate) fn read(body: &[u8], query: &Query) -> ApiResult<Self> {
        let options: Value = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))?
        };
        Self::of(&options, query)
    }

    /// Reads the options from an object and a query.
    ///
    /// # Errors
    /// 400 for an invalid `dryRun`.
    pub(crate) fn of(options: &Value, query: &Query) -> ApiResult<Self> {
        let precondition = |name: &str| {
            let found = options.pointer(&format!("/preconditions/{name}")).and_then(Value::as_str);
            found.map(str::to_owned)
        };
        let policy = match text(options, "/propagationPolicy") {
            "" => query.text("propagationPolicy"),
            policy => policy,
        };
        let dry = match text(options, "/dryRun/0") {
            "" => query.text("dryRun"),
            dry => dry,
        };
        Ok(Self {
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            grace: match options.get("gracePeriodSeconds").and_then(Value::as_i64) {
                Some(seconds) => Some(seconds),
                None => query.text("gracePeriodSeconds").parse().ok(),
            },
            orphan: policy == "Orphan" || options.get("orphanDependents") == Some(&Value::Bool(true)),
            dry_run: dry_run(dry, "DeleteOptions")?,
        })
    }

    /// Checks the preconditions.
    ///
    /// # Errors
    /// 409 for another uid or resourceVersion.
    pub(crate) fn check(
        &self,
        resource: &Resource,
        name: &str,
        stored: &StoredObject,
        object: &Value,
    ) -> ApiResult<()> {
        // The servers name the kind here (`rest.BeforeDelete`).
        let conflict = |why: String| ApiError::conflict(&resource.kind, &resource.group, name, &why);
        let uid = text(object, "/metadata/uid");
        if let Some(wanted) = self.uid.as_ref().filter(|wanted| *wanted != uid) {
            return Err(conflict(format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might have been \
                 deleted and then recreated"
            )));
        }
        let version = stored.revision.to_string();
        if let Some(wanted) = self.version.as_ref().filter(|wanted| **wanted != version) {
            return Err(conflict(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record ({version}). \
                 The object might have been modified"
            )));
        }
        Ok(())
    }
}

/// Deletes an object. Returns a success status, or the object if its deletion is delayed.
///
/// # Errors
/// 404 for a missing object, 409 for a failed precondition.
pub(crate) fn delete(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
    options: &DeleteOptions,
) -> ApiResult<Value> {
    let key = key(if resource.namespaced { namespace } else { "" }, name);
    loop {
        let missing = || ApiError::not_found(&resource.plural, &resource.group, name);
        let stored = api.lock().get(&resource.collection, &key).ok_or_else(missing)?;
        let mut object = stored.value();
        options.check(resource, name, &stored, &object)?;
        let uid = text(&object, "/metadata/uid").to_owned();
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array).map_or(0, Vec::len);
        let is_pod = resource.resource_type == ResourceType::Pod;
        let grace = if is_pod { pod::grace_period(&object, options.grace) } else { 0 };
        let delayed = finalizers > 0 || grace > 0 || resource.resource_type == ResourceType::Namespace;
        if !delayed {
            // As recorded for other kinds; the storage of pods returns the deleted object.
            let response = if is_pod { object } else { deleted(&resource.plural, &resource.group, name, &uid) };
            if options.dry_run {
                return Ok(response);
            }
            if resource.resource_type == ResourceType::Definition {
                api.remove_definition(name);
            }
            if api.lock().remove(&resource.collection, &key, stored.revision) {
                if !options.orphan {
                    collect(api, &uid);
                }
                api.complete_namespace(&stored.namespace);
                return Ok(response);
            }
            continue;
        }
        let marked = !text(&object, "/metadata/deletionTimestamp").is_empty();
        if marked && !(is_pod && pod::shorten_grace(&mut object, grace)) {
            return Ok(object);
        }
        if !marked {
            mark_for_deletion(api, resource, grace, &mut object);
        }
        if options.dry_run {
            return Ok(object);
        }
        let put = api.lock().put(&resource.collection, &key, Some(stored.revision), object);
        if let Ok((_, object)) = put {
            if resource.resource_type == ResourceType::Namespace {
                api.empty_namespace(name);
            }
            return Ok(object);
        }
    }
}

/// Marks an object for deletion after `grace` seconds.
fn mark_for_deletion(api: &Api, resource: &Resource, grace: i64, object: &mut Value) {
    set_metadata(object, "deletionTimestamp", time_text(pod::later(api.now(), grace)));
    if resource.resource_type == ResourceType::Namespace {
        return set_field(object, "status", json!({"phase": "Terminating"}));
    }
    set_metadata(object, "deletionGracePeriodSeconds", grace);
    if let Some(generation) = object.pointer("/metadata/generation").and_then(Value::as_u64) {
        set_metadata(object, "generation", generation + 1);
    }
}

impl Api {
    /// Deletes the objects of a definition, and serves its resource no longer.
    fn remove_definition(&self, name: &str) {
        let objects = self.lock().keys(name);
        for key in objects {
            self.remove_now(name, &key);
        }
        self.unregister(name);
        self.lock().end_watches(name);
    }

    /// Removes an object without finalizers that was marked for deletion.
    pub(crate) fn remove_finished(&self, resource: &Resource, key: &str) {
        if resource.resource_type == ResourceType::Definition {
            self.remove_definition(key);
        }
        self.remove_now(&resource.collection, key);
    }

    /// Deletes the objects of a terminating namespace.
    fn empty_namespace(&self, name: &str) {
        let inside = self.lock().in_namespace(name);
        for (resource, key) in inside {
            self.delete_if_present(&resource, &key);
        }
        self.complete_namespace(name);
    }

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

    /// Deletes an object of a collection, if it still exists.
    pub(crate) fn delete_if_present(&self, collection: &str, key: &str) {
        let resource = self.resources().into_iter().find(|resource| resource.collection == collection);
        let stored = self.lock().get(collection, key);
        if let (Some(resource), Some(stored)) = (resource, stored) {
            // Without preconditions, only a missing object is an error.
            let _ = delete(self, &resource, &stored.namespace, &stored.name, &DeleteOptions::default());
        }
    }
}

/// Deletes the dependents of a deleted owner that have no other owner.
fn collect(api: &Api, uid: &str) {
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
        api.delete_if_present(collection, key);
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
