//! Faults that a test or the user puts in the way of requests.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, StatusCode};

use super::request::ApiRequest;

/// Which requests a fault strikes: those that fit everything that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matcher {
    /// HTTP method.
    pub method: Option<Method>,
    /// Verb of the API, as in [`ApiRequest::verb`].
    pub verb: Option<String>,
    /// Resource, with its subresource after a slash: `nodes`, `nodes/status`.
    pub resource: Option<String>,
    /// A part of the path.
    pub path_contains: Option<String>,
}

impl Matcher {
    /// Every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Requests of one verb on one resource.
    #[must_use]
    pub fn on(verb: &str, resource: &str) -> Self {
        Self { verb: Some(verb.to_owned()), resource: Some(resource.to_owned()), ..Self::default() }
    }

    /// Requests whose path has this in it.
    #[must_use]
    pub fn path(part: &str) -> Self {
        Self { path_contains: Some(part.to_owned()), ..Self::default() }
    }

    /// Whether a request fits.
    #[must_use]
    pub fn fits(&self, request: &ApiRequest) -> bool {
        self.method.as_ref().is_none_or(|method| *method == request.method)
            && self.verb.as_ref().is_none_or(|verb| verb == request.verb)
            && self.resource.as_ref().is_none_or(|resource| *resource == request.resource)
            && self.path_contains.as_ref().is_none_or(|part| request.path.contains(part.as_str()))
    }
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The request is refused with this status and not carried out. `retry_after` is sent in whole seconds, rounded up.
    Status {
        /// Status of the answer: 429, 500, 503, 504 have the reason that Kubernetes gives them.
        code: StatusCode,
        /// When the client may come again.
        retry_after: Option<Duration>,
    },
    /// The connection is cut before the answer; the request is not carried out.
    Reset,
    /// The connection is cut before the answer, and the request has been carried out.
    LoseAnswer,
    /// The connection is cut (HTTP/2: the stream is reset) after this many bytes of the answer's body, or at its end.
    CutBody {
        /// Bytes that still arrive.
        after_bytes: usize,
    },
    /// The answer comes this much later. Works together with one other fault on the same request.
    Latency(Duration),
    /// The watch ends properly after this many events, bookmarks included.
    CloseWatch {
        /// Events that still arrive.
        after_events: usize,
    },
    /// The watch ends with an ERROR event, 410 Expired, after this many events, bookmarks included.
    ExpireWatch {
        /// Events that still arrive.
        after_events: usize,
    },
    /// A list's continuation is refused with 410 Expired, and a token to go on inconsistently with, as etcd's compaction
    /// makes it. Strikes only requests with `continue`.
    ContinueExpired,
    /// No answer, ever. The request is not carried out.
    Hang,
}

impl FaultKind {
    /// A refusal without advice on when to come again.
    #[must_use]
    pub fn status(code: StatusCode) -> Self {
        Self::Status { code, retry_after: None }
    }

    /// Whether it can strike this request at all.
    fn concerns(&self, request: &ApiRequest) -> bool {
        match self {
            Self::CloseWatch { .. } | Self::ExpireWatch { .. } => request.verb == "watch",
            Self::ContinueExpired => {
                super::request::query_value(&request.query, "continue").is_some_and(|token| !token.is_empty())
            }
            _ => true,
        }
    }
}

/// A fault, the requests that it strikes, and how many of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which requests.
    pub on: Matcher,
    /// What happens to them.
    pub kind: FaultKind,
    /// How many fitting requests pass unharmed first.
    pub skip: u64,
    /// How many it strikes after those; `None`: every one until cleared.
    pub times: Option<u64>,
}

impl Fault {
    /// Strikes the first fitting request, once.
    #[must_use]
    pub fn once(on: Matcher, kind: FaultKind) -> Self {
        Self { on, kind, skip: 0, times: Some(1) }
    }

    /// Strikes every fitting request until cleared.
    #[must_use]
    pub fn always(on: Matcher, kind: FaultKind) -> Self {
        Self { on, kind, skip: 0, times: None }
    }

    /// Strikes this many fitting requests.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    /// Lets this many fitting requests pass first.
    #[must_use]
    pub fn skip(mut self, skip: u64) -> Self {
        self.skip = skip;
        self
    }
}

#[derive(Debug)]
struct Armed {
    id: u64,
    fault: Fault,
    struck: u64,
}

#[derive(Debug, Default)]
struct Armoury {
    next: u64,
    armed: Vec<Armed>,
}

/// The faults of one server. Clones share them.
#[derive(Clone, Default)]
pub struct Faults(Arc<Mutex<Armoury>>);

/// A fault that was injected, to ask after and to take away.
#[derive(Debug, Clone)]
pub struct Injected {
    id: u64,
    faults: Faults,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|armoury| f.debug_list().entries(armoury.armed.iter().map(|armed| &armed.fault)).finish())
    }
}

impl Faults {
    /// Arms a fault. Of several that fit one request the one injected first strikes it, after all latencies that fit.
    pub fn inject(&self, fault: Fault) -> Injected {
        let id = self.with(|armoury| {
            let id = armoury.next;
            armoury.next += 1;
            armoury.armed.push(Armed { id, fault, struck: 0 });
            id
        });
        Injected { id, faults: self.clone() }
    }

    /// Takes all faults away. What they have done already stays done: a request that hangs goes on hanging.
    pub fn clear(&self) {
        self.with(|armoury| armoury.armed.clear());
    }

    /// What strikes a request: latencies, then at most one fault of another kind.
    pub(super) fn strike(&self, request: &ApiRequest) -> Vec<FaultKind> {
        self.with(|armoury| {
            let mut latencies = Vec::new();
            let mut other = None;
            for armed in &mut armoury.armed {
                let latency = matches!(armed.fault.kind, FaultKind::Latency(_));
                let spent = armed.fault.times.is_some_and(|times| armed.struck >= times);
                let taken = !latency && other.is_some();
                if spent || taken || !armed.fault.on.fits(request) || !armed.fault.kind.concerns(request) {
                    continue;
                }
                if armed.fault.skip > 0 {
                    armed.fault.skip -= 1;
                    continue;
                }
                armed.struck += 1;
                if latency {
                    latencies.push(armed.fault.kind.clone());
                } else {
                    other = Some(armed.fault.kind.clone());
                }
            }
            latencies.extend(other);
            latencies
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Armoury) -> T) -> T {
        // Every change under the lock is whole by itself.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Injected {
    /// How many requests it has struck; 0 once it was taken away.
    #[must_use]
    pub fn struck(&self) -> u64 {
        self.faults
            .with(|armoury| armoury.armed.iter().find(|armed| armed.id == self.id).map_or(0, |armed| armed.struck))
    }

    /// Takes it away.
    pub fn remove(self) {
        self.faults.with(|armoury| armoury.armed.retain(|armed| armed.id != self.id));
    }
}
