//! `nodecfg init`: creates a repository, from a cluster or as an example.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::capture::capture_nodes;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::{BoundClusterArgs, invalid_default_name};
use crate::capture::{
    AdoptionError, CurrentConfig, Draft, Group, Repository, SCHEMA_FOLDER, StarterPool, adopt, common, common_config,
    empty_repository, group_nodes, with_schemas,
};
use crate::report::initialization::{InitialPool, InitialRuns, Initialization};
use crate::report::{Format, findings};
use crate::runs::emit::Shown;
use kubelet_config::values::label::check_label_key;
use kubelet_config::{Minor, NEWEST_RELEASED};
use nodecfg_cluster::reading::observe::observe;
use nodecfg_cluster::{ClusterError, ClusterReader, ConnectError, LabelKeys};
use nodecfg_contract::Placement;
use nodecfg_contract::names::{FleetName, NamespaceName, PoolName};
use nodecfg_fleet::{DEFAULT_FLEET, FLEET_FILE, POOLS_FOLDER};
use nodecfg_observed::{ConfigMapKey, Node, Observed, Readiness};

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
    /// Name the fleet. Default: the fleet that the nodes belong to, or `default`.
    #[arg(long, value_name = "NAME")]
    fleet: Option<FleetName>,
    /// Group nodes by this label. Default: the known label that most nodes have (nodecfg.dev/pool, those of EKS, GKE,
    /// AKS, Karpenter and others, or the roles).
    #[arg(long, value_name = "KEY", value_parser = parse_key, conflicts_with = "no_cluster")]
    pool_label: Option<String>,
    /// Write a small example without reading a cluster.
    #[arg(long)]
    no_cluster: bool,
    /// Capture N nodes of each pool; 0 captures none.
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "no_cluster")]
    capture: u32,
    /// Keep values that equal the defaults of the kubelet in captured configurations.
    #[arg(long, conflicts_with = "no_cluster")]
    keep_defaults: bool,
    #[command(flatten)]
    bound: BoundClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg init fleet                           read the cluster of the current context
  nodecfg init fleet --pool-label team         create a pool for each value of a label
  nodecfg init --no-cluster                    write an example with one pool to this folder";

fn parse_key(text: &str) -> Result<String, String> {
    check_label_key(text).map(|()| text.to_owned())
}

pub(super) async fn run(args: &Args, format: Format, terminal: &mut Terminal) -> CommandResult {
    refuse_existing(&args.folder)?;
    let (draft, repository) = match args.reader().await? {
        Some(reader) => args.draft_from_cluster(reader).await?,
        None => {
            let fleet = args.fleet_or_default(None)?;
            let repository = empty_repository(&fleet);
            let remarks = if args.no_cluster {
                Vec::new()
            } else {
                vec!["No kubeconfig was found. This is an example, not the configuration of your nodes.".to_owned()]
            };
            let repository = with_schemas(repository, NEWEST_RELEASED);
            (Draft { fleet, namespace: None, label: None, pools: Vec::new(), remarks }, repository)
        }
    };
    let keeps_readme = args.folder.join("README.md").exists();
    let files: BTreeMap<&str, &str> = repository
        .files
        .iter()
        .filter(|(path, _)| *path != "README.md" || !keeps_readme)
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    write_files(&args.folder, &files)?;
    args.show(&draft, &files, format, terminal)?;
    Ok(Exit::Done)
}

impl Args {
    /// The cluster to read, or `None` for an example.
    async fn reader(&self) -> Result<Option<ClusterReader>, CommandError> {
        if self.no_cluster {
            return Ok(None);
        }
        match self.bound.cluster.reader(LabelKeys::All).await {
            Err(CommandError::Connect(ConnectError::NoCluster { .. })) if !self.bound.cluster.is_named() => Ok(None),
            other => other.map(Some),
        }
    }

    fn fleet_or_default(&self, found: Option<FleetName>) -> Result<FleetName, CommandError> {
        let default = || FleetName::new(DEFAULT_FLEET).map_err(|error| invalid_default_name(&error));
        self.fleet.clone().or(found).map_or_else(default, Ok)
    }

    async fn draft_from_cluster(&self, reader: ClusterReader) -> Result<(Draft, Repository), CommandError> {
        let mut remarks = Vec::new();
        let reader = match self.bound.binding.bind(reader.clone()).await {
            Err(CommandError::Cluster(ClusterError::DefinitionMissing { .. })) => {
                remarks.push(
                    "nodecfg is not installed on this cluster: run `nodecfg install` before `nodecfg diff`.".to_owned(),
                );
                reader
            }
            other => other?,
        };
        let namespace = reader.binding().default_namespace();
        let default = NamespaceName::new(namespace).map_err(|error| invalid_default_name(&error))?;
        let requested = self.bound.cluster.named_namespace().cloned();
        let place = requested.clone().unwrap_or_else(|| default.clone());
        let observed = observe(&reader, place.as_str(), contents_of_nodes).await?;
        if observed.nodes.is_empty() {
            return Err(CommandError::usage("the cluster has no nodes", "pass --no-cluster to write an example"));
        }
        let fleets: BTreeSet<(FleetName, String)> = observed
            .contents
            .iter()
            .filter_map(|(key, map)| Some((map.as_ref()?.fleet()?, key.namespace.clone())))
            .collect();
        let names: BTreeSet<&FleetName> = fleets.iter().map(|(fleet, _)| fleet).collect();
        if self.fleet.is_none() && names.len() > 1 {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            return Err(CommandError::usage(
                format!("nodes belong to several fleets: {}", names.join(", ")),
                "name the fleet of this repository with --fleet",
            ));
        }
        let fleet = self.fleet_or_default(names.first().map(|fleet| (*fleet).clone()))?;
        // The namespace that already holds the ConfigMaps of this fleet, if it is not the default.
        let found = fleets
            .iter()
            .find(|(name, _)| *name == fleet)
            .and_then(|(_, space)| NamespaceName::new(space.as_str()).ok());
        let namespace = requested.or(found).filter(|namespace| *namespace != default);
        let (label, groups) = group_nodes(&observed.nodes, self.pool_label.as_deref());
        let mut pools = Vec::new();
        for group in groups {
            pools.push(self.pool(group, &observed, &reader, &mut remarks).await);
        }
        let mut draft = Draft { fleet, namespace, label: Some(label), pools, remarks };
        let repository = adopt(&mut draft, &observed, &place).map_err(|error| match error {
            AdoptionError::Invalid { findings, snapshot } => CommandError::Invalid { findings, snapshot },
            AdoptionError::Changing => CommandError::usage(
                "cannot create a repository that changes nothing on these nodes",
                "write the repository by hand: docs/reference/repository.md",
            ),
        })?;
        // Fields of the oldest kubelet exist on all nodes, unless a later version removed them.
        let minors = observed.nodes.values().filter_map(|node| Some(Minor(node.kubelet_version?.minor)));
        let oldest = minors.filter(|minor| minor.is_known()).min().unwrap_or(NEWEST_RELEASED);
        Ok((draft, with_schemas(repository, oldest)))
    }

    /// Describes what the nodes of a group run.
    async fn pool(
        &self,
        group: Group,
        observed: &Observed,
        reader: &ClusterReader,
        remarks: &mut Vec<String>,
    ) -> StarterPool {
        let nodes: Vec<&Node> = group.nodes.iter().filter_map(|name| observed.nodes.get(name)).collect();
        let (runs, pause_reasons) = common_config(&nodes, observed);
        let is_replaced = |node: &&Node| node.source.is_some() && node.assigned_placement() == Placement::Replace;
        let has_agents = observed.default_placement() == Placement::Overlay;
        // Before an installation, nodes that can only be configured by agents.
        let needs_agent = |node: &&Node| node.kubelet_version.is_some_and(|version| !version.has_dynamic_config());
        let overlays = has_agents || (!nodes.is_empty() && nodes.iter().all(needs_agent));
        let replaces = has_agents && nodes.iter().any(is_replaced);
        let mut pool = StarterPool { group: group.clone(), runs, pause_reasons, overlays, replaces, captured: None };
        if pool.runs == CurrentConfig::Local && self.capture > 0 {
            let mut local: Vec<Node> =
                nodes.iter().filter(|node| node.source.is_none()).map(|node| (*node).clone()).collect();
            local.sort_by_key(|node| node.ready != Readiness::Ready);
            local.truncate(usize::try_from(self.capture).unwrap_or(usize::MAX));
            let (taken, errors) = capture_nodes(reader, &local, !self.keep_defaults).await;
            for (_, error) in errors {
                let remark = format!("{error}. {}", error.help());
                // Reports missing permissions once, not for every pool.
                let same = |known: &String| known.ends_with(&error.help());
                if !(matches!(error, ClusterError::Forbidden { .. }) && remarks.iter().any(same)) {
                    remarks.push(remark);
                }
            }
            if taken.is_empty() && overlays {
                remarks.push(format!(
                    "Pool {0} has no own.yaml, so its overlay is checked alone. Once its nodes answer, write the output of \
                     `nodecfg capture --pool {0}` to pools/{0}/own.yaml, and name it in spec.kubelet.own.",
                    group.name
                ));
            } else if taken.is_empty() {
                remarks.push(format!(
                    "Pool {0} has no kubelet.yaml. Once its nodes answer, run: nodecfg capture --pool {0} --write .",
                    group.name
                ));
            } else {
                pool.captured = Some(common(&taken));
            }
        }
        pool
    }

    fn show(
        &self,
        draft: &Draft,
        files: &BTreeMap<&str, &str>,
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
        let example = |path: &&str| {
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
            files: files.keys().map(|path| (*path).to_owned()).collect(),
            remarks: draft.remarks.iter().cloned().chain(pause_reasons).collect(),
        };
        if matches!(format, Format::Text | Format::Markdown) {
            for remark in &document.remarks {
                findings::message(&mut terminal.err, remark, "")?;
            }
        }
        let report = document.report(&self.next());
        Shown::of(document, report, terminal).write(&mut terminal.out, format.into())?;
        Ok(())
    }

    /// The commands to run next.
    fn next(&self) -> Vec<String> {
        let mut next = Vec::new();
        if self.folder != Path::new(".") {
            next.push(format!("cd {}", self.folder.display()));
        }
        let commit = "git add . && git commit -m 'What our nodes run'";
        let absolute = std::path::absolute(&self.folder).unwrap_or_else(|_| self.folder.clone());
        let in_git = absolute.ancestors().any(|folder| folder.join(".git").exists());
        next.push(if in_git { commit.to_owned() } else { format!("git init && {commit}") });
        next.push("nodecfg validate".to_owned());
        if !self.no_cluster {
            next.push("nodecfg diff".to_owned());
        }
        next
    }
}

/// ConfigMaps that nodes point at.
fn contents_of_nodes(observed: &Observed) -> BTreeSet<ConfigMapKey> {
    observed.nodes.values().filter_map(|node| ConfigMapKey::of(node.source.as_ref()?)).collect()
}

fn refuse_existing(folder: &Path) -> Result<(), CommandError> {
    let taken = [FLEET_FILE, POOLS_FOLDER, "base", SCHEMA_FOLDER].into_iter().find(|name| folder.join(name).exists());
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
fn write_files(folder: &Path, files: &BTreeMap<&str, &str>) -> Result<(), CommandError> {
    let made = !folder.exists();
    let draft = folder.join(format!(".nodecfg-init-{}", std::process::id()));
    let written = write_and_rename(folder, &draft, files);
    // The temporary folder may not exist, so this error is ignored.
    let _ = std::fs::remove_dir_all(&draft);
    if written.is_err() && made {
        let _ = std::fs::remove_dir(folder);
    }
    written.map_err(|error| {
        CommandError::usage(
            format!("cannot write to {}: {error}", folder.display()),
            "check that the folder is writable and the disk has space",
        )
    })
}

fn write_and_rename(folder: &Path, draft: &Path, files: &BTreeMap<&str, &str>) -> std::io::Result<()> {
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
