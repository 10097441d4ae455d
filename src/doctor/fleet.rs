//! Checks of the repository, of its plan, and of the fleet's lock and orders.

use std::collections::BTreeMap;

use super::access::unavailable;
use super::{Check, Fact, Facts, Lock, NameSample, Repository, SyncFailure, count};
use nodecfg_contract::names::FleetName;
use nodecfg_contract::printable::remark;
use nodecfg_observed::{Orders, Pause};
use nodecfg_plan::{Action, Plan, Problem};

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    match &facts.repository {
        None => checks.push(
            Check::unknown("repository", "not checked: none was given")
                .fix("run `nodecfg doctor REPO` to check a repository and its plan too"),
        ),
        Some(Err(cause)) => {
            checks.push(Check::problem("repository", SyncFailure::BadRepository, &cause.message).fix(&cause.help))
        }
        Some(Ok(repository)) => of_repository(repository, checks),
    }
    if let Some(Err(cause)) = &facts.observed {
        // A missing right has its own check; do not report it twice.
        if !checks.iter().any(|check| check.failure == Some(SyncFailure::Cluster)) {
            checks.push(unavailable("api-server", cause).about("nodes"));
        }
    }
    for (fleet, answer) in &facts.locks {
        lock(facts, fleet, answer, checks);
    }
}

fn of_repository(repository: &Repository, checks: &mut Vec<Check>) {
    let Repository { shown, desired, warnings, plan } = repository;
    let pools = count(desired.pools.len(), "pool");
    checks.push(match warnings {
        0 => Check::ok("repository", format!("{shown}: fleet {}, {pools}, valid", desired.fleet)),
        _ => Check::note("repository", format!("{shown}: valid, with {}", count(*warnings, "warning")))
            .fix("nodecfg validate prints them"),
    });
    if desired.paused {
        let seen = format!("{shown}: spec.paused of the Fleet pauses every pool");
        let fix = "set spec.paused to false when the reason no longer applies";
        checks.push(Check::warning("repository", seen).about("spec.paused").fix(fix));
    }
    match plan {
        None => checks.push(Check::unknown("plan", "not checked: the cluster was not readable")),
        Some(Err(problems)) => checks.extend(problems.iter().map(problem)),
        Some(Ok(plan)) => of_plan(plan, checks),
    }
}

/// Check of a problem that prevents a plan or its execution.
fn problem(problem: &Problem) -> Check {
    let failure = if problem.is_of_repository() { SyncFailure::NoPlan } else { SyncFailure::InTheWay };
    Check::problem("plan", failure, problem.to_string()).about(problem.code()).fix(problem.help())
}

fn of_plan(plan: &Plan, checks: &mut Vec<Check>) {
    let refusals = plan.refusals();
    if refusals.is_empty() {
        let counts = plan.counts();
        let seen = match counts.assign {
            0 => "nothing to do".to_owned(),
            nodes => format!("{} to assign, {} to create", count(nodes, "node"), count(counts.create, "ConfigMap")),
        };
        checks.push(Check::ok("plan", seen));
    }
    checks.extend(refusals.iter().map(problem));
    let empty = NameSample::of(plan.doubtful.iter().filter(|doubt| doubt.empty).map(|doubt| &doubt.pool));
    let mut blocked: BTreeMap<String, NameSample> = BTreeMap::new();
    let mut failed: BTreeMap<String, NameSample> = BTreeMap::new();
    for pool in &plan.pools {
        for step in pool.steps() {
            if let Action::Await { failure: Some(failure), .. } = &step.action {
                failed.entry(failure.to_string()).or_default().add(&step.node);
            }
        }
        for left in pool.left_alone.iter().filter(|left| left.why.is_blocked()) {
            blocked.entry(left.why.to_string()).or_default().add(&left.node);
        }
    }
    checks.push(match empty.number {
        0 => Check::ok("pool-empty", "every pool selects nodes or may be empty"),
        _ => Check::warning("pool-empty", format!("no node is selected by {}", empty.counted("pool")))
            .fix("compare their nodeSelectors with the nodes' labels: kubectl get nodes --show-labels"),
    });
    let unpooled = NameSample::of(plan.unpooled.iter().map(|unpooled| &unpooled.node));
    checks.push(match unpooled.number {
        0 => Check::ok("node-unpooled", "every node belongs to a pool"),
        _ => Check::note(
            "node-unpooled",
            format!("{} in no pool: they keep their configuration", unpooled.counted("node")),
        )
        .fix("if unintended, set the labels of a pool: kubectl label node NODE nodecfg.dev/pool=POOL"),
    });
    for (error, few) in failed {
        let seen = format!("refused by {}, and another sync does not fix it: {error}", few.counted("node"));
        checks.push(Check::problem("node-failed", SyncFailure::LeftOut, seen).about(error).fix(
            "roll back (`nodecfg rollback POOL`), or change the pool's configuration; nodecfg status prints the error of each \
             node",
        ));
    }
    if blocked.is_empty() {
        checks.push(Check::ok("node-left-out", "no node of a pool is skipped"));
    }
    for (why, few) in blocked {
        let otherwise = "exclude such nodes from the pool: change its nodeSelector or their labels";
        let (reason, fix) = why.split_once("; ").unwrap_or((why.as_str(), otherwise));
        checks.push(
            Check::problem("node-left-out", SyncFailure::LeftOut, format!("{}: {reason}", few.counted("node")))
                .about(reason)
                .fix(fix),
        );
    }
}

fn lock(facts: &Facts, fleet: &FleetName, answer: &Fact<Option<Lock>>, checks: &mut Vec<Check>) {
    let lock = match answer {
        Ok(Some(lock)) => lock,
        Ok(None) => {
            checks.push(
                Check::ok("lock", format!("free: no sync of fleet {fleet} has taken the lock")).about(fleet.as_str()),
            );
            return;
        }
        Err(cause) => {
            checks.push(Check::unknown("lock", &cause.message).about(fleet.as_str()).fix(&cause.help));
            return;
        }
    };
    checks.push(lock_state(facts, lock).about(fleet.as_str()));
    checks.extend(match &lock.orders {
        Ok(orders) => order_checks(orders, lock),
        Err(message) => {
            vec![
                Check::warning("orders", format!("Lease {}: {message}", lock.lease))
                    .fix(format!("remove the annotation, then repeat the pauses: {}", annotate(&lock.lease))),
            ]
        }
    });
    if lock.orders == Ok(Orders::default()) {
        checks.push(Check::ok("orders", format!("fleet {fleet} has no orders")).about(fleet.as_str()));
    }
}

fn annotate(lease: &str) -> String {
    let (namespace, name) = lease.split_once('/').unwrap_or(("", lease));
    format!("kubectl -n {namespace} annotate lease {name} ANNOTATION-")
}

fn lock_state(facts: &Facts, lock: &Lock) -> Check {
    let Lock { lease, holder, since, expires, .. } = lock;
    let Some(holder) = holder else { return Check::ok("lock", format!("free: {lease} has no holder")) };
    let holder = remark(holder);
    let since = since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
    match (expires, facts.now()) {
        (Some(expires), Some(now)) if *expires >= now => Check::problem(
            "lock",
            SyncFailure::Locked,
            format!("{holder} holds {lease}{since}, until {expires:.0} unless it is renewed"),
        )
        .fix("wait for that sync, also with --lock-timeout; or stop it: nodecfg abort"),
        (Some(expires), _) => {
            Check::note("lock", format!("{holder} held {lease}{since} and let it expire at {expires:.0}"))
                .fix("nothing to do: the next sync takes the lock over. The holder was killed or lost the API server")
        }
        (None, _) => Check::note("lock", format!("{holder} holds {lease}{since} without an expiry"))
            .fix("nothing to do: the next sync takes the lock over"),
    }
}

fn order_checks(orders: &Orders, lock: &Lock) -> Vec<Check> {
    let paused = |what: &str, pause: &Pause, target: &str| {
        let seen = format!("{what} is paused by {} since {:.0}: {}", pause.by, pause.at, pause.reason);
        let check = if pause.whole_fleet { Check::warning("orders", seen) } else { Check::note("orders", seen) };
        check.about(target).fix(format!("to end the pause: nodecfg resume {target}"))
    };
    let whole = orders.paused.iter().map(|pause| paused("the whole fleet", pause, "--all"));
    let pauses = orders.pauses.iter().map(|(pool, pause)| paused(&format!("pool {pool}"), pause, pool.as_str()));
    let abort = orders.abort.iter().map(|abort| {
        let reason = abort.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let seen = format!("{} ordered {} at {:.0} to stop{reason}", abort.by, remark(&abort.holder), abort.at);
        if lock.holder.as_ref() == Some(&abort.holder) {
            Check::warning("orders", seen).about("abort").fix("wait for it to stop: it reads orders every few seconds")
        } else {
            Check::note("orders", seen)
                .about("abort")
                .fix("nothing to do: that sync has ended, and the order affects no other sync")
        }
    });
    whole.chain(pauses).chain(abort).collect()
}
