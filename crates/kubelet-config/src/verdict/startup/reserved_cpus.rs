//! The CPUs in `reservedSystemCPUs`: `k8s.io/utils/cpuset` `Parse`, until 1.21 `pkg/kubelet/cm/cpuset`.

use crate::Minor;
use crate::values::strconv;
use crate::verdict::Config;
use crate::verdict::refusals::Check;

pub(super) const CHECKS: &[Check] = &[("reserved-cpus-none", |config, refusals| {
    let list = config.text("reservedSystemCPUs");
    if !list.is_empty() && count(config) == Some(0) {
        let message = format!("reservedSystemCPUs is {list:?}, which contains no CPU: the kubelet panics");
        let help = "write a range that starts with the lower number, such as \"0-1\"";
        refusals.field(config, "reservedSystemCPUs", message).help(help);
    }
})];

/// The first minor that refuses `3-1` and `1-2-3`. Earlier ones read both as no CPU.
const STRICT: Minor = Minor(22);

/// Returns the number of CPUs in the list. `None` if the list is invalid ([`ranges`]).
pub(super) fn count(config: &Config<'_>) -> Option<u64> {
    let lengths = ranges(config)?.into_iter().map(|(first, last)| (last - first).saturating_add(1));
    Some(lengths.fold(0, u64::saturating_add))
}

/// Returns the CPUs in the list as inclusive ranges that do not overlap, in order. `None` if a part is neither a number nor a
/// range, is negative, or, since 1.22, has three ends. A descending range has no CPU; validation refuses it since 1.22.
pub(super) fn ranges(config: &Config<'_>) -> Option<Vec<(u64, u64)>> {
    let mut ranges = Vec::new();
    let text = config.text("reservedSystemCPUs");
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let range = match part.split_once('-') {
            None => strconv::integer(part).map(|one| (one, one)),
            Some((_, last)) if last.contains('-') && config.minor() < STRICT => continue,
            Some((first, last)) => strconv::integer(first).zip(strconv::integer(last)),
        };
        let (first, last) = range?;
        ranges.push((u64::try_from(first).ok()?, u64::try_from(last).ok()?));
    }
    ranges.retain(|(first, last)| first <= last);
    ranges.sort_unstable();
    // Ranges may overlap, and may be too long to expand.
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (first, last) in ranges {
        match apart.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => apart.push((first, last)),
        }
    }
    Some(apart)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use crate::gates::EnabledGates;

    #[test]
    fn counts_each_cpu_once() {
        for (list, strict, loose) in [
            ("", Some(0), Some(0)),
            ("0", Some(1), Some(1)),
            ("0-3,8", Some(5), Some(5)),
            ("0-3,2-5,1,5", Some(6), Some(6)),
            ("+1,1", Some(1), Some(1)),
            ("0-9223372036854775807", Some(1 << 63), Some(1 << 63)),
            ("9223372036854775807,9223372036854775807", Some(1), Some(1)),
            ("1-2-3", None, Some(0)),
            ("a", None, None),
        ] {
            let document = Document::parse("kubelet.yaml", &format!("reservedSystemCPUs: '{list}'")).document.unwrap();
            let count = |minor| count(&Config::new(&document, Minor(minor), EnabledGates::default()));
            assert_eq!((count(22), count(21)), (strict, loose), "{list}");
        }
    }
}
