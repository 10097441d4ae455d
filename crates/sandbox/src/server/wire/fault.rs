//! Request faults: matchers, effects, limits, and the faults injected into one server.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::StatusCode;

use super::request::ApiRequest;

/// Matches requests for a fault. A request must match every set field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matcher {
    /// API verb, as in [`ApiRequest::verb`].
    pub verb: Option<String>,
    /// Resource, with its subresource after a slash: `nodes`, `nodes/status`.
    pub resource: Option<String>,
    /// Whether the request is a dry run.
    pub dry_run: Option<bool>,
}

impl Matcher {
    /// Matches every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Matches one verb on one resource, except dry runs.
    #[must_use]
    pub fn on(verb: &str, resource: &str) -> Self {
        let (verb, resource) = (Some(verb.to_owned()), Some(resource.to_owned()));
        Self { verb, resource, dry_run: Some(false) }
    }

    /// Reports whether a request matches.
    #[must_use]
    pub fn matches(&self, request: &ApiRequest) -> bool {
        self.verb.as_ref().is_none_or(|verb| verb == request.verb)
            && self.resource.as_ref().is_none_or(|resource| *resource == request.resource)
            && self.dry_run.is_none_or(|dry_run| dry_run == request.dry_run)
    }
}

/// Effect of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// Refuses the request with this status without executing it. `retry_after` is sent in whole seconds, rounded up.
    Status {
        /// Response status. 401, 403, 429, 500, 503 and 504 have Kubernetes' reasons.
        code: StatusCode,
        /// Delay in the `Retry-After` header.
        retry_after: Option<Duration>,
    },
    /// Refuses the request as an admission policy does, with this message (403).
    Denied(String),
    /// Resets the connection without executing the request.
    Reset,
    /// Executes the request, then resets the connection before the response.
    LoseAnswer,
    /// Resets the connection (HTTP/2: the stream) after this many bytes of the response body, or at its end.
    CutBody {
        /// Bytes that the client receives.
        after_bytes: usize,
    },
    /// Delays the response. Combines with one other fault on the same request.
    Latency(Duration),
    /// Ends the watch normally after this many events, including bookmarks.
    CloseWatch {
        /// Events that the client receives.
        after_events: usize,
    },
    /// Ends the watch with an ERROR event, 410 Expired, after this many events, including bookmarks.
    ExpireWatch {
        /// Events that the client receives.
        after_events: usize,
    },
    /// Refuses a list's continuation with 410 Expired and an inconsistent continue token, like etcd's compaction.
    /// Applies only to requests with `continue`.
    ContinueExpired,
    /// Never responds and does not execute the request.
    Hang,
}

impl FaultKind {
    /// Refusal without `Retry-After`.
    #[must_use]
    pub fn status(code: StatusCode) -> Self {
        Self::Status { code, retry_after: None }
    }

    /// Reports whether the fault can apply to this request.
    fn applies_to(&self, request: &ApiRequest) -> bool {
        match self {
            Self::CloseWatch { .. } | Self::ExpireWatch { .. } => request.verb == "watch",
            Self::ContinueExpired => request.continues_list(),
            _ => true,
        }
    }
}

/// A fault with its matcher and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Requests that the fault applies to.
    pub on: Matcher,
    /// Effect of the fault.
    pub kind: FaultKind,
    /// Number of matching requests to skip first.
    pub skip: u64,
    /// Number of requests to affect after the skipped ones; `None` affects all.
    pub times: Option<u64>,
}

impl Fault {
    /// Affects the first matching request only.
    #[must_use]
    pub fn once(on: Matcher, kind: FaultKind) -> Self {
        Self { on, kind, skip: 0, times: Some(1) }
    }

    /// Affects every matching request.
    #[must_use]
    pub fn always(on: Matcher, kind: FaultKind) -> Self {
        Self { on, kind, skip: 0, times: None }
    }

    /// Affects this many matching requests.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Skips this many matching requests first.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }
}

#[derive(Debug)]
struct ActiveFault {
    id: u64,
    fault: Fault,
    affected: u64,
}

#[derive(Debug, Default)]
struct FaultState {
    next: u64,
    active: Vec<ActiveFault>,
}

/// Injected faults of one server; clones share them.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<FaultState>>);

/// Handle of an injected fault.
#[derive(Debug, Clone)]
pub struct InjectedFault {
    id: u64,
    faults: Faults,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|state| f.debug_list().entries(state.active.iter().map(|active| &active.fault)).finish())
    }
}

impl Faults {
    /// Injects a fault. A request is affected by all matching latencies, and by the earliest other matching fault.
    pub fn inject(&self, fault: Fault) -> InjectedFault {
        let id = self.with(|state| {
            let id = state.next;
            state.next += 1;
            state.active.push(ActiveFault { id, fault, affected: 0 });
            id
        });
        InjectedFault { id, faults: self.clone() }
    }

    /// Removes all faults. Hanging requests keep hanging.
    pub fn clear(&self) {
        self.with(|state| state.active.clear());
    }

    /// Effects on a request: latencies, then at most one other kind.
    pub(super) fn effects_on(&self, request: &ApiRequest) -> Vec<FaultKind> {
        self.with(|state| {
            let mut latencies = Vec::new();
            let mut other = None;
            for active in &mut state.active {
                let latency = matches!(active.fault.kind, FaultKind::Latency(_));
                let spent = active.fault.times.is_some_and(|times| active.affected >= times);
                let taken = !latency && other.is_some();
                if spent || taken || !active.fault.on.matches(request) || !active.fault.kind.applies_to(request) {
                    continue;
                }
                if active.fault.skip > 0 {
                    active.fault.skip -= 1;
                    continue;
                }
                active.affected += 1;
                if latency {
                    latencies.push(active.fault.kind.clone());
                } else {
                    other = Some(active.fault.kind.clone());
                }
            }
            latencies.extend(other);
            latencies
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut FaultState) -> T) -> T {
        // Every change under the lock is complete.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl InjectedFault {
    /// Number of affected requests; 0 after removal.
    #[must_use]
    pub fn affected(&self) -> u64 {
        self.faults
            .with(|state| state.active.iter().find(|active| active.id == self.id).map_or(0, |active| active.affected))
    }

    /// Removes the fault.
    pub fn remove(self) {
        self.faults.with(|state| state.active.retain(|active| active.id != self.id));
    }
}
