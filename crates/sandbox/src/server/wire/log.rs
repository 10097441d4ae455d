//! Request log: requests with their counts and responses.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;

use super::request::ApiRequest;

/// Maximum number of stored entries, which limits memory. Counters include all requests.
const MAX_ENTRIES: usize = 10_000;

/// A request with its response status.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Number of the request, from 0 in order of arrival.
    pub sequence: u64,
    /// The request.
    pub request: ApiRequest,
    /// Response status; `None` before the response, and after a connection reset.
    pub status: Option<StatusCode>,
}

impl fmt::Display for Entry {
    /// Writes `GET /api/v1/nodes?limit=250 200`, the format of access logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{} {}", self.request, status.as_u16()),
            None => write!(f, "{} (connection reset)", self.request),
        }
    }
}

type Observer = Box<dyn Fn(&Entry) + Send + Sync>;

#[derive(Default)]
struct Records {
    next: u64,
    entries: VecDeque<Entry>,
    counters: BTreeMap<(String, String), u64>,
}

/// Request log of one server; clones share it.
#[derive(Clone, Default)]
pub struct RequestLog {
    records: Arc<Mutex<Records>>,
    observer: Arc<Mutex<Option<Observer>>>,
}

impl fmt::Debug for RequestLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestLog").field("counters", &self.counters()).finish_non_exhaustive()
    }
}

impl RequestLog {
    /// Request counts by verb and resource (`("patch", "nodes/status")`). Requests without a resource, such as
    /// discovery, count under an empty one.
    #[must_use]
    pub fn counters(&self) -> BTreeMap<(String, String), u64> {
        self.with(|records| records.counters.clone())
    }

    /// Request count of one verb on one resource.
    #[must_use]
    pub fn count(&self, verb: &str, resource: &str) -> u64 {
        self.with(|records| records.counters.get(&(verb.to_owned(), resource.to_owned())).copied().unwrap_or_default())
    }

    /// Latest 10,000 requests, in order of arrival.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        self.with(|records| records.entries.iter().cloned().collect())
    }

    /// Write requests among [`entries`](Self::entries), without dry runs.
    #[must_use]
    pub fn writes(&self) -> Vec<Entry> {
        self.with(|records| records.entries.iter().filter(|entry| entry.request.writes()).cloned().collect())
    }

    /// Clears the log and the counters.
    pub fn clear(&self) {
        self.with(|records| {
            records.entries.clear();
            records.counters.clear();
        });
    }

    /// Sets `observer`, which is called when a request ends with a response or a connection reset; replaces an
    /// earlier one. It must be fast, because requests wait for it.
    pub fn observe(&self, observer: impl Fn(&Entry) + Send + Sync + 'static) {
        *self.observer.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(observer));
    }

    pub(super) fn begin(&self, request: &ApiRequest) -> u64 {
        self.with(|records| {
            let sequence = records.next;
            records.next += 1;
            *records.counters.entry((request.verb.to_owned(), request.resource.clone())).or_default() += 1;
            if records.entries.len() == MAX_ENTRIES {
                records.entries.pop_front();
            }
            records.entries.push_back(Entry { sequence, request: request.clone(), status: None });
            sequence
        })
    }

    pub(super) fn end(&self, sequence: u64, status: Option<StatusCode>) {
        let ended = self.with(|records| {
            let first = records.entries.front()?.sequence;
            let index = usize::try_from(sequence.checked_sub(first)?).ok()?;
            let entry = records.entries.get_mut(index)?;
            entry.status = status;
            Some(entry.clone())
        });
        if let (Some(entry), Some(observer)) = (ended, &*self.observer.lock().unwrap_or_else(PoisonError::into_inner)) {
            observer(&entry);
        }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Records) -> T) -> T {
        // A partial change after a panic is acceptable in a log.
        work(&mut self.records.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method, Uri};

    use super::*;

    fn request(method: Method, uri: &'static str) -> ApiRequest {
        ApiRequest::of(&method, &Uri::from_static(uri), &HeaderMap::new())
    }

    #[test]
    fn counters_outlive_entries() {
        let log = RequestLog::default();
        for _ in 0..=MAX_ENTRIES {
            let number = log.begin(&request(Method::GET, "/api/v1/nodes"));
            log.end(number, Some(StatusCode::OK));
        }
        assert_eq!(log.entries().len(), MAX_ENTRIES);
        assert_eq!(log.entries()[0].sequence, 1);
        assert_eq!(log.count("list", "nodes"), u64::try_from(MAX_ENTRIES).expect("fits") + 1);
        log.end(0, Some(StatusCode::OK));
        log.clear();
        assert_eq!(log.counters(), BTreeMap::new());
    }

    #[test]
    fn responses_match_requests_in_any_order() {
        let log = RequestLog::default();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let observed = Arc::clone(&seen);
        log.observe(move |entry| observed.lock().expect("not poisoned").push((entry.sequence, entry.status)));
        let first = log.begin(&request(Method::GET, "/api/v1/nodes"));
        let second = log.begin(&request(Method::PATCH, "/api/v1/nodes/a"));
        log.end(second, Some(StatusCode::CONFLICT));
        log.end(first, None);
        assert_eq!(log.entries()[1].status, Some(StatusCode::CONFLICT));
        assert_eq!(*seen.lock().expect("not poisoned"), [(1, Some(StatusCode::CONFLICT)), (0, None)]);
        assert_eq!(log.writes().len(), 1);
    }
}
