//! Lists of CPUs: numbers and ranges, separated by commas (`pkg/kubelet/cm/cpuset`, later `k8s.io/utils/cpuset`).

/// Checks a list as the kubelet does. With `loose`, a descending range is accepted as empty, and a part with more
/// than two ends is ignored.
///
/// # Errors
/// A clause that states the problem.
pub(super) fn check(text: &str, loose: bool) -> Result<(), String> {
    text.split(',').try_for_each(|part| {
        let ends: Vec<&str> = if loose { part.split('-').collect() } else { part.splitn(2, '-').collect() };
        match ends.as_slice() {
            [only] => number(only).map(|_| ()),
            [first, last] => {
                let (first, last) = (number(first)?, number(last)?);
                if first > last && !loose {
                    return Err(format!("the range {part} is descending"));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    })
}

/// Parses a number as `strconv.Atoi` does: decimal, with or without a sign.
fn number(text: &str) -> Result<i64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("{text:?} is not a CPU number"));
    }
    text.parse().map_err(|_| format!("{text} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_lists_as_old_and_new_kubelets_do() {
        for good in ["0", "0-3", "0,2-4,7", "3-3", "+1", "007"] {
            assert_eq!(check(good, false), Ok(()), "{good}");
            assert_eq!(check(good, true), Ok(()), "{good}");
        }
        for bad in ["a", "0, 1", "0-", "-1", ",", "1,", "0-x", "1_0", "0x1", "99999999999999999999", " 1", "1--2"] {
            assert!(check(bad, false).is_err(), "{bad}");
            assert_eq!(check(bad, true).is_err(), bad != "1--2", "{bad}");
        }
        for loose in ["3-0", "0-1-2", "a-b-c"] {
            assert!(check(loose, false).is_err(), "{loose}");
            assert_eq!(check(loose, true), Ok(()), "{loose}");
        }
    }
}
