//! The repository and what a sync would make of it; the lock, and what people have ordered.

use std::collections::BTreeMap;

use super::access::troubled;
use super::{Answer, Check, Ending, Facts, Few, Lock, Repository, count};
use nodecfg_contract::names::FleetName;
use nodecfg_contract::observed::Orders;
use nodecfg_planning::plan::{Action, Plan, Problem};

pub(super) fn examine(facts: &Facts, checks: &mut Vec<Check>) {
    match &facts.repository {
        None => checks.push(
            Check::unknown("repository", "not looked at: none was named")
                .mend("nodecfg doctor REPO also checks a repository, and what a sync of it would come upon"),
        ),
        Some(Err(trouble)) => {
            checks.push(Check::problem("repository", Ending::BadRepository, &trouble.message).mend(&trouble.help))
        }
        Some(Ok(repository)) => of_repository(repository, checks),
    }
    if let Some(Err(trouble)) = &facts.observed {
        // A right that is missing is told of as such.
        if !checks.iter().any(|check| check.ending == Some(Ending::Cluster)) {
            checks.push(troubled("api-server", trouble).about("nodes"));
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
            .mend("nodecfg validate shows them"),
    });
    match plan {
        None => checks.push(Check::unknown("plan", "not looked at: the cluster could not be")),
        Some(Err(problems)) => checks.extend(problems.iter().map(problem)),
        Some(Ok(plan)) => of_plan(plan, checks),
    }
}

/// What keeps a plan from being made or carried out.
fn problem(problem: &Problem) -> Check {
    let ending = if problem.is_of_repository() { Ending::NoPlan } else { Ending::InTheWay };
    Check::problem("plan", ending, problem.to_string()).about(problem.code()).mend(problem.help())
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
    let mut empty = Few::default();
    let mut blocked: BTreeMap<String, Few> = BTreeMap::new();
    let mut failed: BTreeMap<&str, Few> = BTreeMap::new();
    for pool in &plan.pools {
        if pool.steps().next().is_none() && pool.left_alone.is_empty() {
            empty.add(&pool.name);
        }
        for step in pool.steps() {
            if let Action::Await { error: Some(error), .. } = &step.action {
                failed.entry(error).or_default().add(&step.node);
            }
        }
        for left in pool.left_alone.iter().filter(|left| left.why.is_blocked()) {
            blocked.entry(left.why.to_string()).or_default().add(&left.node);
        }
    }
    checks.push(match empty.number {
        0 => Check::ok("pool-empty", "every pool selects nodes"),
        _ => Check::warning("pool-empty", format!("no node is selected by {}", empty.counted("pool")))
            .mend("compare their nodeSelectors with the nodes' labels: kubectl get nodes --show-labels"),
    });
    let unpooled = Few::of(plan.unpooled.iter().map(|unpooled| &unpooled.node));
    checks.push(match unpooled.number {
        0 => Check::ok("node-unpooled", "every node is in a pool"),
        _ => Check::note("node-unpooled", format!("{} in no pool: they keep what they run", unpooled.counted("node")))
            .mend("where that is not meant, give them a pool's labels: kubectl label node NODE nodecfg.dev/pool=POOL"),
    });
    for (error, few) in failed {
        let seen = format!("refused by {}, which another sync does not mend: {error}", few.counted("node"));
        checks.push(Check::problem("node-failed", Ending::LeftOut, seen).about(error).mend(
            "go back to what worked (nodecfg rollback POOL), or change the pool's configuration; nodecfg status has each node's \
             words",
        ));
    }
    if blocked.is_empty() {
        checks.push(Check::ok("node-left-out", "no node of a pool is left out"));
    }
    for (why, few) in blocked {
        let otherwise = "keep such nodes out of the pool: its nodeSelector, or their labels";
        let (reason, mend) = why.split_once("; ").unwrap_or((why.as_str(), otherwise));
        checks.push(
            Check::problem("node-left-out", Ending::LeftOut, format!("{}: {reason}", few.counted("node")))
                .about(reason)
                .mend(mend),
        );
    }
}

fn lock(facts: &Facts, fleet: &FleetName, answer: &Answer<Option<Lock>>, checks: &mut Vec<Check>) {
    let lock = match answer {
        Ok(Some(lock)) => lock,
        Ok(None) => {
            checks.push(
                Check::ok("lock", format!("free: no sync of fleet {fleet} has ever taken the lock"))
                    .about(fleet.as_str()),
            );
            return;
        }
        Err(trouble) => {
            checks.push(Check::unknown("lock", &trouble.message).about(fleet.as_str()).mend(&trouble.help));
            return;
        }
    };
    checks.push(state(facts, lock).about(fleet.as_str()));
    checks.extend(match &lock.orders {
        Ok(orders) => ordered(orders, lock),
        Err(message) => {
            vec![Check::warning("orders", format!("Lease {}: {message}", lock.lease)).mend(format!(
                "remove the annotation, and pause again what shall be paused: {}",
                annotate(&lock.lease)
            ))]
        }
    });
    if lock.orders == Ok(Orders::default()) {
        checks.push(Check::ok("orders", format!("nobody has ordered anything of fleet {fleet}")).about(fleet.as_str()));
    }
}

fn annotate(lease: &str) -> String {
    let (namespace, name) = lease.split_once('/').unwrap_or(("", lease));
    format!("kubectl -n {namespace} annotate lease {name} ANNOTATION-")
}

fn state(facts: &Facts, lock: &Lock) -> Check {
    let Lock { lease, holder, since, expires, .. } = lock;
    let Some(holder) = holder else { return Check::ok("lock", format!("free: nobody holds {lease}")) };
    let since = since.map(|since| format!(" since {since:.0}")).unwrap_or_default();
    match (expires, facts.now()) {
        (Some(expires), Some(now)) if *expires >= now => Check::problem(
            "lock",
            Ending::Locked,
            format!("{holder} holds {lease}{since}, until {expires:.0} unless it is renewed"),
        )
        .mend("wait for that sync to end, with --lock-timeout; or stop it: nodecfg abort"),
        (Some(expires), _) => {
            Check::note("lock", format!("{holder} held {lease}{since} and let it expire at {expires:.0}"))
                .mend("nothing to do: the next sync takes it over. That one was killed, or cut off from the API server")
        }
        (None, _) => Check::note("lock", format!("{holder} holds {lease}{since} without a term"))
            .mend("nothing to do: the next sync takes it over"),
    }
}

fn ordered(orders: &Orders, lock: &Lock) -> Vec<Check> {
    let pauses = orders.pauses.iter().map(|(pool, pause)| {
        let seen = format!("pool {pool} is paused by {} since {:.0}: {}", pause.by, pause.at, pause.reason);
        Check::note("orders", seen).about(pool.as_str()).mend(format!("when that is over: nodecfg resume {pool}"))
    });
    let abort = orders.abort.iter().map(|abort| {
        let reason = abort.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let seen = format!("{} told {} at {:.0} to stop{reason}", abort.by, abort.holder, abort.at);
        if lock.holder.as_ref() == Some(&abort.holder) {
            Check::warning("orders", seen).about("abort").mend("wait for it to stop: it looks every ten seconds")
        } else {
            Check::note("orders", seen)
                .about("abort")
                .mend("nothing to do: that sync is over, and the order is for no other")
        }
    });
    pauses.chain(abort).collect()
}
