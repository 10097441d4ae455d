//! Deleting: preconditions, finalizers, and what goes with an object.

use serde_json::{Value, json};

use super::Api;
use super::definition;
use super::garbage::collect;
use super::object::{Stored, set_field, time_text};
use super::request::{Query, dry_run};
use super::resource::{DEFINITIONS, Nature, Resource};
use super::status::{ApiError, ApiResult, deleted};
use super::store::key;
use super::validate::text;

/// How to delete (`meta/v1 DeleteOptions`).
#[derive(Debug, Default)]
pub(crate) struct Options {
    uid: Option<String>,
    version: Option<String>,
    orphan: bool,
    dry_run: bool,
}

impl Options {
    /// Reads them from a body, which may be empty, and the query.
    ///
    /// # Errors
    /// 400 when the body is no JSON, 422 for a bad `dryRun`.
    pub(crate) fn read(body: &[u8], query: &Query) -> ApiResult<Self> {
        let options: Value = if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(body).map_err(|error| ApiError::bad_request(error.to_string()))?
        };
        let precondition = |name: &str| {
            let found = options.pointer(&format!("/preconditions/{name}")).and_then(Value::as_str);
            found.map(str::to_owned)
        };
        let policy = match text(&options, "/propagationPolicy") {
            "" => query.text("propagationPolicy"),
            policy => policy,
        };
        let dry = match text(&options, "/dryRun/0") {
            "" => query.text("dryRun"),
            dry => dry,
        };
        Ok(Self {
            uid: precondition("uid"),
            version: precondition("resourceVersion"),
            orphan: policy == "Orphan" || options.get("orphanDependents") == Some(&Value::Bool(true)),
            dry_run: dry_run(dry, "DeleteOptions")?,
        })
    }

    fn check(&self, resource: &Resource, name: &str, stored: &Stored, object: &Value) -> ApiResult<()> {
        let conflict = |why: String| ApiError::conflict(&resource.plural, &resource.group, name, &why);
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

/// Deletes an object. Gives back what the server answers: a success status, or the object while finalizers hold it.
///
/// # Errors
/// 404 when it is not there, 409 when a precondition fails.
pub(crate) fn delete(
    api: &Api,
    resource: &Resource,
    namespace: &str,
    name: &str,
    options: &Options,
) -> ApiResult<Value> {
    let key = key(if resource.namespaced { namespace } else { "" }, name);
    loop {
        let missing = || ApiError::not_found(&resource.plural, &resource.group, name);
        let stored = api.lock().get(&resource.collection, &key).ok_or_else(missing)?;
        let mut object = stored.value();
        options.check(resource, name, &stored, &object)?;
        let uid = text(&object, "/metadata/uid").to_owned();
        let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array).map_or(0, Vec::len);
        let lingers = finalizers > 0 || matches!(resource.nature, Nature::Namespace | Nature::Definition);
        if !lingers {
            let answer = deleted(&resource.plural, &resource.group, name, &uid);
            if options.dry_run {
                return Ok(answer);
            }
            if api.lock().remove(&resource.collection, &key, stored.revision) {
                if !options.orphan {
                    collect(api, &uid);
                }
                return Ok(answer);
            }
            continue;
        }
        if !text(&object, "/metadata/deletionTimestamp").is_empty() {
            return Ok(object);
        }
        mark(api, resource, &mut object);
        if options.dry_run {
            return Ok(object);
        }
        let put = api.lock().put(&resource.collection, &key, Some(stored.revision), object);
        if let Ok((_, object)) = put {
            finish(api, resource, &key, name);
            return Ok(object);
        }
    }
}

fn mark(api: &Api, resource: &Resource, object: &mut Value) {
    let now = api.now();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("deletionTimestamp".to_owned(), time_text(now).into());
        match resource.nature {
            Nature::Definition => {
                let list = metadata.entry("finalizers").or_insert_with(|| json!([]));
                if let Some(list) = list.as_array_mut() {
                    list.push(definition::CLEANUP.into());
                }
            }
            Nature::Namespace => {}
            _ => {
                metadata.insert("deletionGracePeriodSeconds".to_owned(), 0.into());
            }
        }
    }
    match resource.nature {
        Nature::Definition => definition::terminate(object, now),
        Nature::Namespace => set_field(object, "status", json!({"phase": "Terminating"})),
        _ => {}
    }
}

/// What the controllers do once a namespace or a definition is marked.
fn finish(api: &Api, resource: &Resource, key: &str, name: &str) {
    match resource.nature {
        Nature::Namespace => {
            let inside = api.lock().in_namespace(name);
            for (resource, key) in inside {
                api.remove_or_mark(&resource, &key);
            }
            api.remove_now(&resource.collection, key);
        }
        Nature::Definition => {
            let objects = api.lock().keys(name);
            for key in objects {
                api.remove_now(name, &key);
            }
            api.unregister(name);
            api.lock().end_watches(name);
            api.remove_now(DEFINITIONS, key);
        }
        _ => {}
    }
}
