//! What a shell proposes where a pool or a node is to be named: from the files in the current folder, or the cluster.
//!
//! Nobody waits long for a proposal, and nobody wants to read an error instead of one: what cannot be found out in
//! [`LIMIT`] is not proposed.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args as _, CommandFactory as _, FromArgMatches as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::cluster_args::ClusterArgs;
use super::{Cli, man};
use nodecfg_cluster::{Binding, ClusterReader, LabelKeys};
use nodecfg_contract::names::PoolName;

/// How long the cluster may take to answer.
const LIMIT: Duration = Duration::from_millis(1500);
/// More proposals than these help nobody.
const MOST: usize = 500;
/// The options that say which cluster it is.
const CLUSTER: [&str; 4] = ["--kubeconfig", "--context", "--namespace", "-n"];

/// The program, with proposals wherever a command takes a POOL, a NODE or the PAGE of the manual.
pub(super) fn proposing() -> clap::Command {
    propose(Cli::command())
}

fn propose(command: clap::Command) -> clap::Command {
    let with = |arg: clap::Arg| match arg.get_value_names().and_then(<[_]>::first).map(|name| name.as_str()) {
        Some("POOL") => arg.add(pools()),
        Some("NODE") => arg.add(nodes()),
        Some("PAGE") => arg.add(pages()),
        _ => arg,
    };
    command.mut_args(with).mut_subcommands(propose)
}

/// Proposes pools: those of the repository that the current folder is in, or else those that have ConfigMaps in the cluster.
fn pools() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let lying_there = std::env::current_dir().map(|folder| pools_around(&folder)).unwrap_or_default();
        candidates(current, if lying_there.is_empty() { of_cluster(What::Pools) } else { lying_there })
    })
}

/// Proposes nodes of the cluster.
fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| candidates(current, of_cluster(What::Nodes)))
}

/// Proposes manual pages.
fn pages() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| candidates(current, man::names(Cli::command()).into_iter().collect()))
}

fn candidates(current: &OsStr, names: BTreeSet<String>) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    // Of several names with commas between them, the last is written now.
    let (before, current) = current.rfind(',').map_or(("", current), |comma| current.split_at(comma + 1));
    let names = names.into_iter().filter(|name| name.starts_with(current)).take(MOST);
    names.map(|name| CompletionCandidate::new(format!("{before}{name}"))).collect()
}

/// The pools of the repository that lies in a folder or in one above it.
fn pools_around(folder: &Path) -> BTreeSet<String> {
    let root = folder.ancestors().find(|folder| folder.join("nodecfg.yaml").is_file());
    let Some(pools) = root.and_then(|root| root.join("pools").read_dir().ok()) else { return BTreeSet::new() };
    pools
        .filter_map(Result::ok)
        .filter(|pool| ["pool.yaml", "kubelet.yaml"].iter().any(|file| pool.path().join(file).is_file()))
        .filter_map(|pool| pool.file_name().into_string().ok())
        // Other folders are no pools, and a shell may take their names for more than names.
        .filter(|name| PoolName::new(name.as_str()).is_ok())
        .collect()
}

/// What is asked of the cluster.
#[derive(Debug, Clone, Copy)]
enum What {
    Pools,
    Nodes,
}

/// The names that a cluster knows, or none: on a thread of its own, which is left behind when it takes too long.
fn of_cluster(what: What) -> BTreeSet<String> {
    let (sender, receiver) = mpsc::channel();
    let cluster = cluster_of(std::env::args_os().filter_map(|word| word.into_string().ok()));
    // Were there no thread to be had, nobody would answer, and there is nothing to propose.
    let asked = std::thread::Builder::new().name("complete".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok();
        let names = runtime.and_then(|runtime| runtime.block_on(names(&cluster, what)));
        // Who asked may have gone.
        let _ = sender.send(names.unwrap_or_default());
    });
    match asked {
        Ok(_) => receiver.recv_timeout(LIMIT).unwrap_or_default(),
        Err(_) => BTreeSet::new(),
    }
}

async fn names(cluster: &ClusterArgs, what: What) -> Option<BTreeSet<String>> {
    let reader = cluster.reader(LabelKeys::Only(BTreeSet::new())).await.ok()?;
    match what {
        What::Nodes => {
            let (nodes, _) = reader.list_nodes().await.ok()?;
            Some(nodes.into_iter().map(|node| node.name.to_string()).collect())
        }
        What::Pools => match cluster.named_namespace() {
            Some(namespace) => pools_in(&reader, namespace.as_str()).await,
            None => {
                // Which of the two it is would take another request to find out.
                let [one, other] = [Binding::Node, Binding::NodeConfig].map(Binding::default_namespace);
                let (one, other) = futures::future::join(pools_in(&reader, one), pools_in(&reader, other)).await;
                Some(one.into_iter().chain(other).flatten().collect())
            }
        },
    }
}

async fn pools_in(reader: &ClusterReader, namespace: &str) -> Option<BTreeSet<String>> {
    let maps = reader.list_config_maps(namespace).await.ok()?;
    Some(maps.into_iter().filter_map(|map| map.pool).map(|pool| pool.to_string()).collect())
}

/// The cluster that the words of an unfinished command line name.
fn cluster_of(words: impl Iterator<Item = String>) -> ClusterArgs {
    let mut named = vec!["nodecfg".to_owned(), "--request-timeout=1s".to_owned()];
    let mut words = words.skip_while(|word| word != "--");
    while let Some(word) = words.next() {
        if CLUSTER.contains(&word.as_str()) {
            named.push(word);
            named.extend(words.next());
        } else if CLUSTER.iter().any(|option| word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))) {
            named.push(word);
        }
    }
    let command = ClusterArgs::augment_args(clap::Command::new("nodecfg"));
    let matches = command.try_get_matches_from(named).ok();
    matches.and_then(|matches| ClusterArgs::from_arg_matches(&matches).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(candidates: Vec<CompletionCandidate>) -> Vec<String> {
        candidates.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn pools_are_those_with_a_file_of_the_repository_around() {
        let folder = tempfile::tempdir().unwrap();
        for pool in ["gpu", "general", "$(id)", "`id`", "a b", "-n", "a;id", "\u{202e}a"] {
            std::fs::create_dir_all(folder.path().join("pools").join(pool)).unwrap();
            std::fs::write(folder.path().join("pools").join(pool).join("pool.yaml"), "").unwrap();
        }
        std::fs::create_dir_all(folder.path().join("pools/notes")).unwrap();
        assert!(pools_around(folder.path()).is_empty(), "no repository");
        std::fs::write(folder.path().join("nodecfg.yaml"), "").unwrap();
        let both = BTreeSet::from(["general".to_owned(), "gpu".to_owned()]);
        assert_eq!(pools_around(folder.path()), both);
        assert_eq!(pools_around(&folder.path().join("pools/gpu")), both);
        assert_eq!(texts(candidates(OsStr::new("gp"), both.clone())), ["gpu"]);
        assert_eq!(texts(candidates(OsStr::new("gpu,ge"), both)), ["gpu,general"]);
    }

    #[test]
    fn the_cluster_is_the_one_of_the_line() {
        let line = "nodecfg -- nodecfg reset --context prod -n=kube-system --kubeconfig=a.yaml no";
        let cluster = cluster_of(line.split(' ').map(str::to_owned));
        assert!(cluster.is_named());
        let nothing = cluster_of("nodecfg -- nodecfg reset --context".split(' ').map(str::to_owned));
        assert!(!nothing.is_named(), "half a line is none");
    }
}
