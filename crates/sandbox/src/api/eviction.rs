//! Evictions of pods, answered as `pkg/registry/core/pod/storage/eviction.go` does.

use nodecfg_contract::label_selector::LabelSelector;
use serde_json::{Value, json};

use super::Api;
use super::delete::{self, DeleteOptions};
use super::object::{set_field, text, time_text};
use super::pod;
use super::request::Query;
use super::resource::{BUDGETS, PODS, Resource};
use super::status::{ApiError, ApiResult, evicted};
use super::store::key;

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
    if text(body, "/kind") != "Eviction" || text(body, "/metadata/name") != name {
        return Err(ApiError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::of(body.get("deleteOptions").unwrap_or(&Value::Null), &Query::default())?;
    options.dry_run |= dry_run;
    api.admit_to_namespace(pods, namespace, name)?;
    let stored = api.lock().get(PODS, &key(namespace, name));
    let stored = stored.ok_or_else(|| ApiError::not_found(PODS, "", name))?;
    let pod = stored.value();
    options.check(pods, name, &stored, &pod)?;
    if !ignores_budgets(&pod) {
        match budgets_of(api, namespace, &pod).as_slice() {
            [] => {}
            [budget] if costs_nothing(&pod, budget) => {}
            [budget] => take_from(api, namespace, text(budget, "/metadata/name"), name, options.dry_run)?,
            _ => return Err(ApiError::several_budgets()),
        }
    }
    delete::delete(api, pods, namespace, name, &options)?;
    Ok(evicted())
}

/// Takes one disruption for a pod from a budget (`checkAndDecrement`).
fn take_from(api: &Api, namespace: &str, budget: &str, pod: &str, dry_run: bool) -> ApiResult<()> {
    let key = key(namespace, budget);
    loop {
        let stored = api.lock().get(BUDGETS, &key).ok_or_else(|| ApiError::not_found(BUDGETS, "policy", budget))?;
        let mut object = stored.value();
        let allowed = number(&object, "disruptionsAllowed");
        if number(&object, "observedGeneration")
            < object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
        {
            let cause = format!("The disruption budget {budget} is still being processed by the server.");
            return Err(ApiError::budget_exhausted(10, &cause));
        }
        if allowed <= 0 {
            let (needs, has) = (number(&object, "desiredHealthy"), number(&object, "currentHealthy"));
            let cause = format!("The disruption budget {budget} needs {needs} healthy pods and has {has} currently");
            return Err(ApiError::budget_exhausted(0, &cause));
        }
        if dry_run {
            return Ok(());
        }
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            status.insert("disruptionsAllowed".to_owned(), (allowed - 1).into());
            set_field(status.entry("disruptedPods").or_insert_with(|| json!({})), pod, time_text(api.now()));
        }
        if api.lock().put(BUDGETS, &key, Some(stored.revision), object).is_ok() {
            return Ok(());
        }
    }
}

/// Reports whether a pod may be deleted whatever budgets say.
fn ignores_budgets(pod: &Value) -> bool {
    pod::is_finished(pod)
        || text(pod, "/status/phase") == "Pending"
        || !text(pod, "/metadata/deletionTimestamp").is_empty()
}

/// Reports whether a pod that is not ready costs its budget nothing.
fn costs_nothing(pod: &Value, budget: &Value) -> bool {
    let always = text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow";
    let (healthy, desired) = (number(budget, "currentHealthy"), number(budget, "desiredHealthy"));
    !pod::is_ready(pod) && (always || healthy >= desired && desired > 0)
}

/// Number in the status of a budget; 0 if missing.
fn number(budget: &Value, field: &str) -> i64 {
    budget.get("status").and_then(|status| status.get(field)).and_then(Value::as_i64).unwrap_or(0)
}

/// Budgets that cover a pod. A budget without a selector covers none, and an empty selector every pod of the
/// namespace (policy/v1).
fn budgets_of(api: &Api, namespace: &str, pod: &Value) -> Vec<Value> {
    let label = |key: &str| pod.pointer("/metadata/labels")?.get(key)?.as_str();
    let all = api.lock().scan(BUDGETS, namespace, "", None).unwrap_or_default();
    let budgets = all.iter().map(|stored| stored.value());
    budgets.filter(|budget| selector_of(budget).is_some_and(|selector| selector.matches_values(label))).collect()
}

/// Selector of a budget. `None` selects nothing.
fn selector_of(budget: &Value) -> Option<LabelSelector> {
    serde_json::from_value(budget.pointer("/spec/selector")?.clone()).ok()
}
