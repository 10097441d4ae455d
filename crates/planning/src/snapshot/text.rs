//! From bytes to text: what a byte order mark and line ends mean, and what is no text.

use kubelet_config::finding::{Finding, Place};

use super::{MAX_FILE, SnapshotFile};

/// What pointers of Git LFS begin with (git-lfs, docs/spec.md).
const LFS: &str = "version https://git-lfs.github.com/spec/v1";
const LFS_HELP: &str =
    "keep configurations in git itself: leave them out of .gitattributes and run git lfs migrate export";

/// The text of a file, without a byte order mark and with `\n` for line ends; or why it is no text.
pub fn normalised(path: &str, bytes: &[u8]) -> SnapshotFile {
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE) {
        return too_large(path, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }
    let text = match std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)) {
        Ok(text) => text,
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let message = format!("{path} is not UTF-8: a byte on line {line} is no part of a character");
            return unusable(path, "not-utf-8", message, "save the file as UTF-8");
        }
    };
    if text.starts_with(LFS) {
        let message = format!("{path} is a pointer of Git LFS; nodecfg reads no content from LFS servers");
        return unusable(path, "lfs-pointer", message, LFS_HELP);
    }
    SnapshotFile::Text(if text.contains('\r') { text.replace("\r\n", "\n").into() } else { text.into() })
}

/// The finding for a file that is too large to read.
pub fn too_large(path: &str, size: u64) -> SnapshotFile {
    let message = format!("{path} has {size} bytes; nodecfg reads files of up to {MAX_FILE}");
    unusable(
        path,
        "file-too-large",
        message,
        "a ConfigMap holds no more either; split the configuration or move the file",
    )
}

/// A file that cannot be used.
pub fn unusable(path: &str, code: &'static str, message: String, help: &str) -> SnapshotFile {
    SnapshotFile::Unusable(Box::new(Finding::error(code, message).at(Place::whole_file(path)).help(help)))
}

/// What there is to say of a file whose name is not UTF-8, if it lies where the configuration is: left out in silence, it
/// could take a whole pool with it. `path` is the name as far as it can be read.
pub fn unreadable_name(path: &str) -> Option<Finding> {
    let configuration = ["pools/", "base/"].iter().any(|folder| path.starts_with(folder));
    let message = format!("the name {path:?} is not UTF-8, and cannot be read");
    configuration.then(|| {
        Finding::error("not-utf-8-name", message).help("rename it, with git mv and the name as the shell completes it")
    })
}

/// Whether nodecfg could use a file of this name.
#[must_use]
pub fn is_candidate(path: &str) -> bool {
    let hidden = path.split('/').any(|part| part.starts_with('.'));
    let name = path.rsplit('/').next().unwrap_or(path);
    let known = name.rsplit_once('.').is_some_and(|(_, end)| matches!(end, "yaml" | "yml" | "json"));
    known && !hidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_of_git_lfs_is_told_apart_from_a_configuration() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n";
        let SnapshotFile::Unusable(finding) = normalised("pools/x/kubelet.yaml", pointer) else { panic!("usable") };
        assert_eq!(finding.code, "lfs-pointer");
        assert!(matches!(normalised("x.yaml", b"# version https://git-lfs"), SnapshotFile::Text(_)));
    }

    #[test]
    fn a_name_that_is_not_utf_8_is_told_where_the_configuration_is() {
        let told = unreadable_name("pools/b\u{fffd}/kubelet.yaml").unwrap();
        assert_eq!((told.code, told.severity), ("not-utf-8-name", kubelet_config::finding::Severity::Error));
        assert!(unreadable_name("photos/b\u{fffd}.jpg").is_none());
    }
}
