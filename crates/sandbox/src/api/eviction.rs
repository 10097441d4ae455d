//! Evictions of pods, answered as `pkg/registry/core/pod/storage/eviction.go` does (1.21, and 1.36 with
//! `unhealthyPodEvictionPolicy` and the condition `DisruptionTarget`).

use jiff::Timestamp;
use nodecfg_contract::label_selector::LabelSelector;
use serde_json::{Map, Value, json};

use super::Api;
use super::delete::{self, DeleteOptions};
use super::object::{StoredObject, set_field, time_text};
use super::pod;
use super::request::Query;
use super::resource::{BUDGETS, PODS, Resource};
use super::server_profile::ServerProfile;
use super::status::{ApiError, ApiResult, evicted};
use super::store::key;
use super::validate::text;

/// Number of attempts after conflicts (`EvictionsRetry`). Other writes run meanwhile, so that no pause is needed.
const ATTEMPTS: usize = 20;
/// Maximum number of evictions that the controller of a budget has not noticed (`MaxDisruptedPodSize`).
const MAX_DISRUPTED: usize = 2000;
/// Advice to clients for a budget that is not processed yet, in seconds.
const RETRY_AFTER: u64 = 10;

/// A request to evict a pod.
struct Eviction<'a> {
    api: &'a Api,
    pods: &'a Resource,
    namespace: &'a str,
    name: &'a str,
    options: DeleteOptions,
}

/// Handles an Eviction. `dry_run` is that of the request; the object can have its own.
///
/// # Errors
/// 400 for another object, 403 in a terminating namespace, 404 for a missing pod, 409 for a failed precondition, 429
/// for a budget that allows no disruption now, 500 for several budgets.
pub(crate) fn evict(
    api: &Api,
    pods: &Resource,
    namespace: &str,
    name: &str,
    body: &Value,
    dry_run: bool,
) -> ApiResult<Value> {
    check_identity(api.profile(), namespace, name, body)?;
    let mut options = DeleteOptions::of(body.get("deleteOptions").unwrap_or(&Value::Null), &Query::default())?;
    options.dry_run |= dry_run;
    api.admit_to_namespace(pods, namespace, name)?;
    Eviction { api, pods, namespace, name, options }.run()
}

fn check_identity(profile: ServerProfile, namespace: &str, name: &str, body: &Value) -> ApiResult<()> {
    let version = text(body, "/apiVersion");
    match (text(body, "/kind"), version) {
        ("Eviction" | "", "policy/v1beta1" | "") => {}
        // The server decodes policy/v1 evictions since 1.22.
        ("Eviction", "policy/v1") if profile != ServerProfile::V1_21 => {}
        (kind, _) => {
            let short = version.rsplit('/').next().unwrap_or_default();
            return Err(ApiError::bad_request(format!(
                "{kind} in version {short:?} cannot be handled as a Eviction: no kind {kind:?} is registered for version \
                 {version:?} in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
            )));
        }
    }
    let own = text(body, "/metadata/namespace");
    if !own.is_empty() && own != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    if text(body, "/metadata/name") != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    Ok(())
}

impl Eviction<'_> {
    fn pod(&self) -> ApiResult<(std::sync::Arc<StoredObject>, Value)> {
        let stored = self.api.lock().get(PODS, &key(self.namespace, self.name));
        let stored = stored.ok_or_else(|| ApiError::not_found(PODS, "", self.name))?;
        let pod = stored.value();
        Ok((stored, pod))
    }

    fn run(&self) -> ApiResult<Value> {
        for attempt in 1.. {
            let (stored, pod) = self.pod()?;
            if !ignores_budgets(&pod) {
                return self.run_with_budget(&stored, &pod);
            }
            let mut options = self.options.clone();
            // A pending pod may become ready in the meantime, and then count for a budget.
            if !pod::is_finished(&pod) && text(&pod, "/metadata/deletionTimestamp").is_empty() {
                options.version.get_or_insert_with(|| stored.revision.to_string());
            }
            match self.delete(&options) {
                Err(error) if error.code == 409 && self.options.version.is_none() && attempt < ATTEMPTS => {}
                ended => return ended,
            }
        }
        Err(ApiError::internal("the eviction did not end"))
    }

    fn run_with_budget(&self, stored: &StoredObject, pod: &Value) -> ApiResult<Value> {
        let budgets = budgets_of(self.api, self.namespace, pod);
        let mut options = self.options.clone();
        let mut guarded = None;
        match budgets.as_slice() {
            [] => {}
            [budget] if self.spares_budget(pod, budget) => {
                options.version.get_or_insert_with(|| stored.revision.to_string());
                guarded = Some(text(budget, "/metadata/name"));
            }
            [budget] => self.take_from(text(budget, "/metadata/name"))?,
            _ => return Err(ApiError::several_budgets()),
        }
        match (self.delete(&options), guarded) {
            (Err(error), Some(budget)) if error.code == 409 && self.options.version.is_none() => {
                Err(unprocessed(budget))
            }
            (ended, _) => ended,
        }
    }

    /// Reports whether a pod that is not ready costs its budget nothing.
    fn spares_budget(&self, pod: &Value, budget: &Value) -> bool {
        let always = self.api.profile() != ServerProfile::V1_21
            && text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
        let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
        !pod::is_ready(pod) && (always || healthy >= desired && desired > 0)
    }

    /// Takes one disruption from a budget (`checkAndDecrement`).
    fn take_from(&self, name: &str) -> ApiResult<()> {
        let key = key(self.namespace, name);
        for _ in 0..ATTEMPTS {
            let missing = || ApiError::not_found(BUDGETS, "policy", name);
            let stored = self.api.lock().get(BUDGETS, &key).ok_or_else(missing)?;
            let mut budget = stored.value();
            let allowed = number(&budget, "disruptionsAllowed");
            let observed = number(&budget, "observedGeneration");
            if observed < budget.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0) {
                return Err(unprocessed(name));
            }
            // The servers use the singular here.
            let forbidden = |why: &str| Err(ApiError::forbidden("poddisruptionbudget", "policy", name, why));
            if allowed < 0 {
                return forbidden("pdb disruptions allowed is negative");
            }
            let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
            if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
                return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller");
            }
            if allowed == 0 {
                return Err(ApiError::budget_exhausted(0, &exhaustion(self.api.profile(), name, &budget)));
            }
            if self.options.dry_run {
                return Ok(());
            }
            let now = self.api.now();
            if let Some(status) = budget.get_mut("status").and_then(Value::as_object_mut) {
                status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
                let pods = status.entry("disruptedPods").or_insert_with(|| json!({}));
                set_field(pods, self.name, time_text(now));
            }
            if allowed == 1 {
                set_disruption_allowed(&mut budget, now);
            }
            if self.api.lock().put(BUDGETS, &key, Some(stored.revision), budget).is_ok() {
                return Ok(());
            }
        }
        Err(ApiError::budget_conflict(name))
    }

    fn delete(&self, options: &DeleteOptions) -> ApiResult<Value> {
        let mut options = options.clone();
        // The condition exists since 1.25.
        if self.api.profile() != ServerProfile::V1_21 && !options.dry_run {
            self.add_condition(&mut options)?;
        }
        delete::delete(self.api, self.pods, self.namespace, self.name, &options)?;
        Ok(evicted())
    }

    /// Adds the condition `DisruptionTarget`. A precondition of the resourceVersion moves to the new one.
    fn add_condition(&self, options: &mut DeleteOptions) -> ApiResult<()> {
        loop {
            let (stored, mut pod) = self.pod()?;
            options.check(self.pods, self.name, &stored, &pod)?;
            let condition = json!({
                "type": "DisruptionTarget",
                "status": "True",
                "lastProbeTime": null,
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
            });
            let before = pod.clone();
            if let Value::Object(condition) = condition {
                pod::set_condition(&mut pod, condition, self.api.now());
            }
            if pod == before {
                return Ok(());
            }
            let put = self.api.lock().put(PODS, &key(self.namespace, self.name), Some(stored.revision), pod);
            if let Ok((stored, _)) = put {
                options.version = options.version.take().map(|_| stored.revision.to_string());
                return Ok(());
            }
        }
    }
}

fn unprocessed(budget: &str) -> ApiError {
    let cause = format!("The disruption budget {budget} is still being processed by the server.");
    ApiError::budget_exhausted(RETRY_AFTER, &cause)
}

/// Explains that a budget allows no disruption. Server 1.36 gives no numbers if enough pods are healthy, which is so until
/// the controller of the budget has counted them again. The server would repeat a message in the condition of the budget;
/// no component of the sandbox writes one.
fn exhaustion(profile: ServerProfile, name: &str, budget: &Value) -> String {
    let (needs, has) = (number(budget, "desiredHealthy"), number(budget, "currentHealthy"));
    if profile == ServerProfile::V1_21 || has <= needs {
        return format!("The disruption budget {name} needs {needs} healthy pods and has {has} currently");
    }
    format!("The disruption budget {name} does not allow evicting pods currently")
}

/// Reports whether a pod may be deleted without a look at budgets.
fn ignores_budgets(pod: &Value) -> bool {
    pod::is_finished(pod)
        || text(pod, "/status/phase") == "Pending"
        || !text(pod, "/metadata/deletionTimestamp").is_empty()
}

/// Number in the status of a budget; 0 if missing.
fn number(budget: &Value, field: &str) -> i64 {
    budget.get("status").and_then(|status| status.get(field)).and_then(Value::as_i64).unwrap_or(0)
}

/// Budgets that cover a pod. A budget without a selector covers none, and an empty selector every pod of the
/// namespace (policy/v1).
fn budgets_of(api: &Api, namespace: &str, pod: &Value) -> Vec<Value> {
    let labels = pod.pointer("/metadata/labels").cloned().and_then(|labels| serde_json::from_value(labels).ok());
    let labels = labels.unwrap_or_default();
    let all = api.lock().scan(BUDGETS, namespace, "", None).unwrap_or_default();
    let budgets = all.iter().map(|stored| stored.value());
    budgets.filter(|budget| selector_of(budget).is_some_and(|selector| selector.matches(&labels))).collect()
}

/// Selector of a budget. `None` selects nothing.
fn selector_of(budget: &Value) -> Option<LabelSelector> {
    serde_json::from_value(budget.pointer("/spec/selector")?.clone()).ok()
}

/// Sets the condition `DisruptionAllowed` from `status.disruptionsAllowed` (component-helpers
/// `UpdateDisruptionAllowedCondition`).
pub(crate) fn set_disruption_allowed(budget: &mut Value, now: Timestamp) {
    let (status, reason) = match number(budget, "disruptionsAllowed") {
        allowed if allowed > 0 => ("True", "SufficientPods"),
        _ => ("False", "InsufficientPods"),
    };
    let mut condition = Map::new();
    for (key, value) in [("type", "DisruptionAllowed"), ("status", status), ("reason", reason), ("message", "")] {
        condition.insert(key.to_owned(), value.into());
    }
    condition.insert("observedGeneration".to_owned(), number(budget, "observedGeneration").into());
    pod::set_condition(budget, condition, now);
}
