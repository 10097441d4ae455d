//! A file that is put in the place of another in one step, so that nobody ever reads half of it: a saved plan, the metrics of
//! a run. What must survive a loss of power at any instant is [`agent::disk`](nodecfg_agent::disk)'s business.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Who may read the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Whom the umask lets.
    AsUsual,
    /// Everyone, whatever the umask says: who reads it is another user.
    Everyone,
}

/// Writes the file completely, or leaves what is there as it is. A symbolic link stays one and leads to the new file.
///
/// # Errors
/// When the folder is not there or cannot be written to, or when something other than a regular file is in the way.
pub fn replace(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Ok(path) if !path.is_file() => return Err(io::Error::other("it is there and no regular file")),
        Ok(path) => path,
        Err(_) => path.to_owned(),
    };
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?.to_string_lossy();
    // In the same folder, since renaming is one step within a file system only. Its ending is another, so that who looks for
    // files by their ending does not find it.
    let draft = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = write(&draft, bytes, readers).and_then(|()| fs::rename(&draft, &path));
    if written.is_err() {
        // What cannot be removed could not be made either.
        let _ = fs::remove_file(&draft);
    }
    written
}

fn write(draft: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    // One that was left by a process of this number was never read by anybody.
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
    fn a_file_is_replaced_in_one_step_and_links_stay() {
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
    fn what_is_no_file_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(replace(folder.path(), b"x").is_err());
        assert!(replace(&folder.path().join("none/plan.json"), b"x").is_err());
        #[cfg(unix)]
        assert!(replace(Path::new("/dev/null"), b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).expect("a list").count(), 0);
    }
}
