//! Files of a new repository, and of a captured pool, in a folder.

use std::io;
use std::path::{Path, PathBuf};

use super::editor_schemas::{SCHEMA_FOLDER, schema_of, with_schema_line};
use super::starter::{RepositoryFiles, captured_pool};
use crate::atomic_file::{Readers, replace};
use crate::terminal::failure::CommandError;
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::{FLEET_FILE, POOLS_FOLDER};

/// Fails if a new repository would replace a file of this folder.
pub(crate) fn refuse_repository(folder: &Path) -> Result<(), CommandError> {
    // A link is taken, too, whatever it leads to.
    let is_taken = |name: &&str| folder.join(name).symlink_metadata().is_ok();
    let taken = [FLEET_FILE, POOLS_FOLDER, "base", SCHEMA_FOLDER].into_iter().find(is_taken);
    match taken {
        Some(name) => Err(CommandError::usage(
            format!("{} already exists, and init replaces nothing", folder.join(name).display()),
            "choose another folder",
        )),
        None if folder.exists() && !folder.is_dir() => {
            Err(CommandError::usage(format!("{} is not a folder", folder.display()), "choose another path"))
        }
        None => Ok(()),
    }
}

/// Writes all files or none: first to a temporary folder, then with one rename for each top-level entry.
pub(crate) fn write_repository(folder: &Path, files: &RepositoryFiles) -> Result<(), CommandError> {
    let made = !folder.exists();
    let draft = folder.join(format!(".nodecfg-init-{}", std::process::id()));
    let written = write_and_rename(folder, &draft, files);
    // The temporary folder may not exist, so this error is ignored.
    let _ = std::fs::remove_dir_all(&draft);
    if written.is_err() && made {
        let _ = std::fs::remove_dir(folder);
    }
    written.map_err(|error| unwritable(&format!("to {}", folder.display()), &error))
}

fn write_and_rename(folder: &Path, draft: &Path, files: &RepositoryFiles) -> io::Result<()> {
    std::fs::create_dir_all(draft)?;
    for (path, text) in files {
        let path = draft.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, text)?;
    }
    // Renames the fleet file last, because it marks the folder as a repository.
    let mut names: Vec<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    names.dedup();
    names.sort_by_key(|name| *name == FLEET_FILE);
    let mut placed: Vec<PathBuf> = Vec::new();
    for name in names {
        let target = folder.join(name);
        if let Err(error) = std::fs::rename(draft.join(name), &target) {
            for path in placed {
                // Files that cannot be removed remain; the caller reports the rename error.
                let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
            }
            return Err(error);
        }
        placed.push(target);
    }
    Ok(())
}

/// Fails if the configuration of a pool exists, unless `force` replaces it.
pub(crate) fn refuse_pool(folder: &Path, pool: &PoolName, force: bool) -> Result<(), CommandError> {
    let path = folder.join(POOLS_FOLDER).join(pool.as_str()).join("kubelet.yaml");
    if !force && path.exists() {
        return Err(CommandError::usage(format!("{} already exists", path.display()), "pass --force to replace it"));
    }
    Ok(())
}

/// Writes the configuration of a pool, and a missing pool.yaml. Returns the paths. `named`: the captured nodes may lack the
/// label of the pool.
pub(crate) fn write_pool(
    folder: &Path,
    pool: &PoolName,
    text: String,
    named: bool,
) -> Result<Vec<String>, CommandError> {
    let pool_folder = folder.join(POOLS_FOLDER).join(pool.as_str());
    let write_error = |path: &Path, error: io::Error| unwritable(&path.display().to_string(), &error);
    std::fs::create_dir_all(&pool_folder).map_err(|error| write_error(&pool_folder, error))?;
    let mut files = vec![("kubelet.yaml", text)];
    if !pool_folder.join("pool.yaml").exists() {
        files.insert(0, ("pool.yaml", captured_pool(pool, named)));
    }
    let mut written = Vec::new();
    for (name, text) in files {
        let path = pool_folder.join(name);
        let in_repository = format!("pools/{pool}/{name}");
        let has_schema = schema_of(&in_repository).is_some_and(|schema| folder.join(schema).is_file());
        let text = if has_schema { with_schema_line(&in_repository, &text) } else { text };
        replace(&path, text.as_bytes(), Readers::AsUsual).map_err(|error| write_error(&path, error))?;
        written.push(path.display().to_string());
    }
    Ok(written)
}

fn unwritable(what: &str, error: &io::Error) -> CommandError {
    let help = "check that the folder is writable and the disk has space";
    CommandError::usage(format!("cannot write {what}: {error}"), help)
}
