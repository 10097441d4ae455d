//! Access of the simulated controllers, in the same process: changes of a resource, and writes without field ownership.

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::Api;
use super::delete::{self, DeleteOptions};
use super::object::{Change, text};
use super::prepare;
use super::resource::PODS;
use super::status::{ApiError, ApiResult};
use super::store::key;

/// Maximum number of changes that are read at once.
const BATCH: usize = 4096;

/// Change of one object.
#[derive(Debug)]
pub(crate) struct SeenChange {
    /// True if the object was deleted.
    pub(crate) deleted: bool,
    /// The object after the change, or its last state, as JSON.
    pub(crate) object: Bytes,
}

/// Changes of a resource in order.
#[derive(Debug)]
pub(crate) struct Changes {
    /// The changes; with `complete`, all present objects.
    pub(crate) seen: Vec<SeenChange>,
    /// Set if the changes are a complete list, because the history is too short.
    pub(crate) complete: bool,
    /// Revision up to which the changes are complete.
    pub(crate) revision: u64,
}

impl Api {
    /// Returns the changes of a resource after a revision; without one, all objects.
    pub(crate) fn changes(&self, collection: &str, since: Option<u64>) -> Changes {
        let store = self.lock();
        if let Some(batch) = since.and_then(|since| store.events_after(collection, since, BATCH).ok()) {
            let seen = batch
                .events
                .iter()
                .map(|event| SeenChange { deleted: event.change == Change::Deleted, object: event.object.json() });
            return Changes { seen: seen.collect(), complete: false, revision: batch.up_to };
        }
        let all = store.scan(collection, "", "", None).unwrap_or_default();
        let seen = all.iter().map(|stored| SeenChange { deleted: false, object: stored.json() });
        Changes { seen: seen.collect(), complete: true, revision: store.revision() }
    }

    /// Returns a signal that changes with every change of a resource.
    pub(crate) fn signal(&self, collection: &str) -> watch::Receiver<u64> {
        self.lock().subscribe(collection)
    }

    /// Changes an object as a component with its own rights does. Returns false if another object has the name, or if
    /// the object is missing.
    pub(crate) fn rewrite(&self, collection: &str, key: &str, uid: &str, mut change: impl FnMut(&mut Value)) -> bool {
        loop {
            let Some(stored) = self.lock().get(collection, key) else { return false };
            let mut object = stored.value();
            if text(&object, "/metadata/uid") != uid {
                return false;
            }
            change(&mut object);
            if self.lock().put(collection, key, Some(stored.revision), object).is_ok() {
                return true;
            }
        }
    }

    /// Changes an object that still has this revision. Returns false otherwise.
    pub(crate) fn rewrite_at(&self, collection: &str, key: &str, revision: u64, change: impl Fn(&mut Value)) -> bool {
        let Some(stored) = self.lock().get(collection, key).filter(|stored| stored.revision == revision) else {
            return false;
        };
        let mut object = stored.value();
        change(&mut object);
        self.lock().put(collection, key, Some(revision), object).is_ok()
    }

    /// Stores a new pod as a controller with its own rights does. `change` completes what the server sets.
    ///
    /// # Errors
    /// 403 and 404 for the namespace, 409 for an existing name.
    pub(crate) fn insert_pod(
        &self,
        namespace: &str,
        mut object: Value,
        change: impl FnOnce(&mut Value),
    ) -> ApiResult<()> {
        let pods = self.resource_of("", PODS).ok_or_else(ApiError::no_such_resource)?;
        let name = text(&object, "/metadata/name").to_owned();
        self.admit_to_namespace(&pods, namespace, &name)?;
        prepare::create(&pods, &mut object, self.uid(), self.now());
        change(&mut object);
        let put = self.lock().put(PODS, &key(namespace, &name), None, object);
        put.map(|_| ()).map_err(|_| ApiError::already_exists(PODS, "", &name))
    }

    /// Deletes a pod with this uid. `grace` 0 removes it, as its kubelet does at the end. Returns false if the pod is
    /// gone.
    pub(crate) fn delete_pod(&self, namespace: &str, name: &str, uid: &str, grace: Option<i64>) -> bool {
        let Some(pods) = self.resource_of("", PODS) else { return false };
        let options = DeleteOptions { uid: Some(uid.to_owned()), grace, ..DeleteOptions::default() };
        delete::delete(self, &pods, namespace, name, &options).is_ok()
    }

    /// Removes an object without a request.
    pub(crate) fn remove(&self, collection: &str, namespace: &str, name: &str) {
        self.remove_now(collection, &key(namespace, name));
    }
}
