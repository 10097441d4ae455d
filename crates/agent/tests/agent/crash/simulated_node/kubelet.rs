//! Simulated kubelet of a node: restarts, health and the status of its Node.

use std::path::Path;

use nodecfg_agent::events::{ActivationError, Event, NodeHealth};
use nodecfg_agent::host::problem::{CommandError, RestartProblem};
use nodecfg_agent::ledger::Ledger;

use super::{CONFIG, Message, SimulatedNode, after, since};
use crate::crash::contents::{self, Behaviour};

/// Start-up time of a kubelet.
const START_SECONDS: f64 = 2.0;
/// Time after the last Lease renewal in which the Node stays Ready.
const NODE_GRACE_SECONDS: f64 = 40.0;

impl SimulatedNode {
    pub(super) fn restart(&mut self, ledger: &Ledger) {
        if self.answers() {
            self.last_seen_alive = self.now;
        }
        self.start_kubelet();
        let text = String::from_utf8_lossy(&self.running).into_owned();
        self.record(&format!("the kubelet is restarted on {:?}", contents::name(&text)));
        self.check_restart(&text, ledger);
        let answer = match contents::behaviour(&text) {
            Behaviour::NoRestart => Err(ActivationError::NotRestarted {
                reason: RestartProblem::Restart(CommandError::exited(1)).into(),
                last_error: None,
            }),
            _ => Ok(()),
        };
        let takes = 0.2 + self.random.f64();
        self.send(takes, Message::Event(Box::new(Event::Activated(answer))));
    }

    /// Starts the kubelet process on its configuration file.
    pub(super) fn start_kubelet(&mut self) {
        self.check_config("when the kubelet starts");
        let Some(content) = self.disk.content(Path::new(CONFIG)) else { return };
        self.running = content;
        self.first_started.entry(self.running.to_vec()).or_insert(self.now);
        self.started = self.now;
    }

    fn behaviour(&self) -> Behaviour {
        contents::behaviour(&String::from_utf8_lossy(&self.running))
    }

    pub(super) fn answers(&self) -> bool {
        let age = since(self.started, self.now);
        match self.behaviour() {
            _ if age < START_SECONDS => false,
            Behaviour::Good | Behaviour::Unready => true,
            Behaviour::Silent | Behaviour::NoRestart | Behaviour::Refused => false,
            Behaviour::Dies => {
                since(self.first_started.get(&*self.running).copied().unwrap_or(self.now), self.now) < 20.0
            }
            Behaviour::Loops => age % 10.0 < 5.0,
        }
    }

    pub(super) fn node(&self) -> NodeHealth {
        let up = after(self.started, START_SECONDS);
        let (ready, renewed) = if self.answers() {
            let tens = (since(up, self.now) / 10.0).floor() * 10.0;
            (self.behaviour() != Behaviour::Unready, after(up, tens))
        } else {
            (since(self.last_seen_alive, self.now) < NODE_GRACE_SECONDS, self.last_seen_alive)
        };
        NodeHealth { ready, lease_renewed: Some(renewed) }
    }

    /// Reports whether the kubelet runs a good configuration.
    pub fn runs_good_config(&self) -> bool {
        self.behaviour() == Behaviour::Good
    }
}
