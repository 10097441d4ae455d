//! Runs the program in an environment that is independent of this machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use assert_cmd::cargo::CommandCargoExt as _;
use tempfile::TempDir;

use super::origin::Origin;

/// Folder with a home, a cache and a repository.
pub struct TestEnv {
    pub folder: TempDir,
    pub origin: Origin,
    environment: Vec<(String, String)>,
}

/// Result of one run.
#[derive(Debug)]
pub struct Run {
    pub exit: i32,
    pub out: String,
    pub err: String,
}

impl TestEnv {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let origin = Origin::new(&folder.path().join("origin"));
        std::fs::create_dir(folder.path().join("home")).unwrap();
        Self { folder, origin, environment: Vec::new() }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<Path>) {
        self.environment.push((name.to_owned(), value.as_ref().to_str().unwrap().to_owned()));
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::cargo_bin("nodecfg").unwrap();
        command.env_clear().env("HOME", self.path("home")).env("NODECFG_CACHE_DIR", self.path("cache"));
        command.env("PATH", std::env::var_os("PATH").unwrap()).envs(self.environment.iter().cloned());
        command.current_dir(self.folder.path()).args(arguments).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        Run::of(self.command(arguments))
    }

    /// Validates a revision.
    pub fn read(&self, address: &str, revision: Option<&str>) -> Run {
        let mut arguments = vec!["validate", "-v", address];
        arguments.extend(revision.map(|revision| ["--rev", revision]).into_iter().flatten());
        self.run(&arguments)
    }

    /// Folders in the cache with a repository.
    pub fn entries(&self) -> Vec<PathBuf> {
        let folders = |path: &Path| -> Vec<PathBuf> {
            let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
        };
        let mut entries: Vec<PathBuf> =
            folders(&self.path("cache/git")).iter().flat_map(|shelf| folders(shelf)).collect();
        entries.sort();
        entries
    }
}

impl Run {
    pub fn of(mut command: Command) -> Self {
        let output = command.output().unwrap();
        Self {
            exit: output.status.code().expect("an exit code"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Asserts that the run read the commit with this pool.
    #[track_caller]
    pub fn has_pool(&self, name: &str) {
        assert!(self.exit == 0 && self.out.contains(&format!("pools/{name}")), "{name}: {self:#?}");
    }

    /// Asserts exit code 3 and all of these texts.
    #[track_caller]
    pub fn refuses(&self, texts: &[&str]) {
        let output = self.err.split_whitespace().collect::<Vec<_>>().join(" ");
        for text in texts {
            assert!(self.exit == 3 && output.contains(text), "{text:?}: {self:#?}");
        }
    }
}
