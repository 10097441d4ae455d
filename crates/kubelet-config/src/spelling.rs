//! The nearest name to a misspelt one, for every "did you mean".

/// The nearest of several names, when one is near enough to be a slip of the pen. Case does not count.
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
    fn the_nearest_name() {
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
