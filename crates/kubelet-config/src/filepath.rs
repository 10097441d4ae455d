//! File paths in the form of Go's `filepath` package.

/// Cleans an absolute path as Go's `filepath.Clean` does.
#[must_use]
pub fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::clean;

    #[test]
    fn cleans_paths_as_go_does() {
        for (path, cleaned) in [
            ("/", "/"),
            ("/a/", "/a"),
            ("//a", "/a"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/..", "/"),
            ("/a..", "/a.."),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }
}
