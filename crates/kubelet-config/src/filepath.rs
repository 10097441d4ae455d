//! Paths as Go's `filepath` takes them.

/// An absolute path as Go's `filepath.Clean` has it.
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
    fn as_go_cleans_them() {
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
