//! The CPUs that `reservedSystemCPUs` lists: `k8s.io/utils/cpuset` `Parse`, until 1.21 `pkg/kubelet/cm/cpuset`.

use crate::kubelet::{Minor, strconv};
use crate::verdict::Config;

/// The first minor that refuses `3-1`; before, it holds no CPU, nor does `1-2-3`.
const STRICT: Minor = Minor(22);

/// How many CPUs a list has that the kubelet has validated; `None` for a list that it has not.
pub(super) fn count(config: &Config<'_>) -> Option<u64> {
    let mut ranges = Vec::new();
    let text = config.text("reservedSystemCPUs");
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let range = match part.split_once('-') {
            None => strconv::integer(part).map(|one| (one, one)),
            Some((_, last)) if last.contains('-') && config.minor() < STRICT => continue,
            Some((first, last)) => strconv::integer(first).zip(strconv::integer(last)),
        };
        ranges.push(range?);
    }
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    // Ranges may overlap, and may be too long to be written out.
    let (mut count, mut next) = (0_u64, i64::MIN);
    for (first, last) in ranges {
        let first = first.max(next);
        if first <= last {
            count = count.saturating_add(first.abs_diff(last)).saturating_add(1);
            next = last.saturating_add(1);
        }
    }
    Some(count)
}
