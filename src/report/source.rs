//! What a node points at, in the few words of a table or a line.

use nodecfg_contract::ConfigSource;

/// With its namespace: `kube-system/prod-gpu-x`, or `local`.
#[must_use]
pub fn full(source: Option<&ConfigSource>) -> String {
    source.map_or_else(|| "local".to_owned(), ToString::to_string)
}

/// Without its namespace, which is the same for all nearly always and takes the room that the hash needs.
#[must_use]
pub fn short(source: Option<&ConfigSource>) -> String {
    let text = full(source);
    text.split_once('/').map_or(text.clone(), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_named_and_none_is_local() {
        let source = ConfigSource::config_map("kube-system", "a", "kubelet");
        assert_eq!((full(Some(&source)), short(Some(&source))), ("kube-system/a".to_owned(), "a".to_owned()));
        assert_eq!((full(None), short(None)), ("local".to_owned(), "local".to_owned()));
        assert_eq!(short(Some(&ConfigSource::config_map("ns", "a", "other"))), "a:other");
    }
}
