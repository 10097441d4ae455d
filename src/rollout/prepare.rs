//! Steps of an execution before the first assignment: check of the permissions, marks of earlier drains, ConfigMaps, pool
//! pointers and content hashes.

use futures::{StreamExt as _, stream};
use jiff::Timestamp;

use nodecfg_cluster::writing::permission::Needs;
use nodecfg_cluster::writing::writer::Created;
use nodecfg_cluster::{ClusterError, ClusterReader, ClusterWriter, PointerSpec, Replaced};
use nodecfg_contract::names::PoolName;
use nodecfg_contract::pool_pointer::PoolPointer;
use nodecfg_plan::{Action, Plan, PointerMove, PointerTime, PoolPlan};
use nodecfg_rollout::progress::{Event, Progress};

/// Number of ConfigMaps written concurrently.
const CONFIG_MAPS_AT_A_TIME: usize = 8;
/// Number of content hashes added concurrently.
const HASHES_AT_A_TIME: usize = 16;
/// Number of marks removed concurrently.
const RELEASES_AT_A_TIME: usize = 8;

/// Makes the writes of a plan that precede its assignments.
///
/// # Errors
/// The first failed request. No node was assigned.
pub(super) async fn before_assignments(
    plan: &Plan,
    writer: &ClusterWriter,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Result<Option<ClusterError>, ClusterError> {
    let refused = release_marks(plan, writer, listener).await?;
    create_config_maps(plan, writer, listener).await?;
    move_pointers(plan, writer, listener).await?;
    complete(plan, writer, listener).await?;
    Ok(refused)
}

/// Checks the permissions of the whole rollout, so that it does not end half-way. Then tries out the first write of each
/// kind that admission may refuse.
///
/// # Errors
/// A missing permission, a refusal, or a failed request.
pub async fn check_permissions(plan: &Plan, reader: &ClusterReader) -> Result<(), ClusterError> {
    reader.check_all_allowed(needs(plan)).await?;
    let created = plan.created().next();
    if created.is_some() || plan.pools.iter().any(|pool| pool.pointer.is_some()) {
        reader.try_config_map(plan.namespace.as_str(), created).await?;
    }
    match plan.pools.iter().flat_map(PoolPlan::steps).find(|step| step.action == Action::Assign) {
        Some(step) => reader.try_assignment(&step.node, &step.assignment).await,
        None => Ok(()),
    }
}

/// Reports whether the pods of assigned nodes can be checked. An account without the right to list pods changes nodes
/// without that check.
///
/// # Errors
/// A failed request.
pub(super) async fn may_list_pods(plan: &Plan, reader: &ClusterReader) -> Result<bool, ClusterError> {
    let checks = |pool: &PoolPlan| pool.policy.check_pods && pool.assignments() > 0;
    if !plan.pools.iter().any(checks) {
        return Ok(false);
    }
    match reader.may_list_pods().await {
        Ok(()) => Ok(true),
        Err(error @ ClusterError::Forbidden { .. }) => {
            tracing::info!("the pods of changed nodes are not checked: {error}; deploy/forecaster has the right");
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Operations of the whole rollout.
fn needs(plan: &Plan) -> Needs<'_> {
    let creates = plan.created().next().is_some();
    Needs {
        config_maps_in: creates.then_some(plan.namespace.as_str()),
        pointers_in: plan.pools.iter().any(|pool| pool.pointer.is_some()).then_some(plan.namespace.as_str()),
        assign: plan.has_changes(),
        watch: plan.pools.iter().any(|pool| pool.steps().next().is_some()),
        drain: plan.drains_nodes(),
    }
}

/// Removes the marks of drains that an earlier run did not finish and that this plan does not continue. Returns the first
/// refusal that leaves a taint. A kubelet can set the taint as it registers and change the annotations at any time, so a
/// mark that stays does not end the run.
async fn release_marks(
    plan: &Plan,
    writer: &ClusterWriter,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Result<Option<ClusterError>, ClusterError> {
    let mut refused = None;
    let mut released = stream::iter(&plan.releases)
        .map(|release| async move { (release, writer.release_drain(&release.node, &release.uid).await) })
        .buffer_unordered(RELEASES_AT_A_TIME);
    while let Some((release, result)) = released.next().await {
        match result {
            Ok(_) => {}
            Err(error @ (ClusterError::LockLost { .. } | ClusterError::Unreachable { .. })) => return Err(error),
            Err(error) if release.tainted => {
                tracing::error!("the taint of an earlier drain stays on node {}: {error}", release.node);
                refused = refused.or(Some(error));
                continue;
            }
            Err(error) => {
                tracing::warn!("the annotations of an earlier drain stay on node {}: {error}", release.node);
                continue;
            }
        }
        let event = Event::from(Progress::MarkReleased).about(release.node.clone());
        listener(nodecfg_clock::now(), &event);
    }
    Ok(refused)
}

async fn create_config_maps(
    plan: &Plan,
    writer: &ClusterWriter,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Result<(), ClusterError> {
    let mut created = stream::iter(plan.created())
        .map(|map| async move { (map, writer.create_config_map(map).await) })
        .buffer_unordered(CONFIG_MAPS_AT_A_TIME);
    while let Some((map, result)) = created.next().await {
        if result? == Created::Created {
            let progress = Progress::ConfigMapCreated { name: map.config.config_map.clone() };
            listener(nodecfg_clock::now(), &progress.into());
        }
    }
    Ok(())
}

/// Moves the pointers whose configuration nodes run already.
async fn move_pointers(
    plan: &Plan,
    writer: &ClusterWriter,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Result<(), ClusterError> {
    let due = plan.pools.iter().filter_map(|pool| Some((pool, pool.pointer.as_ref()?)));
    let specs: Vec<PointerSpec> = due
        .filter(|(_, planned)| planned.when == PointerTime::AtOnce)
        .map(|(pool, planned)| pointer_spec(plan, &pool.name, planned, planned.to.clone()))
        .collect();
    let mut written = stream::iter(&specs)
        .map(|spec| async move { (spec, writer.write_pointer(spec).await) })
        .buffer_unordered(CONFIG_MAPS_AT_A_TIME);
    while let Some((spec, result)) = written.next().await {
        result?;
        let config_map = spec.pointer.config_map();
        let event = Event::from(Progress::PointerMoved { config_map }).of(spec.pool.clone());
        listener(nodecfg_clock::now(), &event);
    }
    Ok(())
}

/// Pointer of a pool to write, as planned or to undo that.
pub(super) fn pointer_spec(plan: &Plan, pool: &PoolName, planned: &PointerMove, pointer: PoolPointer) -> PointerSpec {
    let replaces = match &planned.resource_version {
        _ if pointer != planned.to => Replaced::Content(planned.to.clone()),
        Some(version) => Replaced::Version(version.clone()),
        None => Replaced::Missing,
    };
    PointerSpec {
        namespace: plan.namespace.to_string(),
        fleet: plan.fleet.clone(),
        pool: pool.clone(),
        pointer,
        replaces,
    }
}

/// Adds content hash and placement to NodeConfigs whose nodes run the desired content so. A node that was changed or
/// deleted since the plan is left for the next run.
async fn complete(
    plan: &Plan,
    writer: &ClusterWriter,
    listener: &mut dyn FnMut(Timestamp, &Event),
) -> Result<(), ClusterError> {
    let added = plan.pools.iter().flat_map(PoolPlan::completions);
    let mut written = stream::iter(added)
        .map(|(node, change)| async move { (node, writer.assign(node, change).await) })
        .buffer_unordered(HASHES_AT_A_TIME);
    let mut nodes = 0;
    while let Some((node, result)) = written.next().await {
        match result {
            Ok(_) => nodes += 1,
            Err(
                error @ (ClusterError::PreconditionFailed { .. }
                | ClusterError::Conflict { .. }
                | ClusterError::NotFound { .. }),
            ) => tracing::info!(node = node.as_str(), "its NodeConfig was not completed: {error}"),
            Err(error) => return Err(error),
        }
    }
    if nodes > 0 {
        listener(nodecfg_clock::now(), &Progress::ContentHashesAdded { nodes }.into());
    }
    Ok(())
}

#[cfg(test)]
#[path = "prepare_tests.rs"]
mod tests;
