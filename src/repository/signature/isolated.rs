//! Temporary folder for one signature check: a repository with only the commit, a home and a keyring. Programs read
//! no configuration of the user, the machine or the original repository.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use git2::{ObjectType, Oid, Repository};

use super::super::program::{Answer, Limits, ProgramError, Programs, Stopper, run};
use super::Unverified;

/// A check normally takes a fraction of a second, so the limits end only programs that hang.
const LIMITS: Limits = Limits { time: Duration::from_secs(60), bytes: 4 << 20 };

/// The temporary folder. Removed on drop.
pub(super) struct Isolated<'a> {
    folder: PathBuf,
    commit: Oid,
    programs: &'a Programs,
}

impl Drop for Isolated<'_> {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            tracing::debug!("cannot remove {}: {error}", self.folder.display());
        }
    }
}

impl<'a> Isolated<'a> {
    /// Creates the folder and writes the commit.
    pub(super) fn new(programs: &'a Programs, commit: &[u8]) -> Result<Self, Unverified> {
        let name = format!("nodecfg-{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        let mut isolated = Self { folder: programs.temporary.join(name), commit: Oid::ZERO_SHA1, programs };
        private_folder(&isolated.folder).map_err(|error| unchecked(&error))?;
        private_folder(&isolated.path("gnupg")).map_err(|error| unchecked(&error))?;
        let written = Repository::init_bare(isolated.path("repository"))
            .and_then(|repository| repository.odb()?.write(ObjectType::Commit, commit));
        isolated.commit = written.map_err(|error| unchecked(&io::Error::other(error.message().to_owned())))?;
        Ok(isolated)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a file.
    pub(super) fn write(&self, name: &str, text: &[u8]) -> Result<PathBuf, Unverified> {
        let path = self.path(name);
        fs::write(&path, text).map_err(|error| unchecked(&error))?;
        Ok(path)
    }

    /// Runs `git verify-commit`. `settings` name the program that git runs for the check.
    pub(super) fn verify_commit(&self, settings: &[(&str, &Path)]) -> Result<Answer, Unverified> {
        let mut command = self.command(OsStr::new("git"));
        for setting in ["safe.bareRepository=explicit", "core.hooksPath=/dev/null", "core.fsmonitor=false"] {
            command.args(["-c", setting]);
        }
        for (name, path) in settings {
            let mut setting = std::ffi::OsString::from(format!("{name}="));
            setting.push(path);
            command.arg("-c").arg(setting);
        }
        command.args(["verify-commit", "--raw", &self.commit.to_string()]);
        self.run("git", &mut command)
    }

    /// A command whose environment refers to this folder only.
    pub(super) fn command(&self, program: &OsStr) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", &self.programs.path).env("LC_ALL", "C").env("TZ", "UTC");
        command.env("HOME", &self.folder).env("TMPDIR", &self.folder).env("GNUPGHOME", self.path("gnupg"));
        command.env("GIT_DIR", self.path("repository")).current_dir(&self.folder);
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_NO_REPLACE_OBJECTS", "1").env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_NO_LAZY_FETCH", "1");
        command
    }

    pub(super) fn run(&self, name: &'static str, command: &mut Command) -> Result<Answer, Unverified> {
        Ok(run(name, command, LIMITS, &Stopper::default(), |_| Ok::<_, ProgramError>(()))?)
    }
}

/// Creates a new folder that only its owner can access.
fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn unchecked(error: &io::Error) -> Unverified {
    Unverified::Unchecked {
        message: format!("cannot use the folder for temporary files: {error}"),
        help: "set TMPDIR to a writable folder".to_owned(),
    }
}
