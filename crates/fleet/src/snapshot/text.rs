//! Conversion of file bytes to text: UTF-8, byte order marks, line ends and Git LFS pointers.

use kubelet_config::finding::{Finding, Place};

use super::{MAX_FILE, SnapshotFile};

/// First line of a Git LFS pointer (git-lfs, docs/spec.md).
const LFS: &str = "version https://git-lfs.github.com/spec/v1";
const LFS_HELP: &str = "store configurations in git: remove them from .gitattributes and run git lfs migrate export";

/// Text of a file without a byte order mark and with `\n` as line end, or the reason why it is no text.
pub fn normalized(path: &str, bytes: &[u8]) -> SnapshotFile {
    if u64::try_from(bytes.len()).is_ok_and(|len| len > MAX_FILE) {
        return too_large(path, u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }
    let text = match std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)) {
        Ok(text) => text,
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let message = format!("{path} is not UTF-8: invalid byte on line {line}");
            return unusable(path, "not-utf-8", message, "save the file as UTF-8");
        }
    };
    if text.starts_with(LFS) {
        let message = format!("{path} is a Git LFS pointer; nodecfg does not read from LFS servers");
        return unusable(path, "lfs-pointer", message, LFS_HELP);
    }
    SnapshotFile::Text(if text.contains('\r') { text.replace("\r\n", "\n").into() } else { text.into() })
}

/// An unusable file that exceeds the size limit.
pub fn too_large(path: &str, size: u64) -> SnapshotFile {
    let message = format!("{path} has {size} bytes; nodecfg reads files of up to {MAX_FILE} bytes");
    unusable(
        path,
        "file-too-large",
        message,
        "a ConfigMap has the same limit; split the configuration or move the file",
    )
}

/// An unusable file.
pub fn unusable(path: &str, code: &'static str, message: String, help: &str) -> SnapshotFile {
    SnapshotFile::Unusable(Box::new(Finding::error(code, message).at(Place::whole_file(path)).help(help)))
}

/// Finding for a file under `pools/` or `base/` whose name is not UTF-8; ignoring the file could remove a whole pool.
/// `path` is the lossy name.
pub fn unreadable_name(path: &str) -> Option<Finding> {
    let message = format!("the file name {path:?} is not UTF-8");
    let finding = Finding::error("not-utf-8-name", message);
    is_configuration(path).then(|| finding.help("rename it with git mv; complete the name in the shell"))
}

/// Reports whether a path has control characters, such as line feeds. No file of such a name is read: a line of a log
/// that begins with a part of the name may be a command to the program that reads the log.
#[must_use]
pub fn has_controls(path: &str) -> bool {
    path.chars().any(char::is_control)
}

/// Finding for a file under `pools/` or `base/` whose name has control characters.
pub fn name_with_controls(path: &str) -> Option<Finding> {
    let finding = Finding::error("bad-name", format!("the file name {path:?} has control characters"));
    is_configuration(path).then(|| finding.help("rename it with git mv; complete the name in the shell"))
}

fn is_configuration(path: &str) -> bool {
    ["pools/", "base/"].iter().any(|folder| path.starts_with(folder))
}

/// Reports whether nodecfg reads a file of this path: YAML or JSON by its ending, and no part of the path hidden.
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
    fn rejects_git_lfs_pointer() {
        let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n";
        let SnapshotFile::Unusable(finding) = normalized("pools/x/kubelet.yaml", pointer) else { panic!("usable") };
        assert_eq!(finding.code, "lfs-pointer");
        assert!(matches!(normalized("x.yaml", b"# version https://git-lfs"), SnapshotFile::Text(_)));
    }

    #[test]
    fn reports_non_utf_8_name_under_configuration() {
        let finding = unreadable_name("pools/b\u{fffd}/kubelet.yaml").unwrap();
        assert_eq!((finding.code, finding.severity), ("not-utf-8-name", kubelet_config::finding::Severity::Error));
        assert!(unreadable_name("photos/b\u{fffd}.jpg").is_none());
        assert!(name_with_controls("pools/a/b\n.yaml").is_some() && has_controls("b\u{9b}") && !has_controls("ä b"));
    }
}
