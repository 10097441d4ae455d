//! Unanswered requests: a limit of assignments, and the mark of the node itself, which delays its place for a moment.

use super::MayStart;
use crate::pool::Pool;
use crate::pool::node::Node;
use crate::pool::table::Count;

pub(super) fn may_start(pool: &Pool, node: &Node) -> MayStart {
    let is_full = pool.number(Count::Assigning) >= pool.policy.mode.concurrency.max(1);
    if is_full || node.awaits_mark_answer() { MayStart::AfterNodes } else { MayStart::Yes }
}
