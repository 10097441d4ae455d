//! Paths of files relative to the root of a checkout, for code scanning and annotations.

use kubelet_config::values::clean_path;

/// Converts paths of files in a batch to paths from the checkout root.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// The current folder, absolute, with `/`.
    pub current: String,
    /// The root of the checkout, absolute, with `/`. Empty for the current folder.
    pub root: String,
}

impl Location {
    /// The path of a file from the checkout root. Absolute if outside of the checkout.
    #[must_use]
    pub fn of(&self, batch_root: &str, file: &str) -> String {
        let path = match batch_root {
            "" | "." => file.to_owned(),
            root => format!("{}/{file}", root.trim_end_matches('/')),
        };
        let absolute = if path.starts_with('/') { path } else { format!("{}/{path}", self.current) };
        let absolute = clean_path(&absolute);
        let root = if self.root.is_empty() { &self.current } else { &self.root };
        let below = absolute.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
        below.map_or(absolute.clone(), str::to_owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn makes_paths_relative_to_the_checkout() {
        let location = |root: &str| Location { current: "/home/repo/sub".to_owned(), root: root.to_owned() };
        for (root, batch, file, path) in [
            ("", "", "a.yaml", "a.yaml"),
            ("", ".", "./a.yaml", "a.yaml"),
            ("", "examples/x", "pools/a.yaml", "examples/x/pools/a.yaml"),
            ("/home/repo", "", "a.yaml", "sub/a.yaml"),
            ("/home/repo/", "../other/", "a.yaml", "other/a.yaml"),
            ("/home/repo", "", "/home/repo/b.yaml", "b.yaml"),
            ("/home/repo", "", "/etc/kubelet.yaml", "/etc/kubelet.yaml"),
            ("/home/re", "", "a.yaml", "/home/repo/sub/a.yaml"),
        ] {
            assert_eq!(location(root).of(batch, file), path, "{root} {batch} {file}");
        }
    }
}
