//! `nodecfg gates`: asks all gates of the repository now.

use std::collections::{BTreeMap, BTreeSet};

use super::{CommandError, CommandResult, Exit, Terminal};
use crate::arguments::cluster::{ClusterArgs, label_keys};
use crate::arguments::gates::GateArgs;
use crate::arguments::repository::RepositoryArgs;
use crate::arguments::scope::existing_pools;
use crate::arguments::unknown_name::unknown_node;
use crate::report::Format;
use crate::report::gates as shown;
use crate::report::gates::{GateAnswer, GateAnswers};
use crate::runs::emit::Shown;
use crate::status::Paused;
use nodecfg_clock::ScaledClock;
use nodecfg_cluster::LabelKeys;
use nodecfg_contract::names::{NodeName, PoolName};
use nodecfg_fleet::Desired;
use nodecfg_fleet::gates::{Gate, Question};
use nodecfg_plan::belongs;
use nodecfg_rollout::judge::{Answer, KnownSeries, judge};

/// Ask all gates of the repository now, and print their answers.
///
/// Changes nothing. Exits with code 1 if a gate blocks or is unknown. Series that fire now do not block, as at the start
/// of a sync, unless the gate has `baseline: ignore`. Requires a cluster only for gates with objects.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) repository: RepositoryArgs,
    /// Ask only the gates of this pool. May be repeated.
    #[arg(long, value_name = "POOL")]
    pool: Vec<PoolName>,
    /// Ask only the gates of the pool of this node, those with {node} for this node. Without it, gates with {node} are
    /// listed and not asked.
    #[arg(long, value_name = "NODE")]
    node: Option<NodeName>,
    #[command(flatten)]
    gates: GateArgs,
    #[command(flatten)]
    cluster: ClusterArgs,
}

const EXAMPLES: &str = "\
Examples:
  nodecfg gates --prometheus-url https://prometheus.example.com
  nodecfg gates --pool gpu -o wide     a line per gate and pool
  nodecfg gates --node gpu-7           also ask whether this node may start";

pub(super) async fn run(args: &Args, output: Format, terminal: &mut Terminal) -> CommandResult {
    let loaded = args.repository.load(terminal).await?;
    let selected: Vec<(Gate, &PoolName)> = args.selected(&loaded.desired).await?;
    let asked = grouped(&selected);
    let is_asked = |gate: &Gate| !gate.at.is_empty() && !gate.is_of_nodes();
    let questions: BTreeSet<Question> =
        asked.iter().filter(|(gate, _)| is_asked(gate)).map(|(gate, _)| gate.question()).collect();
    let needs_cluster = questions.iter().any(|question| matches!(question, Question::Object(_)));
    let objects = match needs_cluster {
        true => Some(args.cluster.reader(LabelKeys::Only(BTreeSet::new())).await?.objects()),
        false => None,
    };
    let evaluator = args.gates.evaluator(objects)?;
    let answers: BTreeMap<Question, Answer> = evaluator
        .ask(&questions, &ScaledClock::real())
        .await
        .into_iter()
        .map(|one| (one.question, one.answer))
        .collect();
    let gates = asked.into_iter().map(|(gate, pools)| {
        let answer = answers.get(&gate.question());
        let state = answer.map(|answer| judge(gate, answer, &KnownSeries::of(answer).unwrap_or_default()));
        GateAnswer::new(gate, pools, state)
    });
    let answers = GateAnswers {
        fleet: loaded.desired.fleet.clone(),
        paused: Paused::of(loaded.desired.paused, None),
        gates: gates.collect(),
    };
    let exit = if answers.all_pass() { Exit::Done } else { Exit::Changes };
    let report = shown::report(&answers);
    Ok(Shown::of(answers, report, terminal).print(output, exit, terminal))
}

impl Args {
    /// The gates of the selected pools. With a node, those of its pool, as they ask about this node.
    async fn selected<'d>(&self, desired: &'d Desired) -> Result<Vec<(Gate, &'d PoolName)>, CommandError> {
        let mut selected = existing_pools(&self.pool, desired)?;
        if let Some(name) = &self.node {
            let reader = self.cluster.reader(label_keys(desired)).await?;
            let Some(node) = reader.node(name).await? else { return Err(unknown_node(&reader, name).await) };
            let mut pools = desired.pools.keys().filter(|pool| selected.is_empty() || selected.contains(pool));
            let pool = pools.find(|pool| belongs(desired, pool, &node)).ok_or_else(|| {
                let help = "compare the labels of the node with spec.nodeSelector of the pools";
                CommandError::usage(format!("node {name} belongs to none of these pools"), help)
            })?;
            selected = BTreeSet::from([pool.clone()]);
        }
        let pools = desired.pools.values().filter(|pool| selected.is_empty() || selected.contains(&pool.name));
        let of_node = |gate: &Gate| self.node.as_ref().map_or_else(|| gate.clone(), |node| gate.of_node(node));
        Ok(pools.flat_map(|pool| pool.policy.gates.iter().map(move |gate| (of_node(gate), &pool.name))).collect())
    }
}

/// Equal gates of several pools as one, ordered by name.
fn grouped<'d>(gates: &'d [(Gate, &PoolName)]) -> Vec<(&'d Gate, Vec<PoolName>)> {
    let mut groups: Vec<(&Gate, Vec<PoolName>)> = Vec::new();
    // Position of the groups of each name.
    let mut named: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (gate, pool) in gates {
        let positions = named.entry(&gate.name).or_default();
        let equal = positions.iter().find(|at| groups.get(**at).is_some_and(|(other, _)| *other == gate)).copied();
        match equal.and_then(|at| groups.get_mut(at)) {
            Some((_, pools)) => pools.push((*pool).clone()),
            None => {
                positions.push(groups.len());
                groups.push((gate, vec![(*pool).clone()]));
            }
        }
    }
    groups.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    groups
}
