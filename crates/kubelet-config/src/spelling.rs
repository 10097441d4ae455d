//! The nearest known name to a misspelled one, for "did you mean" suggestions.

/// Returns the nearest of several names if it is near enough to be a typing error. Case is ignored.
#[must_use]
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let lower = name.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance <= (name.len().max(candidate.len()) / 3).max(1))
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
}
