//! The nearest known name to a misspelled one, for "did you mean" suggestions.

use std::cell::Cell;

/// The number of names of one file that get a proposal.
const MAX_PROPOSALS: usize = 20;

/// The proposals for one file. Each compares a name with all known ones, so only the first names of a file get one.
#[derive(Debug)]
pub struct Proposals {
    left: Cell<usize>,
}

impl Default for Proposals {
    fn default() -> Self {
        Self { left: Cell::new(MAX_PROPOSALS) }
    }
}

impl Proposals {
    /// Reports whether one more name gets a proposal, and counts it.
    #[must_use]
    pub fn take(&self) -> bool {
        let left = self.left.get();
        self.left.set(left.saturating_sub(1));
        left > 0
    }
}

/// The length in characters of the longest name that is compared. A comparison takes the product of two lengths, and no
/// field, gate, pool or file of a sensible name is longer.
const MAX_NAME: usize = 128;

/// Returns the nearest of several names if it is near enough to be a typing error. Case is ignored, and so are names of
/// more than 128 characters.
#[must_use]
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let (lower, length) = comparable(name)?;
    candidates
        .into_iter()
        .filter_map(|candidate| {
            let (other, letters) = comparable(candidate)?;
            let limit = (length.max(letters) / 3).max(1);
            // Lengths that differ by more than the limit need no comparison.
            let distance = (length.abs_diff(letters) <= limit).then(|| strsim::damerau_levenshtein(&lower, &other))?;
            (distance <= limit).then_some((distance, candidate))
        })
        .min()
        .map(|(_, candidate)| candidate)
}

/// A name in lower case and its length in characters, unless it is too long.
fn comparable(name: &str) -> Option<(String, usize)> {
    // One more character than the limit shows that a name is too long, however long it is.
    let is_short = name.chars().take(MAX_NAME + 1).count() <= MAX_NAME;
    let lower = is_short.then(|| name.to_lowercase())?;
    let length = lower.chars().count();
    Some((lower, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_nearest_name() {
        let known = ["maxPods", "podPidsLimit", "port", "podCIDR"];
        for (name, near) in [
            ("MaxPods", Some("maxPods")),
            ("maxPod", Some("maxPods")),
            ("mxaPods", Some("maxPods")),
            ("ports", Some("port")),
            ("evictionHard", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, known), near, "{name}");
        }
    }

    #[test]
    fn counts_characters_and_not_bytes() {
        // Two of three characters differ, and one may. Six bytes would permit two.
        assert_eq!(nearest("абв", ["агд"]), None);
        assert_eq!(nearest("абвгде", ["абвгдё"]), Some("абвгдё"));
        assert_eq!(nearest("x", ["жжж"]), None);
    }

    #[test]
    fn compares_no_long_names() {
        for letter in ["x", "ж", "\u{10348}"] {
            let (longest, long) = (letter.repeat(MAX_NAME), letter.repeat(MAX_NAME + 1));
            assert_eq!(nearest(&longest, [longest.as_str()]), Some(longest.as_str()));
            assert_eq!(nearest(&long, [long.as_str(), longest.as_str()]), None, "{letter}");
            assert_eq!(nearest(&longest, [long.as_str()]), None, "{letter}");
        }
    }

    #[test]
    fn only_the_first_names_get_a_proposal() {
        let proposals = Proposals::default();
        assert_eq!((0..40_000).filter(|_| proposals.take()).count(), MAX_PROPOSALS);
    }
}
