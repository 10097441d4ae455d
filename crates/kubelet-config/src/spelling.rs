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

/// Returns the nearest of several names if it is near enough to be a typing error. Case is ignored.
#[must_use]
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower = name.to_lowercase();
    let limit = |candidate: &str| (name.len().max(candidate.len()) / 3).max(1);
    // Lengths that differ by more than the limit need no comparison, which takes long for a long name.
    let letters = lower.chars().count();
    let comparable = |candidate: &&str| {
        let difference = letters.abs_diff(candidate.to_lowercase().chars().count());
        difference <= limit(candidate)
    };
    candidates
        .into_iter()
        .filter(comparable)
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= limit(candidate))
        .min()
        .map(|(_, candidate)| candidate)
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
    fn only_the_first_names_get_a_proposal() {
        let proposals = Proposals::default();
        assert_eq!((0..40_000).filter(|_| proposals.take()).count(), MAX_PROPOSALS);
    }
}
