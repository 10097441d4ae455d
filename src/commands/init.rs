//! `nodecfg init`: creates a repository, from a cluster or as an example.

use std::path::{Path, PathBuf};

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::capture::from_cluster::StarterArgs;
use crate::capture::write_files::{refuse_repository, write_repository};
use crate::capture::{CurrentConfig, Draft, RepositoryFiles};
use crate::report::initialization::{InitialPool, InitialRuns, Initialization};
use crate::report::{Format, findings};
use crate::runs::emit::Shown;
use nodecfg_contract::names::PoolName;

/// Create a repository from the nodes of a cluster, or a small example without a kubeconfig.
///
/// Groups the nodes into pools by a label, captures some nodes of each pool, and writes a repository for which
/// `nodecfg diff` finds no change: nodes keep their ConfigMap content or local configuration. Also writes JSON Schemas
/// for editors to the folder .nodecfg. Writes all files or none. Changes nothing in the cluster.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Write to this folder, which may be a git repository but must not contain pools.
    #[arg(value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    #[command(flatten)]
    starter: StarterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg init fleet                           read the cluster of the current context
  nodecfg init fleet --pool-label team         create a pool for each value of a label
  nodecfg init --no-cluster                    write an example with one pool to this folder";

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    refuse_repository(&args.folder)?;
    let (draft, mut files) = args.starter.draft().await?;
    if args.folder.join("README.md").symlink_metadata().is_ok() {
        files.remove("README.md");
    }
    // The cluster may have taken long to read.
    refuse_repository(&args.folder)?;
    write_repository(&args.folder, &files)?;
    args.show(&draft, &files, format, terminal)?;
    Ok(Exit::Done)
}

impl Args {
    fn show(
        &self,
        draft: &Draft,
        files: &RepositoryFiles,
        format: Format,
        terminal: &mut Terminal,
    ) -> Result<(), CommandError> {
        let pools = draft.pools.iter().map(|pool| InitialPool {
            name: pool.group.name.clone(),
            nodes: pool.group.nodes.len(),
            runs: if pool.runs == CurrentConfig::Local { InitialRuns::Local } else { InitialRuns::ConfigMap },
            paused: !pool.pause_reasons.is_empty(),
            captured: pool.captured.iter().flat_map(|common| common.nodes.iter().cloned()).collect(),
        });
        let example = |path: &String| {
            let (name, _) = path.strip_prefix("pools/")?.split_once("/pool.yaml")?;
            let (name, runs) = (PoolName::new(name).ok()?, InitialRuns::Unknown);
            Some(InitialPool { name, nodes: 0, runs, paused: false, captured: Vec::new() })
        };
        let examples = files.keys().filter_map(example).filter(|_| draft.label.is_none());
        let pause_reasons = draft.pools.iter().flat_map(|pool| {
            pool.pause_reasons.iter().map(|reason| format!("Pool {} is paused. {reason}", pool.group.name))
        });
        let document = Initialization {
            folder: self.folder.display().to_string(),
            fleet: draft.fleet.clone(),
            label: draft.label.clone(),
            pools: pools.chain(examples).collect(),
            files: files.keys().cloned().collect(),
            remarks: draft.remarks.iter().cloned().chain(pause_reasons).collect(),
        };
        if format.is_for_people() {
            for remark in &document.remarks {
                findings::warning_message(&mut terminal.err, remark, "")?;
            }
        }
        let report = document.report(&self.next(draft.is_installed));
        Shown::of(document, report, terminal).write(&mut terminal.out, format)?;
        Ok(())
    }

    /// The commands to run next. `is_installed`: whether the cluster has what `diff` needs.
    fn next(&self, is_installed: bool) -> Vec<String> {
        let mut next = Vec::new();
        if self.folder != Path::new(".") {
            next.push(format!("cd {}", self.folder.display()));
        }
        let commit = "git add . && git commit -m 'What our nodes run'";
        let absolute = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let in_git = absolute.ancestors().any(|folder| folder.join(".git").exists());
        next.push(if in_git { commit.to_owned() } else { format!("git init && {commit}") });
        next.push("nodecfg validate".to_owned());
        if !is_installed {
            next.push("nodecfg install --agent daemonset --image IMAGE".to_owned());
        }
        if !self.starter.no_cluster {
            next.push("nodecfg diff".to_owned());
        }
        next
    }
}
