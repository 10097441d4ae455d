//! The interval: the least time between the starts of two nodes of a pool.

use super::MayStart;
use crate::pool::Pool;
use crate::pool::node::Node;

pub(super) fn may_start(pool: &Pool, _: &Node) -> MayStart {
    let next = pool.starts.latest.map(|latest| latest.after(pool.policy.limits.interval));
    next.filter(|next| *next > pool.now.instant).map_or(MayStart::Yes, MayStart::NotBefore)
}
