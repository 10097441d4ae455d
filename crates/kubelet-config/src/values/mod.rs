//! Values as Go and Kubernetes write them: durations, quantities, numbers, labels, paths and lines of CSV.

pub mod csv;
pub mod duration;
pub mod label;
pub mod quantity;
pub(crate) mod strconv;
pub mod units;

pub use strconv::{unsigned, unsigned32};

/// Cleans an absolute path as Go's `filepath.Clean` does.
#[must_use]
pub fn clean_path(path: &str) -> String {
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

/// Formats a list of names as `a, b or c`, with this word before the last one.
pub(crate) fn listed<T: std::borrow::Borrow<str>>(names: &[T], word: &str) -> String {
    match names {
        [most @ .., last] if !most.is_empty() => format!("{} {word} {}", most.join(", "), last.borrow()),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::clean_path;

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
            assert_eq!(clean_path(path), cleaned, "{path}");
        }
    }
}
