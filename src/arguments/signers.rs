//! `--verify-commits`: argument that requires signed commits.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::repository::signature::Signers;
use crate::repository::{Enclosing, Programs};
use crate::terminal::failure::CommandError;

/// Argument that requires signed commits.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct SignersArgs {
    /// Require the commit to be signed with a key in FILE: OpenSSH allowed signers, armored OpenPGP public keys, or
    /// both.
    #[arg(long, value_name = "FILE", conflicts_with = "worktree")]
    verify_commits: Option<PathBuf>,
}

impl SignersArgs {
    /// Reports whether commits must be signed.
    pub(crate) fn are_given(&self) -> bool {
        self.verify_commits.is_some()
    }

    /// The argument that requires the same signatures again.
    pub(crate) fn arguments(&self) -> impl Iterator<Item = String> {
        self.verify_commits.iter().flat_map(|path| ["--verify-commits".to_owned(), path.to_string_lossy().into_owned()])
    }

    /// Reads the keys.
    pub(crate) fn read(&self) -> Result<Option<Arc<Signers>>, CommandError> {
        let Some(path) = &self.verify_commits else { return Ok(None) };
        let text = Enclosing::default().file(path).map_err(io::Error::from).and_then(io::read_to_string);
        let text = text.map_err(|error| {
            CommandError::usage(
                format!("cannot read the allowed signers {}: {error}", path.display()),
                "name a text file with OpenSSH allowed signers or armored OpenPGP public keys",
            )
        })?;
        let programs = Programs { path: std::env::var_os("PATH").unwrap_or_default(), temporary: std::env::temp_dir() };
        let signers = Signers::parse(&text, programs).map_err(|wrong| {
            let wrong: Vec<String> = wrong.iter().map(ToString::to_string).collect();
            CommandError::usage(
                format!("the allowed signers {} cannot be used: {}", path.display(), wrong.join("; ")),
                "correct these lines as described in docs/reference/signatures.md",
            )
        })?;
        Ok(Some(Arc::new(signers)))
    }
}
