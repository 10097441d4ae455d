//! Reads a single file or standard input.

use std::io::{self, Read};
use std::path::Path;

use super::text::normalized;
use super::{Enclosing, MAX_FILE, OpenError, SnapshotFile};

/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// Reads a file, or standard input for `-`. A file of more than [`MAX_FILE`] bytes is unusable, and so is one that
/// `enclosing` refuses. Messages name it `name`.
#[must_use]
pub fn read_file(enclosing: &mut Enclosing, path: &Path, name: &str) -> SnapshotFile {
    let read = if path == Path::new("-") {
        read_limited(io::stdin().lock())
    } else {
        enclosing.file(path).and_then(read_limited)
    };
    match read {
        Ok(bytes) => match normalized(name, &bytes) {
            // The kubelet reads a text that begins with `{` as JSON, but after a byte order mark as YAML. Keeps the
            // mark, which `normalized` removes, so that checks read the text in the same way.
            SnapshotFile::Text(text) if bytes.starts_with(BOM) && text.trim_start().starts_with('{') => {
                SnapshotFile::Text(format!("\u{feff}{text}").into())
            }
            file => file,
        },
        Err(error) => error.unusable(name),
    }
}

/// Reads one byte past the limit, so that the caller detects a file that is too large.
pub(super) fn read_limited(from: impl Read) -> Result<Vec<u8>, OpenError> {
    let mut bytes = Vec::new();
    from.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_texts_and_reports_unreadable_files() {
        let code = |path: &str| match read_file(&mut Enclosing::default(), Path::new(path), "x") {
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
