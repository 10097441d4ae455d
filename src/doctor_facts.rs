//! Facts for the checks of `doctor`, by requests that write nothing.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::join_all;
use futures::{StreamExt as _, stream};
use serde_json::Value;

use crate::arguments::cluster::{BoundClusterArgs, label_keys};
use crate::arguments::repository::{Loaded, LocalRepositoryArgs};
use crate::doctor::{
    CheckedRight, DetectedBinding, Fact, Facts, Installed, InstalledPolicy, Lock, Pods, Purpose, Repository, Server,
    Unavailable,
};
use crate::runs::planning::Allowances;
use crate::terminal::failure::CommandError;
use crate::terminal::streams::Terminal;
use kubelet_config::finding::Severity;
use nodecfg_cluster::lock::LeaseView;
use nodecfg_cluster::reading::binding::by_version;
use nodecfg_cluster::writing::diagnostics::InstalledObject;
use nodecfg_cluster::{Binding, ClusterError, ClusterReader, LabelKeys, lock};
use nodecfg_contract::installation::{OWN_NODE_POLICY, OWN_STATUS_POLICY, Right, config_maps_policy};
use nodecfg_contract::names::{FleetName, NamespaceName};
use nodecfg_install::rights;
use nodecfg_observed::{ConfigMapKey, Observed, Orders};

/// Maximum number of ConfigMaps read in full because nodes point at them, beyond those that a plan needs.
const MOST_CONFIG_MAPS: usize = 64;
/// Number of ConfigMaps read concurrently.
const CONCURRENCY: usize = 8;
/// Maximum number of fleets whose locks are read.
const MOST_FLEETS: usize = 20;

/// The answer to a request, or the reason why it failed.
fn answer<T>(result: Result<T, ClusterError>) -> Fact<T> {
    result.map_err(|error| Unavailable::of(&error.into()))
}

/// Reads the repository and the cluster. Wrong arguments end the command; other failures are missing facts.
pub(crate) async fn read(
    repository: &LocalRepositoryArgs,
    bound: &BoundClusterArgs,
    terminal: &mut Terminal,
) -> Result<Facts, CommandError> {
    let loaded = match repository.chosen()? {
        None => None,
        Some(repository) => match repository.load(terminal).await {
            Ok(loaded) => Some(Ok(loaded)),
            Err(failure @ (CommandError::Repository(_) | CommandError::Invalid { .. })) => {
                Some(Err(Unavailable::of(&failure)))
            }
            Err(failure) => return Err(failure),
        },
    };
    let valid = loaded.as_ref().and_then(|loaded| loaded.as_ref().ok());
    let named = valid.and_then(|loaded| loaded.desired.namespace.as_ref());
    let mut facts = Facts {
        program: env!("CARGO_PKG_VERSION").to_owned(),
        namespace: bound.cluster.namespace_or(named, Binding::default())?,
        server: Err(Unavailable::default()),
        rights: Vec::new(),
        admission: None,
        bound: None,
        installed: None,
        observed: None,
        unlisted: None,
        unread: 0,
        signs: BTreeMap::new(),
        locks: BTreeMap::new(),
        repository: None,
    };
    match bound.cluster.connection().await {
        Err(failure) => facts.server = Err(Unavailable::of(&failure)),
        Ok(connection) => {
            let keys = valid.map_or(LabelKeys::Only(BTreeSet::new()), |loaded| label_keys(&loaded.desired));
            let reader = bound.cluster.reader_over(connection.client, &connection.server, keys);
            let version = reader.server_version().await;
            let (now, ahead) = reader.server_clock();
            let by_version = version.as_ref().ok().map(|version| by_version(version).binding);
            let address = connection.server;
            let version = answer(version);
            facts.server = Ok(Server { address, found: connection.found, version, ahead, now });
            if let Some(by_version) = by_version {
                look(reader, bound, by_version, valid, &mut facts).await?;
            }
        }
    }
    facts.repository = loaded.map(|loaded| {
        let Loaded { desired, findings, arguments, .. } = loaded?;
        let shown = arguments.path().display();
        let commit = desired.commit.as_ref().map(|commit| format!(" at {}", commit.short())).unwrap_or_default();
        let warnings = findings.iter().filter(|finding| finding.severity == Severity::Warning).count();
        let plan = match (&facts.observed, &facts.unlisted) {
            (Some(Ok(observed)), None) => {
                let options = Allowances::default().options(facts.namespace.clone(), arguments.gate());
                Some(nodecfg_plan::make(&desired, observed, &options))
            }
            _ => None,
        };
        Ok(Repository { shown: format!("{shown}{commit}"), desired, warnings, plan })
    });
    Ok(facts)
}

/// Reads all facts from an API server that answered the version request.
async fn look(
    reader: ClusterReader,
    bound: &BoundClusterArgs,
    by_version: Binding,
    loaded: Option<&Loaded>,
    facts: &mut Facts,
) -> Result<(), CommandError> {
    let named_binding = bound.binding.named();
    let evidence = match named_binding {
        Some(_) => Ok("selected by --binding".to_owned()),
        None => reader.evidence().await.map(|check| check.evidence.to_string()),
    };
    let found = match evidence {
        Ok(evidence) => bound.binding.bind(reader.clone()).await.map(|reader| (reader, evidence)),
        Err(error) => Err(error.into()),
    };
    let (binding, reader) = match found {
        Ok((reader, evidence)) => {
            let agents = reader.binding() == Binding::NodeConfig;
            facts.bound = Some(Ok(DetectedBinding { agents, evidence }));
            (reader.binding(), Ok(reader))
        }
        Err(failure) => {
            facts.bound = Some(Err(Unavailable::of(&failure)));
            (by_version, Err(reader))
        }
    };
    let named = loaded.and_then(|loaded| loaded.desired.namespace.as_ref());
    facts.namespace = bound.cluster.namespace_or(named, binding)?;
    let any = reader.as_ref().unwrap_or_else(|reader| reader);
    facts.rights = access_reviews(any, binding == Binding::NodeConfig, facts.namespace.as_str()).await;
    facts.admission = admission(any, &facts.rights, facts.namespace.as_str()).await;
    if binding == Binding::NodeConfig {
        facts.installed = Some(installed(any, facts.namespace.as_str()).await);
    }
    if let Ok(reader) = &reader {
        observe(reader, loaded, facts).await;
    }
    Ok(())
}

/// Requests an access review for every right, concurrently. These requests store nothing.
async fn access_reviews(reader: &ClusterReader, agents: bool, namespace: &str) -> Vec<CheckedRight> {
    let sync = rights::for_sync(agents, namespace);
    let only = |rights: Vec<Right>, command| {
        rights.into_iter().filter(|right| !sync.contains(right)).map(move |right| (right, Purpose::Only(command)))
    };
    let all = (sync.iter().map(|right| (right.clone(), Purpose::Sync)))
        .chain(only(rights::for_saved_plans(namespace), "sync --plan"))
        .chain(only(rights::for_drain(namespace), "drain"))
        .chain(only(rights::for_pool_pointers(namespace), "poolPointers"))
        .chain(only(rights::for_capture(namespace), "capture"))
        .chain(only(rights::for_prune(agents, namespace), "prune"));
    join_all(all.map(async |(right, purpose)| {
        let allowed = answer(reader.has(&right).await);
        CheckedRight { right, purpose, allowed }
    }))
    .await
}

/// Tries out the creation of a ConfigMap as a sync does, unless the user has no right to it.
async fn admission(reader: &ClusterReader, rights: &[CheckedRight], namespace: &str) -> Option<Fact<()>> {
    let is_create = |right: &Right| (right.verb.as_str(), right.resource.as_str()) == ("create", "configmaps");
    let may_create = rights.iter().any(|asked| is_create(&asked.right) && asked.allowed != Ok(Some(false)));
    if !may_create {
        return None;
    }
    Some(answer(reader.try_config_map(namespace, None).await))
}

/// Reads what is installed for agents.
async fn installed(reader: &ClusterReader, namespace: &str) -> Installed {
    let look = async |object: InstalledObject<'_>| answer(reader.installed_object(object).await);
    let policy = async |name: &str| {
        let policy = look(InstalledObject::Policy(name)).await?;
        let binding = look(InstalledObject::PolicyBinding(name)).await?;
        Ok(InstalledPolicy { policy, binding })
    };
    let number = |object: &Value, name: &str| object.pointer(name).and_then(Value::as_u64).unwrap_or_default();
    let pods = |object: Value| Pods {
        desired: number(&object, "/status/desiredNumberScheduled"),
        ready: number(&object, "/status/numberReady"),
    };
    Installed {
        definition: look(InstalledObject::Definition).await,
        own_status: policy(OWN_STATUS_POLICY).await,
        own_node: policy(OWN_NODE_POLICY).await,
        config_maps: policy(&config_maps_policy(namespace)).await,
        pods: look(InstalledObject::DaemonSet).await.map(|found| found.map(pods)),
    }
}

/// Reads nodes, ConfigMaps and locks.
async fn observe(reader: &ClusterReader, loaded: Option<&Loaded>, facts: &mut Facts) {
    let desired = loaded.map(|loaded| &loaded.desired);
    let (nodes, versions, signs) = match answer(reader.list_nodes_with_signs().await) {
        Ok(listed) => listed,
        Err(unavailable) => return facts.observed = Some(Err(unavailable)),
    };
    facts.signs = signs;
    let mut observed = Observed { nodes, versions, ..Observed::default() };
    match answer(reader.list_config_maps(facts.namespace.as_str()).await) {
        Ok(maps) => observed.add_config_maps(maps),
        Err(unavailable) => facts.unlisted = Some(unavailable),
    }
    let of_plan = desired
        .map(|desired| nodecfg_plan::required_config_maps(desired, &observed, &facts.namespace))
        .unwrap_or_default();
    let pointed: BTreeSet<ConfigMapKey> =
        observed.nodes.values().filter_map(|node| ConfigMapKey::of(node.source.as_ref()?)).collect();
    facts.unread = pointed.len().saturating_sub(MOST_CONFIG_MAPS);
    let pointers = observed.pointers.keys().cloned();
    let wanted: BTreeSet<ConfigMapKey> =
        of_plan.into_iter().chain(pointed.into_iter().take(MOST_CONFIG_MAPS)).chain(pointers).collect();
    let fetch = async |key: ConfigMapKey| (key.clone(), reader.config_map(&key.namespace, &key.name).await);
    let mut fetched = stream::iter(wanted).map(fetch).buffer_unordered(CONCURRENCY);
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
    // The fleet of the repository comes first, so that the limit never drops it.
    let fleets = own.cloned().into_iter().chain(fleets.iter().filter(|fleet| Some(*fleet) != own).cloned());
    for fleet in fleets.take(MOST_FLEETS) {
        let lease = answer(lock::read(reader, facts.namespace.as_str(), &fleet).await);
        let lock = lease.map(|lease| lease.map(|lease| lock(&facts.namespace, &fleet, lease)));
        if let (true, Ok(Some(Lock { orders: Ok(orders), .. }))) = (own == Some(&fleet), &lock) {
            observed.orders = orders.clone();
        }
        facts.locks.insert(fleet, lock);
    }
    facts.observed = Some(Ok(observed));
}

fn lock(namespace: &NamespaceName, fleet: &FleetName, lease: LeaseView) -> Lock {
    Lock {
        lease: format!("{namespace}/nodecfg-{fleet}"),
        expires: lease.expires(),
        orders: Orders::read(&lease.annotations),
        holder: lease.holder.filter(|holder| !holder.is_empty()),
        since: lease.acquired,
    }
}
