//! Disk faults in random scenarios. The kubelet must not stay on a refused or failed configuration while its file can
//! still be replaced. If the fault changes the state, the status must report a failure. The node must recover when
//! the fault ends.

use nodecfg_agent::disk::memory::Fault;
use nodecfg_contract::nodeconfig::NodeConfigStatus;

use crate::crash::random_scenario::{CrashInjector, random_scenario, seeds};
use crate::crash::simulated_node::SimulatedNode;

/// Number of scenarios per fault.
const SCENARIOS: u64 = 16;

/// Reports whether a prepared file can still be renamed over another with this fault.
fn can_replace(fault: Fault) -> bool {
    !matches!(fault, Fault::ReadOnly | Fault::RenameLost | Fault::RenameFails)
}

fn reports_failure(status: &NodeConfigStatus) -> bool {
    let error = status.config.as_ref().is_some_and(|config| config.error().is_some());
    error || status.conditions.iter().any(|condition| condition.reason == "StorageFailed")
}

/// Runs scenarios with a disk that starts to fail at some point of each round. Returns the number of rounds in which
/// the fault changed the state before the repair.
fn run_with_fault(fault: Fault) -> u64 {
    let mut affected = 0;
    let seeds = seeds(SCENARIOS);
    for seed in seeds.clone() {
        let mut random = fastrand::Rng::with_seed(seed ^ 0xfa17);
        let rounds = random_scenario(&mut random, 6, false);
        let (mut baseline, mut faulty) = (SimulatedNode::new(seed), SimulatedNode::new(seed));
        faulty.record(&format!("scenario of seed {seed} with {fault:?}"));
        let mut injector = CrashInjector { random, left: 0 };
        for round in &rounds {
            CrashInjector::disabled().run_round(&mut baseline, round);
            let from = injector.random.u64(..45);
            faulty.fault(fault, if injector.random.bool() { 0 } else { from });
            // An agent started on a failing disk must get as far as its predecessor.
            injector.left = if injector.random.bool() { injector.random.u32(1..4) } else { 0 };
            injector.run_round(&mut faulty, round);
            let context =
                || format!("seed {seed}, {fault:?}\nwithout faults:\n{}\nwith faults:\n{}", baseline.log, faulty.log);
            let (expected, found) = (baseline.snapshot(), faulty.snapshot());
            let unaffected = expected.ledger == found.ledger && expected.runs == found.runs;
            affected += u64::from(!unaffected);
            assert!(
                unaffected || reports_failure(&faulty.status()),
                "the status reports no failure: {:?}\n{}",
                faulty.status(),
                context()
            );
            // After a power failure the kubelet may run a placed configuration that was never tried.
            let untried =
                fault == Fault::SyncFails && faulty.lost_power() && found.ledger.agent_state.failure.is_none();
            let excused = !can_replace(fault) || untried;
            assert!(faulty.runs_good_config() || excused, "the kubelet stayed on a bad configuration\n{}", context());
            faulty.repair_disk();
            injector.settle(&mut faulty);
            let differences = expected.differences(&faulty.snapshot());
            let context =
                || format!("seed {seed}, {fault:?}\nwithout faults:\n{}\nwith faults:\n{}", baseline.log, faulty.log);
            assert!(differences.is_empty(), "the node did not recover\n{}\n{}", differences.join("\n"), context());
            assert!(faulty.runs_good_config(), "the kubelet stayed on a bad configuration\n{}", context());
        }
    }
    println!("{fault:?}: {affected} of {} rounds settled in another state", (seeds.end - seeds.start) * 7);
    affected
}

#[test]
fn recovers_from_full_disk() {
    assert!(run_with_fault(Fault::Full) > 0);
}

#[test]
fn recovers_from_short_writes() {
    assert!(run_with_fault(Fault::ShortWrite) > 0);
}

#[test]
fn recovers_from_failed_syncs() {
    assert!(run_with_fault(Fault::SyncFails) > 0);
}

#[test]
fn recovers_from_lost_renames() {
    assert!(run_with_fault(Fault::RenameLost) > 0);
}

#[test]
fn recovers_from_failed_renames() {
    assert!(run_with_fault(Fault::RenameFails) > 0);
}

#[test]
fn recovers_from_read_only_disk() {
    assert!(run_with_fault(Fault::ReadOnly) > 0);
}
