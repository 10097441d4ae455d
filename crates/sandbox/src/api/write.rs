//! Create, update, patch and apply: change, drop what is not kept, record owners, prepare, validate, store.
//!
//! A write is computed without the lock of the store. If another write is stored first, the write is recomputed.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Api;
use super::fields::{self, Writer};
use super::object::{Change, StoredObject, set_metadata, text};
use super::patch::{self, PatchKind};
use super::prepare;
use super::resource::{Resource, ResourceType};
use super::status::{ApiError, ApiResult, FieldError};
use super::store::key;

/// Handling of unknown fields of custom resources (`fieldValidation`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Drop unknown fields.
    Ignore,
    /// Drop unknown fields and return warnings.
    Warn,
    /// Refuse the object.
    Strict,
}

/// Target and options of a write.
#[derive(Clone, Copy)]
pub(crate) struct WriteRequest<'a> {
    /// Server.
    pub(crate) api: &'a Api,
    /// Resource.
    pub(crate) resource: &'a Resource,
    /// Namespace in the path.
    pub(crate) namespace: &'a str,
    /// Name in the path; empty for a create.
    pub(crate) name: &'a str,
    /// True for the subresource `status`.
    pub(crate) status: bool,
    /// Field manager.
    pub(crate) manager: &'a str,
    /// True if nothing is stored.
    pub(crate) dry_run: bool,
    /// Handling of unknown fields.
    pub(crate) field_validation: FieldValidation,
}

/// Makes the new state of an object from the present one, and warnings.
type Edit<'a> = dyn Fn(&Value) -> ApiResult<(Value, Vec<String>)> + 'a;

/// Result of a write.
pub(crate) struct WriteResult {
    /// Object after the write.
    pub(crate) object: Arc<StoredObject>,
    /// True for a new object.
    pub(crate) created: bool,
    /// Texts of `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

impl WriteRequest<'_> {
    fn key(&self, name: &str) -> String {
        key(if self.resource.namespaced { self.namespace } else { "" }, name)
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.plural, &self.resource.group, self.name)
    }

    fn exists(&self) -> bool {
        self.api.lock().get(&self.resource.collection, &self.key(self.name)).is_some()
    }

    fn writer<'w>(&'w self, version: &'w str) -> Writer<'w> {
        Writer {
            manager: self.manager,
            version,
            status: self.status,
            has_status: self.resource.status,
            now: self.api.now(),
        }
    }

    /// Creates an object.
    ///
    /// # Errors
    /// The API server's error for the refused request.
    pub(crate) fn create(&self, mut object: Value) -> ApiResult<WriteResult> {
        self.complete_identity(&mut object)?;
        let warnings = self.drop_fields(&mut object)?;
        if self.resource.resource_type == ResourceType::Namespace {
            prepare::label_namespace(&mut object);
        }
        fields::update(&Value::Null, &mut object, &self.writer(&self.resource.api_version()));
        self.store_new(object, warnings)
    }

    /// Completes and stores a new object with its owners.
    fn store_new(&self, mut object: Value, warnings: Vec<String>) -> ApiResult<WriteResult> {
        let resource = self.resource;
        if resource.namespaced {
            self.api.admit_to_namespace(resource, self.namespace, text(&object, "/metadata/name"))?;
        }
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
        }
        let prefix = text(&object, "/metadata/generateName").to_owned();
        let generated = text(&object, "/metadata/name").is_empty() && !prefix.is_empty();
        loop {
            // Only a generated name can need another attempt.
            let mut object = if generated { object.clone() } else { std::mem::take(&mut object) };
            if generated {
                set_metadata(&mut object, "name", format!("{prefix}{}", self.api.suffix()));
            }
            prepare::create(resource, &mut object, self.api.uid(), self.api.now());
            prepare::check(resource, self.api.profile(), None, &object, false)?;
            let name = text(&object, "/metadata/name").to_owned();
            let key = self.key(&name);
            let mut store = self.api.lock();
            if store.get(&resource.collection, &key).is_some() {
                if generated {
                    continue;
                }
                return Err(ApiError::already_exists(&resource.plural, &resource.group, &name));
            }
            if self.dry_run {
                let object = Arc::new(StoredObject::new(&object, 0, Change::Added));
                return Ok(WriteResult { object, created: true, warnings });
            }
            if let Ok((object, value)) = store.put(&resource.collection, &key, None, object) {
                drop(store);
                self.api.after_write(resource, &value, &object);
                return Ok(WriteResult { object, created: true, warnings });
            }
        }
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// The API server's error for the refused request.
    pub(crate) fn update(&self, mut body: Value) -> ApiResult<WriteResult> {
        self.complete_identity(&mut body)?;
        self.complete_name(&mut body)?;
        if self.resource.creates_on_update() && !self.exists() {
            set_metadata(&mut body, "resourceVersion", "");
            return self.create(body);
        }
        self.modify(&|_| Ok(body.clone()))
    }

    /// Patches an object. An apply creates a missing object.
    ///
    /// # Errors
    /// The API server's error for the refused request.
    pub(crate) fn patch(&self, kind: PatchKind, body: &[u8], force: bool) -> ApiResult<WriteResult> {
        if kind == PatchKind::Apply {
            return self.apply(body, force);
        }
        self.modify(&|live| {
            let mut target = live.clone();
            match kind {
                PatchKind::Json => patch::json(&mut target, body)?,
                PatchKind::Merge => patch::merge(&mut target, body)?,
                _ => patch::strategic(&mut target, body)?,
            }
            Ok(target)
        })
    }

    fn apply(&self, body: &[u8], force: bool) -> ApiResult<WriteResult> {
        // Clients send JSON, which is YAML.
        let mut config = patch::object(body)?;
        for key in ["apiVersion", "kind"] {
            if config.get(key).is_none() {
                return Err(ApiError::bad_request(format!("invalid object type: {key} must be set")));
            }
        }
        if config.pointer("/metadata/managedFields").is_some() {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        self.complete_identity(&mut config)?;
        self.complete_name(&mut config)?;
        let warnings = self.drop_fields(&mut config)?;
        let version = self.resource.api_version();
        if !self.exists() && !self.status {
            let new = fields::apply(&config, &config, &self.writer(&version), force)?;
            return self.store_new(new, warnings);
        }
        self.store_change(&|live| {
            let mut new = fields::apply(live, &config, &self.writer(&version), force)?;
            if let Some(wanted) = config.pointer("/metadata/resourceVersion") {
                set_metadata(&mut new, "resourceVersion", wanted.clone());
            }
            Ok((new, warnings.clone()))
        })
    }

    /// Changes an object, and records its new owners.
    fn modify(&self, change: &dyn Fn(&Value) -> ApiResult<Value>) -> ApiResult<WriteResult> {
        let version = self.resource.api_version();
        self.store_change(&|live| {
            let mut new = change(live)?;
            self.complete_identity(&mut new)?;
            let warnings = self.drop_fields(&mut new)?;
            fields::update(live, &mut new, &self.writer(&version));
            Ok((new, warnings))
        })
    }

    /// Stores a change of an object, which also returns warnings.
    fn store_change(&self, edit: &Edit<'_>) -> ApiResult<WriteResult> {
        let resource = self.resource;
        let key = self.key(self.name);
        loop {
            let live = self.api.lock().get(&resource.collection, &key).ok_or_else(|| self.not_found())?;
            let old = live.value();
            let (mut new, warnings) = edit(&old)?;
            self.check_preconditions(&live, &old, &mut new)?;
            prepare::update(resource, &old, &mut new, self.status);
            prepare::check(resource, self.api.profile(), Some(&old), &new, self.status)?;
            if old == new {
                return Ok(WriteResult { object: live, created: false, warnings });
            }
            if self.dry_run {
                let object = Arc::new(StoredObject::new(&new, live.revision, Change::Modified));
                return Ok(WriteResult { object, created: false, warnings });
            }
            // A terminating pod stays until its kubelet removes it (apiserver `ShouldDeleteDuringUpdate`).
            let finished = !text(&new, "/metadata/deletionTimestamp").is_empty()
                && new.pointer("/metadata/finalizers").is_none()
                && new.pointer("/metadata/deletionGracePeriodSeconds").is_none_or(|seconds| *seconds == 0);
            let put = self.api.lock().put(&resource.collection, &key, Some(live.revision), new);
            if let Ok((object, value)) = put {
                if finished && resource.resource_type != ResourceType::Namespace {
                    self.api.remove_finished(resource, &key);
                } else {
                    self.api.after_write(resource, &value, &object);
                }
                return Ok(WriteResult { object, created: false, warnings });
            }
        }
    }

    /// Checks version, kind and namespace of an object, and fills them in where they are missing.
    fn complete_identity(&self, object: &mut Value) -> ApiResult<()> {
        let Some(map) = object.as_object_mut() else {
            return Err(ApiError::bad_request("the body is not an object"));
        };
        let version = self.resource.api_version();
        for (name, expected) in [("apiVersion", &version), ("kind", &self.resource.kind)] {
            let found = map.entry(name).or_insert_with(|| expected.as_str().into());
            if found != expected.as_str() {
                let why = format!("the {name} in the data ({found}) does not match the expected one ({expected})");
                return Err(ApiError::bad_request(why));
            }
        }
        let Some(metadata) = map.entry("metadata").or_insert_with(|| json!({})).as_object_mut() else {
            return Err(ApiError::bad_request("the metadata of the body is not an object"));
        };
        if !self.resource.namespaced {
            metadata.shift_remove("namespace");
            return Ok(());
        }
        let own = metadata.entry("namespace").or_insert_with(|| self.namespace.into());
        if own == self.namespace {
            return Ok(());
        }
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        Err(ApiError::bad_request(format!("{why} ({own} != {})", self.namespace)))
    }

    fn complete_name(&self, object: &mut Value) -> ApiResult<()> {
        let name = text(object, "/metadata/name");
        if name.is_empty() {
            set_metadata(object, "name", self.name);
        } else if name != self.name {
            let why = format!("the name of the object ({name}) does not match the name on the URL ({})", self.name);
            return Err(ApiError::bad_request(why));
        }
        Ok(())
    }

    /// Drops fields that the server does not keep. Returns warnings about them.
    fn drop_fields(&self, object: &mut Value) -> ApiResult<Vec<String>> {
        let unknown = prepare::drop_fields(self.resource, self.api.profile(), object);
        let texts = unknown.iter().map(|path| format!("unknown field {path:?}")).collect::<Vec<_>>();
        match self.field_validation {
            FieldValidation::Strict if !texts.is_empty() => {
                Err(ApiError::bad_request(format!("strict decoding error: {}", texts.join(", "))))
            }
            FieldValidation::Ignore => Ok(Vec::new()),
            _ => Ok(texts),
        }
    }

    fn check_preconditions(&self, live: &StoredObject, old: &Value, new: &mut Value) -> ApiResult<()> {
        let resource = self.resource;
        let wanted = text(new, "/metadata/resourceVersion");
        if wanted.is_empty() && !resource.takes_unconditional_updates() {
            let error = FieldError::invalid_shown("metadata.resourceVersion", "0x0", "must be specified for an update");
            return Err(ApiError::invalid(&resource.plural, &resource.group, self.name, &[error]));
        }
        if !wanted.is_empty() && wanted != live.revision.to_string() {
            return Err(ApiError::stale(&resource.plural, &resource.group, self.name));
        }
        let (mine, theirs) = (text(new, "/metadata/uid"), text(old, "/metadata/uid"));
        if !mine.is_empty() && mine != theirs {
            let why = format!("Precondition failed: UID in precondition: {mine}, UID in object meta: {theirs}");
            return Err(ApiError::conflict(&resource.plural, &resource.group, self.name, &why));
        }
        set_metadata(new, "uid", theirs);
        set_metadata(new, "resourceVersion", live.revision.to_string());
        Ok(())
    }
}
