//! Unanswered requests: a limit of assignments, and the marks of the node itself.

use super::MayStart;
use crate::pool::Pool;
use crate::pool::node::Node;
use crate::pool::table::Count;

pub(super) fn may_start(pool: &Pool, node: &Node) -> MayStart {
    let is_full = pool.number(Count::Assigning) >= pool.policy.mode.concurrency.max(1);
    if is_full || node.awaits_mark_answer() { MayStart::AFTER_NODES } else { MayStart::Yes }
}
