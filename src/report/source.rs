//! Names of configuration sources in tables and lines.

use nodecfg_contract::ConfigSource;

/// The name with its namespace: `kube-system/prod-gpu-x`, or `local`.
#[must_use]
pub fn full(source: Option<&ConfigSource>) -> String {
    source.map_or_else(|| "local".to_owned(), ToString::to_string)
}

/// The name without its namespace, which is nearly always the same and takes space from the hash.
#[must_use]
pub fn short(source: Option<&ConfigSource>) -> String {
    let text = full(source);
    text.split_once('/').map_or(text.clone(), |(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_config_maps_and_local() {
        let source = ConfigSource::config_map("kube-system", "a", "kubelet");
        assert_eq!((full(Some(&source)), short(Some(&source))), ("kube-system/a".to_owned(), "a".to_owned()));
        assert_eq!((full(None), short(None)), ("local".to_owned(), "local".to_owned()));
        assert_eq!(short(Some(&ConfigSource::config_map("ns", "a", "other"))), "a:other");
    }
}
