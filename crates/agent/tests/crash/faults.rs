//! A disk that fails: the kubelet is never left on what was refused or failed, as far as its file can be changed at all; the
//! status says what is wrong; and when the disk is well again, so is the node, by itself.

use nodecfg_agent::disk::memory::Fault;
use nodecfg_contract::nodeconfig::NodeConfigStatus;

use crate::story::{Killer, seeds, story};
use crate::world::World;

/// So many stories are told of each fault.
const STORIES: u64 = 16;

/// Whether a file can be replaced on a disk that fails like this, by a rename of something that was made ready.
fn can_replace(fault: Fault) -> bool {
    !matches!(fault, Fault::ReadOnly | Fault::RenameLost | Fault::RenameFails)
}

fn says_so(status: &NodeConfigStatus) -> bool {
    let error = status.config.as_ref().is_some_and(|config| config.error().is_some());
    error || status.conditions.iter().any(|condition| condition.reason == "StorageFailed")
}

/// Tells stories with a disk that begins to fail somewhere in each chapter. Gives how often that made a difference.
fn suffer(fault: Fault) -> u64 {
    let mut troubles = 0;
    let seeds = seeds(STORIES);
    for seed in seeds.clone() {
        let mut random = fastrand::Rng::with_seed(seed ^ 0xfa17);
        let chapters = story(&mut random, 6, false);
        let (mut well, mut ill) = (World::new(seed), World::new(seed));
        ill.note(&format!("story of seed {seed} with {fault:?}"));
        let mut killer = Killer { random, left: 0 };
        for chapter in &chapters {
            Killer::nobody().live(&mut well, chapter);
            let from = killer.random.u64(..45);
            ill.fault(fault, if killer.random.bool() { 0 } else { from });
            // Who starts on a disk that fails must come as far as who was there before.
            killer.left = if killer.random.bool() { killer.random.u32(1..4) } else { 0 };
            killer.live(&mut ill, chapter);
            let told = || format!("seed {seed}, {fault:?}\nwell:\n{}\nill:\n{}", well.history, ill.history);
            let (expected, found) = (well.snapshot(), ill.snapshot());
            let same = expected.ledger == found.ledger && expected.runs == found.runs;
            troubles += u64::from(!same);
            assert!(same || says_so(&ill.status()), "nothing of it in status: {:?}\n{}", ill.status(), told());
            // After a power failure it may run what was put in place and has never been tried: nobody knows that it is bad.
            let untried = fault == Fault::SyncFails && ill.lost_power() && found.ledger.beyond.failure.is_none();
            let excused = !can_replace(fault) || untried;
            assert!(ill.is_well() || excused, "the kubelet was left on something bad\n{}", told());
            ill.mend();
            killer.rest(&mut ill);
            let differences = expected.differences(&ill.snapshot());
            let told = || format!("seed {seed}, {fault:?}\nwell:\n{}\nill:\n{}", well.history, ill.history);
            assert!(differences.is_empty(), "it did not recover\n{}\n{}", differences.join("\n"), told());
            assert!(ill.is_well(), "the kubelet was left on something bad\n{}", told());
        }
    }
    println!("{fault:?}: {troubles} of {} chapters came to another rest", (seeds.end - seeds.start) * 7);
    troubles
}

#[test]
fn no_space() {
    assert!(suffer(Fault::Full) > 0);
}

#[test]
fn short_writes() {
    assert!(suffer(Fault::ShortWrite) > 0);
}

#[test]
fn nothing_becomes_durable() {
    assert!(suffer(Fault::SyncFails) > 0);
}

#[test]
fn renames_are_lost() {
    assert!(suffer(Fault::RenameLost) > 0);
}

#[test]
fn renames_fail() {
    assert!(suffer(Fault::RenameFails) > 0);
}

#[test]
fn read_only() {
    assert!(suffer(Fault::ReadOnly) > 0);
}
