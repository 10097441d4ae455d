//! Create, update, patch and apply: decode, record field ownership, prepare, validate, store.
//!
//! A write is computed without the lock of the store. If another write is stored first, the write is recomputed.

use std::sync::Arc;

use serde_json::Value;

use super::admission::Source;
use super::event_view;
use super::fields::managed::{self, Writer};
use super::object::{Change, StoredObject, set_metadata};
use super::patch::{self, PatchKind};
use super::prepare;
use super::resource::ResourceType;
use super::status::{ApiError, ApiResult, FieldError};
use super::store::key;
use super::validate::text;
use super::write_request::WriteRequest;

/// Result of a write.
pub(crate) struct WriteResult {
    /// Object after the write.
    pub(crate) object: Arc<StoredObject>,
    /// True for a new object.
    pub(crate) created: bool,
    /// Texts of `Warning` headers.
    pub(crate) warnings: Vec<String>,
}

/// Field ownership of a write.
enum Ownership<'a> {
    Update,
    Apply { config: &'a Value, force: bool },
}

impl WriteRequest<'_> {
    fn key(&self, name: &str) -> String {
        key(if self.resource.namespaced { self.namespace } else { "" }, name)
    }

    fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.resource.plural, &self.resource.group, self.name)
    }

    fn writer<'w>(&'w self, version: &'w str) -> Writer<'w> {
        Writer {
            manager: self.manager,
            version,
            subresource: if self.status { "status" } else { "" },
            now: self.api.now(),
            profile: self.api.profile(),
            reset_fields: prepare::reset_fields(self.resource, self.status),
        }
    }

    fn record_ownership(&self, live: &Value, new: &mut Value, ownership: &Ownership<'_>) -> ApiResult<()> {
        let version = self.resource.stored_version();
        let writer = self.writer(&version);
        let shape = &self.resource.shape;
        match ownership {
            Ownership::Update => managed::update(shape, live, new, &writer),
            Ownership::Apply { config, force } => managed::apply(shape, live, config, new, &writer, *force)?,
        }
        Ok(())
    }

    /// Creates an object.
    ///
    /// # Errors
    /// The API server's error for the refused request.
    pub(crate) fn create(&self, body: Value) -> ApiResult<WriteResult> {
        let body = event_view::incoming(self.resource, body);
        self.create_with_ownership(body, &Ownership::Update, Source::Body)
    }

    fn create_with_ownership(
        &self,
        mut object: Value,
        ownership: &Ownership<'_>,
        source: Source<'_>,
    ) -> ApiResult<WriteResult> {
        let resource = self.resource;
        self.check_identity(&mut object)?;
        if resource.namespaced {
            self.api.admit_to_namespace(resource, self.namespace, text(&object, "/metadata/name"))?;
        }
        let warnings = self.decode(&mut object, source)?;
        if !text(&object, "/metadata/resourceVersion").is_empty() {
            return Err(ApiError::internal("resourceVersion should not be set on objects to be created"));
        }
        let generate = text(&object, "/metadata/generateName").to_owned();
        let generated = text(&object, "/metadata/name").is_empty() && !generate.is_empty();
        loop {
            // Only a generated name can need another attempt.
            let mut object = if generated { object.clone() } else { std::mem::take(&mut object) };
            if generated {
                set_metadata(&mut object, "name", format!("{generate}{}", self.api.suffix()));
            }
            prepare::set_defaults(resource, &mut object);
            self.record_ownership(resource.blank(), &mut object, ownership)?;
            prepare::create(resource, self.api.profile(), &mut object, self.api.uid(), self.api.now());
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
            if let Ok((object, _)) = store.put(&resource.collection, &key, None, object) {
                drop(store);
                self.api.after_create(resource, &object);
                return Ok(WriteResult { object, created: true, warnings });
            }
        }
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// The API server's error for the refused request.
    pub(crate) fn update(&self, body: Value) -> ApiResult<WriteResult> {
        let mut body = event_view::incoming(self.resource, body);
        self.check_identity(&mut body)?;
        let name = text(&body, "/metadata/name");
        if name.is_empty() {
            set_metadata(&mut body, "name", self.name);
        } else if name != self.name {
            let why = format!("the name of the object ({name}) does not match the name on the URL ({})", self.name);
            return Err(ApiError::bad_request(why));
        }
        let missing = self.api.lock().get(&self.resource.collection, &self.key(self.name)).is_none();
        if missing && self.resource.creates_on_update() && !self.status {
            if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
                metadata.shift_remove("resourceVersion");
            }
            return self.create_with_ownership(body, &Ownership::Update, Source::Body);
        }
        self.modify(&|_| Ok(body.clone()), &Ownership::Update, Source::Body)
    }

    /// Patches an object. An apply creates a missing object.
    ///
    /// # Errors
    /// The API server's error for the refused request.
    pub(crate) fn patch(&self, kind: PatchKind, body: &[u8], force: bool) -> ApiResult<WriteResult> {
        if kind == PatchKind::Apply {
            return self.apply(body, force);
        }
        let resource = self.resource;
        let strategic = if kind == PatchKind::Strategic { patch::json::object(body)? } else { Value::Null };
        let patched = |live: &Value| {
            let mut target = event_view::outgoing(resource, live.clone());
            match kind {
                PatchKind::Json => patch::json::patch(&mut target, body)?,
                PatchKind::Merge => patch::json::merge(&mut target, body)?,
                _ => patch::strategic::merge(&resource.shape, &mut target, &strategic),
            }
            Ok(event_view::incoming(resource, target))
        };
        self.modify(&patched, &Ownership::Update, Source::Patch(body))
    }

    fn apply(&self, body: &[u8], force: bool) -> ApiResult<WriteResult> {
        let decoded = std::str::from_utf8(body).map_err(|error| error.to_string()).and_then(|yaml| {
            // Most clients send JSON, and the JSON parser is faster than the YAML parser.
            serde_json::from_str::<Value>(yaml)
                .or_else(|_| serde_saphyr::from_str::<Value>(yaml).map_err(|error| error.to_string()))
        });
        let mut config = decoded.map_err(|why| ApiError::bad_request(format!("error decoding YAML: {why}")))?;
        config = event_view::incoming(self.resource, config);
        for key in ["apiVersion", "kind"] {
            if text(&config, &format!("/{key}")).is_empty() {
                return Err(ApiError::bad_request(format!("invalid object type: {key} must be set")));
            }
        }
        self.check_identity(&mut config)?;
        if config.pointer("/metadata/managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(ApiError::bad_request("metadata.managedFields must be nil"));
        }
        let name = text(&config, "/metadata/name");
        if name.is_empty() {
            set_metadata(&mut config, "name", self.name);
        } else if name != self.name {
            let why = format!("the name of the object ({name}) does not match the name on the URL ({})", self.name);
            return Err(ApiError::bad_request(why));
        }
        let ownership = Ownership::Apply { config: &config, force };
        let missing = self.api.lock().get(&self.resource.collection, &self.key(self.name)).is_none();
        if missing {
            if self.status {
                return Err(self.not_found());
            }
            return self.create_with_ownership(config.clone(), &ownership, Source::Patch(body));
        }
        let version = self.resource.stored_version();
        let writer = self.writer(&version);
        let shape = &self.resource.shape;
        let applied = |live: &Value| {
            let dropped = managed::dropped_by_apply(shape, live, &config, &writer);
            let mut new = live.clone();
            let wanted = config.pointer("/metadata/resourceVersion").cloned();
            patch::apply::merge(shape, &mut new, &config);
            patch::apply::remove(shape, &mut new, &dropped);
            // The second merge restores maps that are applied as empty ones.
            patch::apply::merge(shape, &mut new, &config);
            if let Some(wanted) = wanted {
                set_metadata(&mut new, "resourceVersion", wanted);
            }
            Ok(new)
        };
        self.modify(&applied, &ownership, Source::Patch(body))
    }

    fn modify(
        &self,
        change: &dyn Fn(&Value) -> ApiResult<Value>,
        ownership: &Ownership<'_>,
        source: Source<'_>,
    ) -> ApiResult<WriteResult> {
        let resource = self.resource;
        let key = self.key(self.name);
        loop {
            let live = self.api.lock().get(&resource.collection, &key).ok_or_else(|| self.not_found())?;
            let old = live.value();
            let mut new = change(&old)?;
            self.check_identity(&mut new)?;
            let warnings = self.decode(&mut new, source)?;
            self.check_preconditions(&live, &old, &mut new)?;
            prepare::set_defaults(resource, &mut new);
            self.record_ownership(&old, &mut new, ownership)?;
            prepare::update(resource, self.api.profile(), &old, &mut new, self.status);
            prepare::check(resource, self.api.profile(), Some(&old), &new, self.status)?;
            if is_unchanged(&old, &new) {
                return Ok(WriteResult { object: live, created: false, warnings });
            }
            if self.dry_run {
                let object = Arc::new(StoredObject::new(&new, live.revision, Change::Modified));
                return Ok(WriteResult { object, created: false, warnings });
            }
            // A terminating pod stays until its kubelet removes it (apiserver `ShouldDeleteDuringUpdate`).
            let finished = !text(&new, "/metadata/deletionTimestamp").is_empty()
                && new.pointer("/metadata/finalizers").and_then(Value::as_array).is_none_or(Vec::is_empty)
                && new.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64).is_none_or(|s| s == 0);
            let put = self.api.lock().put(&resource.collection, &key, Some(live.revision), new);
            if let Ok((object, value)) = put {
                if finished && resource.resource_type != ResourceType::Namespace {
                    self.api.remove_now(&resource.collection, &key);
                }
                self.api.after_update(resource, &value, &object);
                return Ok(WriteResult { object, created: false, warnings });
            }
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
        let (uid, version) = (theirs.to_owned(), live.revision.to_string());
        if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert("uid".to_owned(), uid.into());
            metadata.insert("resourceVersion".to_owned(), version.into());
        }
        Ok(())
    }
}

/// Reports whether a write changes at most the times of its managed fields.
fn is_unchanged(old: &Value, new: &Value) -> bool {
    let timeless = |object: &Value| -> Vec<Value> {
        let records = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        let strip = |record: &Value| {
            let mut record = record.clone();
            if let Some(map) = record.as_object_mut() {
                map.shift_remove("time");
            }
            record
        };
        let mut records: Vec<Value> = records.into_iter().flatten().map(strip).collect();
        records.sort_by_key(Value::to_string);
        records
    };
    let (Some(a), Some(b)) = (old.as_object(), new.as_object()) else { return false };
    a.len() == b.len()
        && a.iter().filter(|(key, _)| *key != "metadata").all(|(key, value)| b.get(key) == Some(value))
        && match (a.get("metadata").and_then(Value::as_object), b.get("metadata").and_then(Value::as_object)) {
            (Some(x), Some(y)) => {
                x.iter().chain(y).filter(|(key, _)| *key != "managedFields").all(|(key, _)| x.get(key) == y.get(key))
            }
            _ => false,
        }
        && timeless(old) == timeless(new)
}
