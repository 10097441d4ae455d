//! Shell completion of pools, nodes, revisions, contexts, fields, codes and manual pages: from the current repository,
//! the kubeconfig or the cluster.
//!
//! Completion never prints an error: names that cannot be read within [`TIMEOUT`] are omitted. So are names with
//! characters that a shell interprets: a branch of another user may be named `$(id)`.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::arguments::cluster::{BoundClusterArgs, ClusterArgs};
use crate::commands::command_line;
use crate::commands::man;
use crate::report::code_explanation::all_codes;
use crate::repository::revisions;
use kubelet_config::fields;
use nodecfg_cluster::{Binding, ClusterReader, LabelKeys};
use nodecfg_contract::names::PoolName;
use nodecfg_fleet::{FLEET_FILE, POOLS_FOLDER};

/// How long to wait for the cluster.
const TIMEOUT: Duration = Duration::from_millis(1500);
/// Maximum number of candidates.
const MAX_CANDIDATES: usize = 500;
/// Options that select the cluster.
const CLUSTER_OPTIONS: [&str; 4] = ["--kubeconfig", "--context", "--namespace", "-n"];

/// The command line with completers, chosen by the names of values.
pub(super) fn with_completers() -> clap::Command {
    // Before a command, the options of every cluster are completed.
    add_completers(BoundClusterArgs::augment_args(command_line::declared()))
}

fn add_completers(command: clap::Command) -> clap::Command {
    let with = |arg: clap::Arg| match arg.get_value_names().and_then(<[_]>::first).map(|name| name.as_str()) {
        Some("POOL") => arg.add(pools()),
        Some("NODE") => arg.add(nodes()),
        Some("PAGE") => arg.add(completer(|| man::names().into_iter().collect())),
        Some("REV") => arg.add(completer(|| revisions(Path::new(".")))),
        Some("CONTEXT") => arg.add(completer(context_names)),
        Some("FIELD|CODE") => arg.add(completer(field_and_code_names)),
        _ => arg,
    };
    command.mut_args(with).mut_subcommands(add_completers)
}

fn completer(names: impl Fn() -> BTreeSet<String> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| candidates(current, names()))
}

/// Completes pools: of the repository around the current folder, or else of the ConfigMaps in the cluster.
fn pools() -> ArgValueCompleter {
    completer(|| {
        let local = std::env::current_dir().map(|folder| repository_pools(&folder)).unwrap_or_default();
        if local.is_empty() { cluster_names(NameKind::Pools) } else { local }
    })
}

/// Completes nodes of the cluster.
fn nodes() -> ArgValueCompleter {
    completer(|| cluster_names(NameKind::Nodes))
}

/// The contexts of the kubeconfig.
fn context_names() -> BTreeSet<String> {
    typed_cluster().contexts().into_iter().collect()
}

/// The fields of KubeletConfiguration, and all codes.
fn field_and_code_names() -> BTreeSet<String> {
    fields::all().map(|field| field.path.as_str()).chain(all_codes()).map(str::to_owned).collect()
}

fn candidates(current: &OsStr, names: BTreeSet<String>) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else { return Vec::new() };
    // In a comma-separated list, only the last name is completed.
    let (before, current) = current.rfind(',').map_or(("", current), |comma| current.split_at(comma + 1));
    let names = names.into_iter().filter(|name| name.starts_with(current) && is_plain(name)).take(MAX_CANDIDATES);
    names.map(|name| CompletionCandidate::new(format!("{before}{name}"))).collect()
}

/// Reports whether no shell interprets a part of the name, and no program takes it as an option.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|c| c.is_ascii_alphanumeric() || "._/:@+-".contains(c))
}

/// Pools of the repository that contains the folder.
fn repository_pools(folder: &Path) -> BTreeSet<String> {
    let root = folder.ancestors().find(|folder| folder.join(FLEET_FILE).is_file());
    let Some(pools) = root.and_then(|root| root.join(POOLS_FOLDER).read_dir().ok()) else { return BTreeSet::new() };
    pools
        .filter_map(Result::ok)
        .filter(|pool| ["pool.yaml", "kubelet.yaml"].iter().any(|file| pool.path().join(file).is_file()))
        .filter_map(|pool| pool.file_name().into_string().ok())
        // A folder name that is no pool name is skipped: a shell might interpret it.
        .filter(|name| PoolName::new(name.as_str()).is_ok())
        .collect()
}

/// Kind of names to read from the cluster.
#[derive(Debug, Clone, Copy)]
enum NameKind {
    Pools,
    Nodes,
}

/// Names read from the cluster, or none. Reads on a thread of its own, which is abandoned after the timeout.
fn cluster_names(kind: NameKind) -> BTreeSet<String> {
    let (sender, receiver) = mpsc::channel();
    let cluster = typed_cluster();
    // Without a thread, nothing is completed.
    let thread = std::thread::Builder::new().name("complete".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok();
        let names = runtime.and_then(|runtime| runtime.block_on(names(&cluster, kind)));
        // The receiver may have timed out.
        let _ = sender.send(names.unwrap_or_default());
    });
    match thread {
        Ok(_) => receiver.recv_timeout(TIMEOUT).unwrap_or_default(),
        Err(_) => BTreeSet::new(),
    }
}

async fn names(cluster: &ClusterArgs, kind: NameKind) -> Option<BTreeSet<String>> {
    let reader = cluster.reader(LabelKeys::Only(BTreeSet::new())).await.ok()?;
    match kind {
        NameKind::Nodes => {
            let (nodes, _) = reader.list_nodes().await.ok()?;
            Some(nodes.into_keys().map(String::from).collect())
        }
        NameKind::Pools => match cluster.named_namespace() {
            Some(namespace) => pools_in(&reader, namespace.as_str()).await,
            None => {
                // Reads both default namespaces, because detecting the binding would take another request.
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

/// The cluster of the line that the user types.
fn typed_cluster() -> ClusterArgs {
    cluster_of(std::env::args_os().filter_map(|word| word.into_string().ok()))
}

/// The cluster options of an unfinished command line.
fn cluster_of(words: impl Iterator<Item = String>) -> ClusterArgs {
    let mut named = vec!["nodecfg".to_owned(), "--request-timeout=1s".to_owned()];
    let mut words = words.skip_while(|word| word != "--");
    while let Some(word) = words.next() {
        if CLUSTER_OPTIONS.contains(&word.as_str()) {
            named.push(word);
            named.extend(words.next());
        } else if CLUSTER_OPTIONS
            .iter()
            .any(|option| word.strip_prefix(option).is_some_and(|rest| rest.starts_with('=')))
        {
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
    fn completes_pools_of_enclosing_repository() {
        let folder = tempfile::tempdir().unwrap();
        for pool in ["gpu", "general", "$(id)", "`id`", "a b", "-n", "a;id", "\u{202e}a"] {
            std::fs::create_dir_all(folder.path().join("pools").join(pool)).unwrap();
            std::fs::write(folder.path().join("pools").join(pool).join("pool.yaml"), "").unwrap();
        }
        std::fs::create_dir_all(folder.path().join("pools/notes")).unwrap();
        assert!(repository_pools(folder.path()).is_empty(), "no repository");
        std::fs::write(folder.path().join("nodecfg.yaml"), "").unwrap();
        let both = BTreeSet::from(["general".to_owned(), "gpu".to_owned()]);
        assert_eq!(repository_pools(folder.path()), both);
        assert_eq!(repository_pools(&folder.path().join("pools/gpu")), both);
        assert_eq!(texts(candidates(OsStr::new("gp"), both.clone())), ["gpu"]);
        assert_eq!(texts(candidates(OsStr::new("gpu,ge"), both)), ["gpu,general"]);
    }

    #[test]
    fn omits_names_that_a_shell_interprets() {
        let names =
            ["main", "feature/a.b", "user@host:6443", "$(id)", "`id`", "a b", "-n", "a;id", "a'b", "a|b", "\u{202e}a"];
        let names = names.map(str::to_owned).into();
        assert_eq!(texts(candidates(OsStr::new(""), names)), ["feature/a.b", "main", "user@host:6443"]);
    }

    #[test]
    fn completes_fields_and_codes() {
        let names = field_and_code_names();
        for name in ["maxPods", "logging.format", "cluster-forbidden", "always-allow"] {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn reads_cluster_options_of_command_line() {
        let line = "nodecfg -- nodecfg reset --context prod -n=kube-system --kubeconfig=a.yaml no";
        let cluster = cluster_of(line.split(' ').map(str::to_owned));
        assert!(cluster.is_named());
        let nothing = cluster_of("nodecfg -- nodecfg reset --context".split(' ').map(str::to_owned));
        assert!(!nothing.is_named(), "half a line is none");
    }
}
