//! Report of `gates`: each gate with its state and reasons.

use std::io;
use std::io::Write;

use schemars::JsonSchema;
use serde::Serialize;

use super::count;
use super::markdown::{code, prose};
use super::style::{bad, good, heading, quiet, warning};
use super::table::Table;
use crate::layout::hanging;
use nodecfg_contract::json_document::Kind;
use nodecfg_contract::names::{FleetName, GateName, PoolName};
use nodecfg_contract::printable::remark;
use nodecfg_fleet::gates::{Baseline, Gate, GateCheck, Moment};
use nodecfg_rollout::judge::GateState;

/// Maximum number of pools in the text of a gate.
const NAMED_POOLS: usize = 5;

/// Answers of the gates of a repository.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GateAnswers {
    /// The fleet.
    pub fleet: FleetName,
    /// The gates, by name. Equal gates of several pools are one.
    pub gates: Vec<GateAnswer>,
}

impl Kind for GateAnswers {
    const KIND: &'static str = "Gates";
}

impl GateAnswers {
    /// Reports whether every gate passes or is off.
    #[must_use]
    pub fn all_pass(&self) -> bool {
        self.gates.iter().all(|gate| matches!(gate.state, GateWord::Passes | GateWord::Off))
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
}

impl GateWord {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::Blocks => "blocks",
            Self::Unknown => "unknown",
            Self::Off => "off",
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

    fn named_pools(&self) -> String {
        let names: Vec<&str> = self.pools.iter().take(NAMED_POOLS).map(PoolName::as_str).collect();
        match self.pools.len().checked_sub(NAMED_POOLS) {
            Some(more) if more > 0 => format!("{} and {more} more", names.join(", ")),
            _ => names.join(", "),
        }
    }

    /// Series that do not block, in a clause.
    fn known(&self) -> Option<String> {
        (self.known > 0).then(|| format!("{} now, before the first node", count_series(self.known)))
    }
}

fn count_series(number: usize) -> String {
    if number == 1 { "1 series fires".to_owned() } else { format!("{number} series fire") }
}

/// Writes each gate with its state, its pools, its question and the reasons, and a summary.
///
/// # Errors
/// When `out` cannot be written.
pub fn text(out: &mut dyn Write, answers: &GateAnswers, width: usize) -> io::Result<()> {
    for gate in &answers.gates {
        let word = format!("{:<8}", gate.state.as_str());
        let word = match gate.state {
            GateWord::Passes => good(word),
            GateWord::Blocks => bad(word),
            GateWord::Unknown => warning(word),
            GateWord::Off => quiet(word),
        };
        let pools = if gate.pools.len() == 1 { "pool" } else { "pools" };
        let line = format!("{word}{}  {pools} {}", heading(&gate.name), gate.named_pools());
        writeln!(out, "{}", hanging(&line, 10, width))?;
        writeln!(out, "{}", hanging(&format!("        {}", quiet(gate.question())), 10, width))?;
        for reason in gate.reasons.iter().cloned().chain(gate.known()) {
            writeln!(out, "{}", hanging(&format!("        {reason}"), 10, width))?;
        }
    }
    if !answers.gates.is_empty() {
        writeln!(out)?;
    }
    writeln!(out, "{}", summary(answers))
}

fn summary(answers: &GateAnswers) -> String {
    let number = |word: GateWord| answers.gates.iter().filter(|gate| gate.state == word).count();
    if answers.gates.is_empty() {
        return "No gates.".to_owned();
    }
    let words = [GateWord::Blocks, GateWord::Unknown, GateWord::Passes, GateWord::Off];
    let parts = words.into_iter().filter(|word| number(*word) > 0);
    let parts: Vec<String> = parts.map(|word| format!("{} {}", number(word), summary_word(word))).collect();
    format!("{}: {}.", count(answers.gates.len(), "gate"), parts.join(", "))
}

const fn summary_word(word: GateWord) -> &'static str {
    match word {
        GateWord::Passes => "passing",
        GateWord::Blocks => "blocking",
        other => other.as_str(),
    }
}

/// Writes a line for each gate and pool, with all columns at any terminal width.
///
/// # Errors
/// When `out` cannot be written.
pub fn wide(out: &mut dyn Write, answers: &GateAnswers) -> io::Result<()> {
    let rows = answers.gates.iter().flat_map(|gate| {
        let at: Vec<&str> = gate.at.iter().map(|moment| moment.as_str()).collect();
        let why: Vec<String> = gate.reasons.iter().cloned().chain(gate.known()).collect();
        let or_none = |text: String| if text.is_empty() { "–".to_owned() } else { text };
        let (at, why) = (or_none(at.join(",")), or_none(why.join("; ")));
        gate.pools.iter().map(move |pool| {
            let state = gate.state.as_str().to_owned();
            [gate.name.to_string(), pool.to_string(), state, at.clone(), gate.question(), why.clone()]
        })
    });
    writeln!(out, "{}", Table::plain(["GATE", "POOL", "STATE", "AT", "ASKS", "WHY"], rows))
}

/// Writes the name of each gate.
///
/// # Errors
/// When `out` cannot be written.
pub fn names(out: &mut dyn Write, answers: &GateAnswers) -> io::Result<()> {
    answers.gates.iter().try_for_each(|gate| writeln!(out, "gate/{}", gate.name))
}

/// Writes the gates as a markdown table, and a summary.
///
/// # Errors
/// When `out` cannot be written.
pub fn markdown(out: &mut dyn Write, answers: &GateAnswers) -> io::Result<()> {
    if !answers.gates.is_empty() {
        writeln!(out, "| gate | state | pools | asks | why |\n|---|---|---|---|---|")?;
        for gate in &answers.gates {
            let why: Vec<String> = gate.reasons.iter().cloned().chain(gate.known()).collect();
            writeln!(
                out,
                "| {} | {} | {} | {} | {} |",
                code(gate.name.as_str()),
                gate.state.as_str(),
                prose(&gate.named_pools()),
                code(&gate.question()),
                prose(&why.join("; ")),
            )?;
        }
        writeln!(out)?;
    }
    writeln!(out, "{}", summary(answers))
}
