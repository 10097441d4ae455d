//! Output of `nodecfg-agent status`, as JSON document and as text.

use std::io::{self, Write};

use serde::Serialize;

use crate::ledger::{AgentState, Phase};
use crate::store::{CheckpointFolder, Description};
use anstyle::{AnsiColor, Style};
use nodecfg_contract::ConfigSource;
use nodecfg_contract::Placement;
use nodecfg_contract::json_document::Kind;

/// State that the agent has on disk.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentStatus<'a> {
    /// Folder of the agent.
    pub folder: &'a str,
    /// Content of the folder.
    #[serde(flatten)]
    pub found: &'a Description,
}

impl Kind for AgentStatus<'_> {
    const KIND: &'static str = "AgentStatus";
}

/// Writes the description as text. `folder`: folder of the agent.
///
/// # Errors
/// The writer failed.
pub fn text(out: &mut dyn Write, folder: &str, found: &Description) -> io::Result<()> {
    let Description { assigned, last_known_good, agent_state, checkpoints, problems } = found;
    let mut line = |name: &str, value: String| writeln!(out, "{:<17}{value}", format!("{name}:"));
    line("folder", folder.to_owned())?;
    line("assigned", source_text(assigned.as_ref(), agent_state.placement))?;
    line("active", source_text(agent_state.active.as_ref(), agent_state.active_placement))?;
    line("last known good", source_text(last_known_good.as_ref(), agent_state.last_known_good_placement))?;
    line("state", phase_text(agent_state, assigned == last_known_good))?;
    if let Some(pool) = &agent_state.pool {
        line("pool", pool.clone())?;
    }
    line(
        "kubelet",
        format!("{}, {}", counted(agent_state.restarts, "restart"), counted(agent_state.rollbacks, "rollback")),
    )?;
    if let Some(failure) = &agent_state.failure {
        writeln!(out, "\n{}", red(&failure.error))?;
        writeln!(out, "  {}", failure.message)?;
    }
    if !checkpoints.is_empty() {
        writeln!(out, "\ncheckpoints:")?;
    }
    for checkpoint in checkpoints {
        writeln!(out, "  {}", checkpoint_line(checkpoint))?;
    }
    if !problems.is_empty() {
        writeln!(out, "\nproblems:")?;
    }
    for problem in problems {
        writeln!(out, "  {}", red(problem))?;
    }
    Ok(())
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn green(text: &str) -> String {
    let style = Style::new().fg_color(Some(AnsiColor::Green.into()));
    format!("{style}{text}{style:#}")
}

fn red(text: &str) -> String {
    let style = Style::new().fg_color(Some(AnsiColor::Red.into())).bold();
    format!("{style}{text}{style:#}")
}

fn source_text(source: Option<&ConfigSource>, placement: Option<Placement>) -> String {
    let Some(source) = source else { return "local configuration".to_owned() };
    let map = source.config_map.as_ref();
    let part = |name: &str, value: Option<&String>| value.map(|value| format!("{name} {value}"));
    let parts: Vec<String> = [
        part("uid", map.and_then(|map| map.uid.as_ref())),
        part("version", map.and_then(|map| map.resource_version.as_ref())),
        placement.map(|placement| placement.to_string()),
    ]
    .into_iter()
    .flatten()
    .collect();
    if parts.is_empty() { source.to_string() } else { format!("{source} ({})", parts.join(", ")) }
}

fn phase_text(agent_state: &AgentState, known_good: bool) -> String {
    match &agent_state.phase {
        Phase::Settled if agent_state.failure.is_some() => red("on the last known good; the assignment failed"),
        Phase::Settled if known_good => green("settled"),
        Phase::Settled => "settled".to_owned(),
        Phase::Activating { .. } => "restarting the kubelet".to_owned(),
        Phase::Trying(trial) => {
            let health = match (trial.healthy_since, trial.unhealthy_since) {
                (_, Some(since)) => format!("unhealthy since {since}"),
                (Some(since), None) => format!("healthy since {since}"),
                (None, None) => "not healthy yet".to_owned(),
            };
            format!("on trial since the restart at {}: {health}", trial.started)
        }
    }
}

fn checkpoint_line(checkpoint: &CheckpointFolder) -> String {
    let CheckpointFolder { uid, resource_version, named_by, files } = checkpoint;
    let files: Vec<String> = files
        .iter()
        .map(|file| match file.bytes {
            Some(bytes) => format!("{} ({bytes} bytes)", file.key),
            None => format!("{} (unreadable)", file.key),
        })
        .collect();
    let named = if named_by.is_empty() { "not in use".to_owned() } else { named_by.join(", ") };
    format!("{uid}/{resource_version}  {}  {named}", files.join(", "))
}

#[cfg(test)]
mod tests {
    use nodecfg_contract::json_document::Document;

    use super::*;
    use crate::ledger::{AssignmentFailure, FailureKind, Trial};
    use crate::store::CheckpointFile;

    fn source(name: &str, uid: &str) -> ConfigSource {
        let mut source = ConfigSource::config_map("nodecfg-system", name, "kubelet");
        if let Some(map) = source.config_map_mut() {
            (map.uid, map.resource_version) = (Some(uid.to_owned()), Some("7".to_owned()));
        }
        source
    }

    fn plain_text(found: &Description) -> String {
        let mut out = Vec::new();
        text(&mut out, "/var/lib/nodecfg", found).expect("is written");
        anstream::adapter::strip_str(&String::from_utf8(out).expect("text")).to_string()
    }

    #[test]
    fn describes_trial_and_rollback() {
        let started = "2026-03-01T10:00:00Z".parse().expect("a time");
        let trial = Trial { started, healthy_since: Some(started), ..Trial::default() };
        let checkpoint = |uid: &str, named_by: Vec<&'static str>, bytes: Option<u64>| CheckpointFolder {
            uid: uid.to_owned(),
            resource_version: "7".to_owned(),
            named_by,
            files: vec![CheckpointFile { key: "kubelet".to_owned(), bytes }],
        };
        let on_trial = Description {
            assigned: Some(source("new", "u-2")),
            last_known_good: Some(source("old", "u-1")),
            agent_state: AgentState {
                phase: Phase::Trying(trial),
                active: Some(source("new", "u-2")),
                placement: Some(Placement::Overlay),
                active_placement: Some(Placement::Overlay),
                last_known_good_placement: Some(Placement::Replace),
                pool: Some("gpu".to_owned()),
                restarts: 2,
                ..AgentState::default()
            },
            checkpoints: vec![
                checkpoint("u-1", vec!["lastKnownGood"], Some(120)),
                checkpoint("u-2", vec!["assigned", "active"], Some(121)),
            ],
            problems: Vec::new(),
        };
        let failure = AssignmentFailure {
            was_healthy: false,
            kind: FailureKind::Trial,
            error: "failed trial: it died".to_owned(),
            message: "the kubelet stopped answering 3 times".to_owned(),
            kubelet: None,
        };
        let rolled_back = Description {
            assigned: Some(source("new", "u-2")),
            agent_state: AgentState { failure: Some(failure), restarts: 1, rollbacks: 1, ..AgentState::default() },
            checkpoints: vec![checkpoint("u-2", vec!["assigned"], None), checkpoint("u-9", vec![], Some(1))],
            problems: vec!["assigned: the checkpoint is missing".to_owned()],
            ..Description::default()
        };
        let both = [on_trial, rolled_back, Description::default()];
        insta::assert_snapshot!("agent-status", both.iter().map(plain_text).collect::<Vec<_>>().join("\n---\n"));
        let documents: Vec<_> =
            both.iter().map(|found| Document::value(AgentStatus { folder: "/d", found }).expect("JSON")).collect();
        insta::assert_json_snapshot!("agent-status-json", documents);
    }
}
