//! The meaning of answers: whether a gate passes, blocks, or is unknown. Everything that is not a clear answer is
//! unknown, and a rollout treats unknown gates like blocking ones.
//!
//! Texts of answers are untrusted. Reasons contain them on one line, bounded, without hidden characters.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::instant::Instant;
use nodecfg_contract::ObjectRef;
use nodecfg_contract::printable::remark;
use nodecfg_fleet::gates::{Baseline, Gate, GateCheck, PrometheusQuery, Question};

mod object;
#[cfg(test)]
mod tests;

/// Number of series that the reasons of a gate name.
const NAMED_SERIES: usize = 3;

/// Labels of a series, which identify it. They include the name of the metric as `__name__`.
pub type Labels = BTreeMap<String, String>;

/// A series of a query's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    /// Labels. The baselines of all pools share them, because an answer may have thousands.
    pub labels: Arc<Labels>,
    /// Value as Prometheus writes it.
    pub value: String,
}

/// Answer to the question of a gate. An error is the reason why there is no answer, as a sentence without a period.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// Answer of Prometheus.
    Prometheus {
        /// Result of `query`.
        firing: Result<Vec<Series>, String>,
        /// Number of series in the result of `present`.
        present: Result<usize, String>,
    },
    /// The object as the API server returned it.
    Object(Result<Value, String>),
}

/// Answer to a question, and the time of its request.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The question.
    pub question: Question,
    /// Its answer.
    pub answer: Answer,
    /// Moment at which the first request was sent.
    pub at: Instant,
}

/// State of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateState {
    /// The condition holds.
    Passes {
        /// Number of series that fire and do not block, because they fired before the first node.
        known: usize,
    },
    /// The condition does not hold.
    Blocks {
        /// Reasons, at least one; a bounded number of them, each on one line.
        reasons: Vec<String>,
    },
    /// Whether the condition holds is unknown.
    Unknown {
        /// Reason, on one line.
        why: String,
    },
}

impl GateState {
    /// Reports whether a rollout may take its next step.
    #[must_use]
    pub const fn passes(&self) -> bool {
        matches!(self, Self::Passes { .. })
    }

    /// Why the gate does not pass, on one line; `None` if it passes.
    #[must_use]
    pub fn why(&self) -> Option<String> {
        match self {
            Self::Passes { .. } => None,
            Self::Blocks { reasons } => Some(reasons.join("; ")),
            Self::Unknown { why } => Some(format!("unknown: {why}")),
        }
    }
}

/// Series that fired before the first node of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownSeries(BTreeSet<Arc<Labels>>);

impl KnownSeries {
    /// The series that fire in this answer. `None` if the answer does not tell.
    #[must_use]
    pub fn of(answer: &Answer) -> Option<Self> {
        match answer {
            Answer::Prometheus { firing: Ok(firing), .. } => {
                Some(Self(firing.iter().map(|series| Arc::clone(&series.labels)).collect()))
            }
            _ => None,
        }
    }
}

/// Judges a gate by the answer to its question. `known` are the series that fired before the first node.
#[must_use]
pub fn judge(gate: &Gate, answer: &Answer, known: &KnownSeries) -> GateState {
    match (&gate.check, answer) {
        (GateCheck::Prometheus { query, baseline }, Answer::Prometheus { firing, present }) => {
            let known = Some(known).filter(|_| *baseline == Baseline::Use);
            judge_series(query, firing, present, known)
        }
        (GateCheck::Object { object, wanted }, Answer::Object(answer)) => match answer {
            Ok(found) => object::judge(object, wanted, found),
            Err(why) => unknown(why),
        },
        _ => unknown("the answer is to another question"),
    }
}

pub(super) fn unknown(why: &str) -> GateState {
    GateState::Unknown { why: remark(why) }
}

fn judge_series(
    query: &PrometheusQuery,
    firing: &Result<Vec<Series>, String>,
    present: &Result<usize, String>,
    known: Option<&KnownSeries>,
) -> GateState {
    let firing = match firing {
        Ok(firing) => firing,
        Err(why) => return unknown(why),
    };
    let is_known = |series: &&Series| known.is_some_and(|known| known.0.contains(&series.labels));
    let mut new: Vec<&Series> = firing.iter().filter(|series| !is_known(series)).collect();
    if new.is_empty() {
        return match present {
            Ok(0) => unknown(&format!("`present` has no data: {}", query.present)),
            Ok(_) => GateState::Passes { known: firing.len() },
            Err(why) => unknown(&format!("`present`: {why}")),
        };
    }
    new.sort_by(|a, b| a.labels.cmp(&b.labels));
    let mut reasons: Vec<String> = new.iter().take(NAMED_SERIES).map(|series| described(series)).collect();
    if new.len() > NAMED_SERIES {
        reasons.push(format!("{} series in total", new.len()));
    }
    GateState::Blocks { reasons }
}

/// A series as PromQL writes it, with its value.
fn described(series: &Series) -> String {
    let name = series.labels.get("__name__").map(String::as_str).unwrap_or_default();
    let labels = series.labels.iter().filter(|(label, _)| *label != "__name__");
    let labels: Vec<String> = labels.map(|(label, value)| format!("{label}={value:?}")).collect();
    let labels =
        if labels.is_empty() && !name.is_empty() { String::new() } else { format!("{{{}}}", labels.join(", ")) };
    format!("{} is {}", remark(&format!("{name}{labels}")), remark(&series.value))
}

/// Name of an object for a reason.
pub(super) fn subject(object: &ObjectRef) -> String {
    remark(&object.to_string())
}
