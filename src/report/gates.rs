//! Report of `gates`: each gate with its state and reasons.

use schemars::JsonSchema;
use serde::Serialize;

use super::document::{Block, Cell, Conclusion, Item, Report, Table, Text};
use super::{count, paused};
use crate::status::{Grade, Paused};
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{FleetName, GateName, PoolName};
use nodecfg_contract::printable::remark;
use nodecfg_fleet::gates::{Baseline, Gate, GateCheck, Moment};
use nodecfg_rollout::judge::GateState;

/// Answers of the gates of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateAnswers {
    /// The fleet.
    pub fleet: FleetName,
    /// The pause of the whole fleet in the repository. Unset: it is not paused there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The gates, by name. Equal gates of several pools are one.
    pub gates: Vec<GateAnswer>,
}

impl Kind for GateAnswers {
    const KIND: &'static str = "Gates";
}

impl GateAnswers {
    /// Reports whether every gate passes or was not asked.
    #[must_use]
    pub fn all_pass(&self) -> bool {
        self.gates.iter().all(|gate| matches!(gate.state, GateWord::Passes | GateWord::Off | GateWord::OfNodes))
    }
}

/// Answer of one gate.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateAnswer {
    /// The name.
    pub name: GateName,
    /// The pools with this gate.
    pub pools: Vec<PoolName>,
    /// What the gate asks.
    pub check: GateQuestion,
    /// The steps that it guards.
    pub at: Vec<Moment>,
    /// The state.
    pub state: GateWord,
    /// Why the gate blocks or is unknown, a sentence each. Empty if it passes.
    pub reasons: Vec<String>,
    /// Number of series that fire now and do not block, because they fire before the first node.
    pub known: usize,
}

/// State of a gate in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GateWord {
    /// The condition holds.
    Passes,
    /// The condition does not hold.
    Blocks,
    /// Whether the condition holds is unknown.
    Unknown,
    /// The gate guards no step, and was not asked.
    Off,
    /// Each node has an object of its own, and no node was named.
    OfNodes,
}

impl GateWord {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::Blocks => "blocks",
            Self::Unknown => "unknown",
            Self::Off => "off",
            Self::OfNodes => "of nodes",
        }
    }

    const fn grade(self) -> Grade {
        match self {
            Self::Passes => Grade::Good,
            Self::Blocks => Grade::Bad,
            Self::Unknown => Grade::Warning,
            Self::Off | Self::OfNodes => Grade::Neutral,
        }
    }
}

/// What a gate asks.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GateQuestion {
    /// Series of a Prometheus query.
    Prometheus {
        /// Expression whose series are problems.
        query: String,
        /// Expression that has data while the query is collected.
        present: String,
        /// Whether series that fired before the first node block.
        baseline: Baseline,
    },
    /// State of a Kubernetes object.
    Object {
        /// Kind, namespace and name.
        object: String,
        /// Wanted state, in the notation of `pool.yaml`.
        wanted: String,
    },
}

impl GateAnswer {
    /// Answer of a gate of these pools. Without a state, it was not asked.
    #[must_use]
    pub fn new(gate: &Gate, pools: Vec<PoolName>, state: Option<GateState>) -> Self {
        let check = match &gate.check {
            GateCheck::Prometheus { query, baseline } => GateQuestion::Prometheus {
                query: query.query.clone(),
                present: query.present.clone(),
                baseline: *baseline,
            },
            GateCheck::Object { object, wanted } => {
                GateQuestion::Object { object: object.to_string(), wanted: wanted.to_string() }
            }
        };
        let (state, reasons, known) = match state {
            None if gate.is_of_nodes() && !gate.at.is_empty() => (GateWord::OfNodes, Vec::new(), 0),
            None => (GateWord::Off, Vec::new(), 0),
            Some(GateState::Passes { known }) => (GateWord::Passes, Vec::new(), known),
            Some(GateState::Blocks { reasons }) => (GateWord::Blocks, reasons, 0),
            Some(GateState::Unknown { why }) => (GateWord::Unknown, vec![why], 0),
        };
        Self { name: gate.name.clone(), pools, check, at: gate.at.iter().copied().collect(), state, reasons, known }
    }

    /// What the gate asks, on one line.
    fn question(&self) -> String {
        remark(&match &self.check {
            GateQuestion::Prometheus { query, .. } => query.clone(),
            GateQuestion::Object { object, wanted } => format!("{object}: {wanted}"),
        })
    }

    /// Why the gate blocks or is unknown, and which series do not block.
    fn reasons(&self) -> impl Iterator<Item = String> {
        let known = (self.known > 0).then(|| format!("{} now, before the first node", count_series(self.known)));
        self.reasons.iter().cloned().chain(known)
    }
}

fn count_series(number: usize) -> String {
    if number == 1 { "1 series fires".to_owned() } else { format!("{number} series fire") }
}

/// The gates with their states, pools, questions and reasons.
#[must_use]
pub fn report(answers: &GateAnswers) -> Report {
    let gate = |gate: &GateAnswer| {
        let pools = if gate.pools.len() == 1 { "pool" } else { "pools" };
        let text = Text::graded(gate.state.grade(), gate.state.as_str())
            .then(" ")
            .then(Text::name(gate.name.as_str()))
            .then(format!(", {pools} "))
            .then(Text::names(gate.pools.iter().map(PoolName::as_str)));
        let question = Item { quiet: true, ..Item::new(Text::name(gate.question())) };
        Item::new(text).with([question].into_iter().chain(gate.reasons().map(Item::new))).into()
    };
    let first = paused::items(answers.paused.as_ref());
    Report {
        command: "gates",
        result: Some(result(answers)),
        blocks: first.map(Block::Item).chain(answers.gates.iter().map(gate)).collect(),
        names: answers.gates.iter().map(|gate| format!("gate/{}", gate.name)).collect(),
        wide: Some(wide(answers)),
        complete: true,
        ..Report::default()
    }
}

fn result(answers: &GateAnswers) -> Conclusion {
    let number = |word: GateWord| answers.gates.iter().filter(|gate| gate.state == word).count();
    let words = [GateWord::Blocks, GateWord::Unknown, GateWord::Passes, GateWord::Off, GateWord::OfNodes];
    let parts: Vec<(GateWord, usize)> =
        words.into_iter().map(|word| (word, number(word))).filter(|(_, number)| *number > 0).collect();
    let Some((worst, _)) = parts.first() else {
        return Conclusion { label: "No gates.".to_owned(), grade: Grade::Neutral, text: Text::default() };
    };
    let grade = worst.grade();
    let parts: Vec<String> = parts.iter().map(|(word, number)| format!("{number} {}", summary_word(*word))).collect();
    Conclusion {
        label: format!("{}:", count(answers.gates.len(), "gate")),
        grade,
        text: format!("{}.", parts.join(", ")).into(),
    }
}

const fn summary_word(word: GateWord) -> &'static str {
    match word {
        GateWord::Passes => "passing",
        GateWord::Blocks => "blocking",
        other => other.as_str(),
    }
}

/// A row for each gate and pool.
fn wide(answers: &GateAnswers) -> Table {
    let rows = answers.gates.iter().flat_map(|gate| {
        let at: Vec<&str> = gate.at.iter().map(|moment| moment.as_str()).collect();
        let why: Vec<String> = gate.reasons().collect();
        gate.pools.iter().map(move |pool| {
            vec![
                Cell::Name(gate.name.to_string()),
                Cell::name(Some(pool)),
                Cell::Graded(gate.state.grade(), gate.state.as_str().to_owned()),
                Cell::words(at.join(",")),
                Cell::Name(gate.question()),
                Cell::words(why.join("; ")),
            ]
        })
    });
    Table {
        caption: "Gates".to_owned(),
        columns: vec!["gate", "pool", "state", "at", "asks", "why"],
        rows: rows.collect(),
        ..Table::default()
    }
}
