//! Atomic replacement of a file, for saved plans, reports and metrics: a reader never gets a part of the file. Files
//! that must survive a power loss belong to [`agent::disk`](nodecfg_agent::disk).

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::repository::Enclosing;

/// Permitted readers of the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// According to the umask.
    AsUsual,
    /// All users, regardless of the umask: the reader is another user.
    Everyone,
}

/// Replaces a file completely or keeps it unchanged. A symbolic link stays and leads to the new file; within a
/// repository it is refused.
///
/// # Errors
/// The folder is missing or not writable, or the path names something other than a regular file.
pub fn replace(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let path = &Enclosing::default().new_file(path)?;
    let path = match fs::canonicalize(path) {
        Ok(path) if !path.is_file() => return Err(io::Error::other("not a regular file")),
        Ok(path) => path,
        Err(_) => path.to_owned(),
    };
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?.to_string_lossy();
    // Same folder: a rename is atomic only within a file system. Other extension: programs that select files by
    // extension skip the draft.
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = write(&draft, bytes, readers).and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        // A draft that cannot be removed was not created.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write(draft: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    // No process reads a draft that an earlier process with this id left.
    match fs::remove_file(draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(draft)?;
    file.write_all(bytes)?;
    if readers == Readers::Everyone {
        open_to_everyone(&file)?;
    }
    file.sync_all()
}

#[cfg(unix)]
fn open_to_everyone(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn open_to_everyone(_file: &fs::File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
        super::replace(path, bytes, Readers::AsUsual)
    }

    #[test]
    fn replaces_a_file_and_keeps_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("plan.json");
        replace(&path, b"one").expect("written");
        replace(&path, b"two").expect("written again");
        assert_eq!(fs::read(&path).expect("readable"), b"two");
        let link = folder.path().join("link");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(&path, &link).expect("a link");
            replace(&link, b"three").expect("written through");
            assert!(fs::symlink_metadata(&link).expect("is there").is_symlink());
            assert_eq!(fs::read(&path).expect("readable"), b"three");
        }
        let left: Vec<_> =
            fs::read_dir(folder.path()).expect("a list").map(|entry| entry.expect("one").path()).collect();
        assert!(left.iter().all(|left| *left == path || *left == link), "{left:?}");
    }

    #[test]
    fn rejects_paths_that_are_not_files() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(replace(folder.path(), b"x").is_err());
        assert!(replace(&folder.path().join("none/plan.json"), b"x").is_err());
        #[cfg(unix)]
        assert!(replace(Path::new("/dev/null"), b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a list").count(), 0);
    }
}
