//! Order of names for people: numbers in names compare by value, so that `p2` comes before `p10`.

use std::cmp::Ordering;

/// Compares two names. Runs of ASCII digits compare by value, all other bytes as they are. Names that differ only in
/// leading zeros compare as texts, so that only equal names are equal.
#[must_use]
pub fn compare(a: &str, b: &str) -> Ordering {
    // Names of one pool differ only at their end.
    let same = shared_length(a.as_bytes(), b.as_bytes());
    let (mut left, mut right) = (a.as_bytes().split_at(same).1, b.as_bytes().split_at(same).1);
    loop {
        let (number, other) = (digits(left), digits(right));
        let order = if number.is_empty() || other.is_empty() {
            match (left.split_first(), right.split_first()) {
                (Some((one, left_rest)), Some((two, right_rest))) => {
                    (left, right) = (left_rest, right_rest);
                    one.cmp(two)
                }
                (None, None) => return a.cmp(b),
                (one, two) => return one.is_some().cmp(&two.is_some()),
            }
        } else {
            let (left_rest, right_rest) = (left.split_at(number.len()).1, right.split_at(other.len()).1);
            (left, right) = (left_rest, right_rest);
            let (number, other) = (significant(number), significant(other));
            // Without leading zeros, the number with more digits is larger.
            number.len().cmp(&other.len()).then_with(|| number.cmp(other))
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// Length of what both texts begin with, without the digits at its end: these may be a part of different numbers.
fn shared_length(a: &[u8], b: &[u8]) -> usize {
    // Arrays compare without a call.
    const CHUNK: usize = 8;
    let ((a_chunks, _), (b_chunks, _)) = (a.as_chunks::<CHUNK>(), b.as_chunks::<CHUNK>());
    let chunks = a_chunks.iter().zip(b_chunks).take_while(|(a, b)| a == b).count() * CHUNK;
    let rest = a.iter().zip(b).skip(chunks).take_while(|(a, b)| a == b).count();
    let same = a.split_at(chunks + rest).0;
    same.len() - same.iter().rev().take_while(|byte| byte.is_ascii_digit()).count()
}

/// The digits at the start of a text.
fn digits(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end).0
}

/// A number without leading zeros.
fn significant(number: &[u8]) -> &[u8] {
    let start = number.iter().position(|digit| *digit != b'0').unwrap_or(number.len());
    number.split_at(start).1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_in_names_compare_by_value() {
        let mut names = ["p10", "p2", "p", "p-1", "p02", "p2a", "gpu-9-x", "gpu-10-a", "p1000000000000000000000", "p3"];
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(
            names,
            ["gpu-9-x", "gpu-10-a", "p", "p-1", "p02", "p2", "p2a", "p3", "p10", "p1000000000000000000000"]
        );
    }

    proptest! {
        #[test]
        fn is_a_total_order(a in "[a0-2.-]{0,6}", b in "[a0-2.-]{0,6}", c in "[a0-2.-]{0,6}") {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            prop_assert_eq!(compare(&a, &b) == Ordering::Equal, a == b);
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le());
            }
        }

        /// What both names begin with is skipped, which must not cut a number.
        #[test]
        fn common_start_changes_no_order(start in "[a01.-]{0,20}", a in "[a0-2.-]{0,6}", b in "[a0-2.-]{0,6}") {
            let (a, b) = (format!("{start}{a}"), format!("{start}{b}"));
            prop_assert_eq!(compare(&a, &b), parts(&a).cmp(&parts(&b)).then_with(|| a.cmp(&b)));
        }
    }

    /// Bytes and values of numbers, in order. A number comes where its first digit would.
    fn parts(text: &str) -> Vec<(u8, u128)> {
        let mut parts = Vec::new();
        let mut rest = text.as_bytes();
        while let [first, tail @ ..] = rest {
            let number = digits(rest);
            if number.is_empty() {
                parts.push((*first, 0));
                rest = tail;
            } else {
                let value = std::str::from_utf8(number).unwrap().parse().unwrap();
                parts.push((b'0', value));
                rest = rest.split_at(number.len()).1;
            }
        }
        parts
    }
}
