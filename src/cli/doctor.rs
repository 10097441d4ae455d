//! `nodecfg doctor`: whether a sync could do its work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use serde_json::Value;

use super::cluster_args::{BindingArgs, ClusterArgs, label_keys};
use super::git_args::GitArgs;
use super::repository_args::{Loaded, RepositoryArgs};
use super::signers_args::SignersArgs;
use super::{CommandError, CommandResult, Exit, Terminal};
use crate::doctor::{
    self, Answer, AskedRight, Bound, Facts, Installed, Lock, Pods, Purpose, Repository, Server, Unavailable,
};
use crate::report::doctor::{self as report, Findings};
use crate::report::{self as reports, Format};
use kubelet_config::finding::Severity;
use nodecfg_cluster::binding::by_version;
use nodecfg_cluster::checkup::Landmark;
use nodecfg_cluster::lease::{self, LeaseView};
use nodecfg_cluster::{Binding, ClusterError, ClusterReader, LabelKeys};
use nodecfg_contract::installation::Right;
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_contract::observed::{ConfigMapKey, FetchedConfigMap, Observed, Orders};
use nodecfg_install::rights;
use nodecfg_planning::plan::{self, Options};

/// How many ConfigMaps that nodes point at are read in full, beyond those that a plan needs.
const MOST_CONFIG_MAPS: usize = 64;
/// How many are read at a time.
const AT_A_TIME: usize = 8;
/// How many fleets' locks are looked at.
const MOST_FLEETS: usize = 20;

/// Check all that a sync needs, and say how to mend what is missing.
///
/// Ends with the exit code that a sync would end with. Changes nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Also check this repository, and what a sync of it would come upon: a folder or an address, as for sync.
    #[arg(value_name = "REPO")]
    repository: Option<PathBuf>,
    /// Branch, tag or commit of REPO to read, instead of HEAD.
    #[arg(long, value_name = "REV", env = "NODECFG_REV", conflicts_with = "worktree")]
    rev: Option<String>,
    /// Read the files of REPO as they lie in the folder, uncommitted changes included.
    #[arg(long, requires = "repository")]
    worktree: bool,
    /// Only warn of what the kubelet would drop or misread without a word.
    #[arg(long, requires = "repository")]
    lenient: bool,
    #[command(flatten)]
    git: GitArgs,
    #[command(flatten)]
    signers: SignersArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
    #[command(flatten)]
    binding: BindingArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg doctor                  the cluster alone
  nodecfg doctor .                with the repository in this folder
  nodecfg doctor -v               everything that was looked at, in full
  nodecfg doctor -o markdown      for a ticket";

pub(super) async fn run(args: &Args, format: Format, verbose: u8, terminal: &mut Terminal) -> CommandResult {
    let facts = args.facts(terminal).await?;
    let checks = doctor::examine(&facts);
    let ending = doctor::ending(&checks);
    let exit_code = |ending: Option<doctor::Ending>| ending.map_or(Exit::Done, Exit::from) as u8;
    let findings = Findings { checks: &checks, ending, exit_code };
    let width = terminal.out_width;
    match format {
        Format::Text => report::text(&mut terminal.out, &findings, verbose > 0, width)?,
        Format::Markdown => report::markdown(&mut terminal.out, &findings)?,
        Format::Json => reports::json(&mut terminal.out, &report::document(&findings)?)?,
        Format::Yaml => reports::yaml(&mut terminal.out, &report::document(&findings)?)?,
    }
    Ok(ending.map_or(Exit::Done, Exit::from))
}

/// The answer of a request, or what is to be told of its failure.
fn answer<T>(result: Result<T, ClusterError>) -> Answer<T> {
    result.map_err(|error| Unavailable::of(&error.into()))
}

impl Args {
    /// Reads the repository; a mistake in the arguments ends the command.
    async fn loaded(&self, terminal: &mut Terminal) -> Result<Option<Answer<Loaded>>, CommandError> {
        let Some(path) = &self.repository else { return Ok(None) };
        let repository = RepositoryArgs {
            path: path.clone(),
            rev: self.rev.clone(),
            worktree: self.worktree,
            lenient: self.lenient,
            git: self.git.clone(),
            signers: self.signers.clone(),
        };
        match repository.load(terminal).await {
            Ok(loaded) => Ok(Some(Ok(loaded))),
            Err(failure @ (CommandError::Repository(_) | CommandError::Invalid { .. })) => {
                Ok(Some(Err(Unavailable::of(&failure))))
            }
            Err(failure) => Err(failure),
        }
    }

    async fn facts(&self, terminal: &mut Terminal) -> Result<Facts, CommandError> {
        let loaded = self.loaded(terminal).await?;
        let good = loaded.as_ref().and_then(|loaded| loaded.as_ref().ok());
        let (said, default) = (self.cluster.named_namespace().cloned(), Binding::default().default_namespace());
        let namespace = said.or_else(|| good.and_then(|loaded| loaded.desired.namespace.clone()));
        let mut facts = Facts {
            program: env!("CARGO_PKG_VERSION").to_owned(),
            namespace: named(namespace.clone(), default)?,
            server: Err(Unavailable::default()),
            rights: Vec::new(),
            bound: None,
            installed: Installed::default(),
            observed: None,
            unlisted: None,
            unread: 0,
            signs: BTreeMap::new(),
            locks: BTreeMap::new(),
            repository: None,
        };
        match self.cluster.connection().await {
            Err(failure) => facts.server = Err(Unavailable::of(&failure)),
            Ok(connection) => {
                let keys = good.map_or(LabelKeys::Only(BTreeSet::new()), |loaded| label_keys(&loaded.desired));
                let reader = self.cluster.reader_over(connection.client, &connection.server, keys);
                let version = reader.server_version().await;
                let (now, ahead) = reader.server_clock();
                let by_version = version.as_ref().ok().map(|version| by_version(version).binding);
                let address = connection.server;
                let version = answer(version);
                facts.server = Ok(Server { address, found: connection.found, version, ahead, now });
                if let Some(by_version) = by_version {
                    self.look(reader, by_version, namespace, good, &mut facts).await?;
                }
            }
        }
        facts.repository = loaded.map(|loaded| {
            let Loaded { desired, findings, .. } = loaded?;
            let shown = self.repository.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
            let commit = desired.commit.as_ref().map(|commit| format!(" at {}", commit.short())).unwrap_or_default();
            let warnings = findings.iter().filter(|finding| finding.severity == Severity::Warning).count();
            let plan = match (&facts.observed, &facts.unlisted) {
                (Some(Ok(observed)), None) => {
                    let gate = if self.lenient {
                        kubelet_config::finding::Strictness::Lenient
                    } else {
                        kubelet_config::finding::Strictness::Strict
                    };
                    let options = Options {
                        namespace: facts.namespace.clone(),
                        take_over: false,
                        allow_empty: false,
                        gate,
                        despite_pause: BTreeSet::new(),
                        scope: plan::Scope::Everything,
                    };
                    Some(plan::make(&desired, observed, &options))
                }
                _ => None,
            };
            Ok(Repository { shown: format!("{shown}{commit}"), desired, warnings, plan })
        });
        Ok(facts)
    }

    /// Everything that an API server can be asked which has answered once.
    async fn look(
        &self,
        reader: ClusterReader,
        by_version: Binding,
        namespace: Option<NamespaceName>,
        loaded: Option<&Loaded>,
        facts: &mut Facts,
    ) -> Result<(), CommandError> {
        let named_binding = self.binding.named();
        let evidence = match named_binding {
            Some(_) => Ok("--binding says so".to_owned()),
            None => reader.evidence().await.map(|check| check.evidence.to_string()),
        };
        let bound = match evidence {
            Ok(evidence) => self.binding.bind(reader.clone()).await.map(|reader| (reader, evidence)),
            Err(error) => Err(error.into()),
        };
        let (binding, reader) = match bound {
            Ok((reader, evidence)) => {
                let agents = reader.binding() == Binding::NodeConfig;
                facts.bound = Some(Ok(Bound { agents, evidence }));
                (reader.binding(), Ok(reader))
            }
            Err(failure) => {
                facts.bound = Some(Err(Unavailable::of(&failure)));
                (by_version, Err(reader))
            }
        };
        facts.namespace = named(namespace, binding.default_namespace())?;
        let any = reader.as_ref().unwrap_or_else(|reader| reader);
        facts.rights = asked(any, binding == Binding::NodeConfig, facts.namespace.as_str()).await;
        if binding == Binding::NodeConfig {
            facts.installed = installed(any).await;
        }
        if let Ok(reader) = &reader {
            observe(reader, loaded, facts).await;
        }
        Ok(())
    }
}

fn named(namespace: Option<NamespaceName>, default: &str) -> Result<NamespaceName, CommandError> {
    namespace
        .map_or_else(|| NamespaceName::new(default).map_err(|error| CommandError::usage(error.to_string(), "")), Ok)
}

/// Asks about every right, all at once: each question is a small request that stores nothing.
async fn asked(reader: &ClusterReader, agents: bool, namespace: &str) -> Vec<AskedRight> {
    let sync = rights::of_a_sync(agents, namespace);
    let only = |rights: Vec<Right>, command| {
        rights.into_iter().filter(|right| !sync.contains(right)).map(move |right| (right, Purpose::Only(command)))
    };
    let all = (sync.iter().map(|right| (right.clone(), Purpose::Sync)))
        .chain(only(rights::of_saved_plans(namespace), "sync --plan"))
        .chain(only(rights::of_capture(namespace), "capture"))
        .chain(only(rights::of_prune(agents, namespace), "prune"));
    join_all(all.map(async |(right, purpose)| {
        let allowed = answer(reader.has(&right).await);
        AskedRight { right, purpose, allowed }
    }))
    .await
}

/// What is installed for agents.
async fn installed(reader: &ClusterReader) -> Installed {
    let look = async |landmark| answer(reader.landmark(landmark).await);
    let number = |object: &Value, name: &str| object.pointer(name).and_then(Value::as_u64).unwrap_or_default();
    let pods = |object: Value| Pods {
        desired: number(&object, "/status/desiredNumberScheduled"),
        ready: number(&object, "/status/numberReady"),
    };
    Installed {
        definition: Some(look(Landmark::Definition).await),
        policy: Some(look(Landmark::Policy).await.map(|found| found.is_some())),
        pods: Some(look(Landmark::DaemonSet).await.map(|found| found.map(pods))),
    }
}

/// Nodes, ConfigMaps and locks.
async fn observe(reader: &ClusterReader, loaded: Option<&Loaded>, facts: &mut Facts) {
    let desired = loaded.map(|loaded| &loaded.desired);
    let (nodes, signs) = match answer(reader.list_nodes_with_signs().await) {
        Ok(listed) => listed,
        Err(trouble) => return facts.observed = Some(Err(trouble)),
    };
    facts.signs = signs;
    let mut observed =
        Observed { nodes: nodes.into_iter().map(|node| (node.name.clone(), node)).collect(), ..Observed::default() };
    match answer(reader.list_config_maps(facts.namespace.as_str()).await) {
        Ok(maps) => {
            let keyed = |map: nodecfg_contract::observed::ManagedConfigMap| {
                (ConfigMapKey { namespace: map.namespace.clone(), name: map.name.clone() }, map)
            };
            observed.config_maps = maps.into_iter().map(keyed).collect();
        }
        Err(trouble) => facts.unlisted = Some(trouble),
    }
    let of_plan = desired.map(|desired| plan::questions(desired, &observed, &facts.namespace)).unwrap_or_default();
    let pointed: BTreeSet<ConfigMapKey> =
        observed.nodes.values().filter_map(|node| ConfigMapKey::of(node.source.as_ref()?)).collect();
    facts.unread = pointed.len().saturating_sub(MOST_CONFIG_MAPS);
    let wanted: BTreeSet<ConfigMapKey> =
        of_plan.into_iter().chain(pointed.into_iter().take(MOST_CONFIG_MAPS)).collect();
    let mut fetched = stream::iter(wanted).map(|key| fetch(reader, key)).buffer_unordered(AT_A_TIME);
    while let Some((key, map)) = fetched.next().await {
        match map {
            Ok(map) => drop(observed.contents.insert(key, map)),
            Err(error) => {
                tracing::info!("{error}");
                facts.unread += 1;
            }
        }
    }
    drop(fetched);
    let fleets: BTreeSet<FleetName> = observed
        .config_maps
        .values()
        .filter_map(|map| map.fleet.clone())
        .chain(desired.map(|desired| desired.fleet.clone()))
        .collect();
    let own = desired.map(|desired| &desired.fleet);
    // Whichever is left out of too many, it is not the repository's.
    let fleets = own.cloned().into_iter().chain(fleets.iter().filter(|fleet| Some(*fleet) != own).cloned());
    for fleet in fleets.take(MOST_FLEETS) {
        let lease = answer(lease::look(reader, facts.namespace.as_str(), &fleet).await);
        let lock = lease.map(|lease| lease.map(|lease| lock(&facts.namespace, &fleet, lease)));
        if let (true, Ok(Some(Lock { orders: Ok(orders), .. }))) = (own == Some(&fleet), &lock) {
            observed.orders = orders.clone();
        }
        facts.locks.insert(fleet, lock);
    }
    facts.observed = Some(Ok(observed));
}

async fn fetch(
    reader: &ClusterReader,
    key: ConfigMapKey,
) -> (ConfigMapKey, Result<Option<FetchedConfigMap>, ClusterError>) {
    let map = reader.config_map(&key.namespace, &key.name).await;
    (key, map)
}

fn lock(namespace: &NamespaceName, fleet: &FleetName, lease: LeaseView) -> Lock {
    Lock {
        lease: format!("{namespace}/nodecfg-{fleet}"),
        expires: lease.renewed.zip(lease.duration).and_then(|(renewed, held)| renewed.checked_add(held).ok()),
        orders: Orders::read(&lease.annotations),
        holder: lease.holder.filter(|holder| !holder.is_empty()),
        since: lease.acquired,
    }
}
