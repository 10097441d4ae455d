//! Reads single files that are named one by one, wherever they lie.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::text::{normalised, unusable};
use super::{MAX_FILE, SnapshotFile};

/// A byte order mark.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a file, or standard input for `-`, up to the bound of a file. `name` is what findings call it.
#[must_use]
pub fn read_file(path: &Path, name: &str) -> SnapshotFile {
    let read = if path == Path::new("-") { bounded(io::stdin().lock()) } else { File::open(path).and_then(bounded) };
    match read {
        Ok(bytes) => match normalised(name, &bytes) {
            // After a byte order mark the kubelet takes a brace for YAML, and without one for JSON.
            SnapshotFile::Text(text) if bytes.starts_with(MARK) && text.trim_start().starts_with('{') => {
                SnapshotFile::Text(format!("\u{feff}{text}").into())
            }
            file => file,
        },
        Err(error) => {
            let message = format!("{name} cannot be read: {error}");
            unusable(name, "unreadable-file", message, "check the path and its permissions")
        }
    }
}

/// A byte more than the bound tells that there is too much.
fn bounded(from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_is_a_finding() {
        let code = |path: &str| match read_file(Path::new(path), "x") {
            SnapshotFile::Text(text) => text.len().to_string(),
            SnapshotFile::Unusable(finding) => finding.code.to_owned(),
        };
        assert_eq!(code("/nonexistent"), "unreadable-file");
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.display().to_string()
        };
        assert_eq!(code(&write("good", b"a: 1\n")), "5");
        assert_eq!(code(&write("mark", b"\xef\xbb\xbfa: 1\r\n")), "5");
        assert_eq!(code(&write("mark.json", b"\xef\xbb\xbf {}")), "6");
        assert_eq!(code(&write("latin", b"a: \xe9\n")), "not-utf-8");
        assert_eq!(code(&write("large", &vec![b' '; (1 << 20) + 1])), "file-too-large");
        assert_eq!(code(&folder.path().display().to_string()), "unreadable-file");
    }
}
