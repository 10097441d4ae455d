//! Retry policy of all requests: a pure decision from the failure, the number of attempts and the remaining time. The
//! transport waits. kube's own retry layer is disabled where the client is created.

use std::time::Duration;

/// Waits between attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Longest wait after the first failure. It doubles with each further failure.
    pub first_delay: Duration,
    /// Longest wait, unless the server requests a longer one.
    pub longest_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { first_delay: Duration::from_millis(200), longest_delay: Duration::from_secs(10) }
    }
}

/// Class of a failed attempt, which decides about a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureClass {
    /// The server returned an error status.
    Status {
        /// The status.
        code: u16,
        /// Value of the Retry-After header, if given in seconds.
        retry_after: Option<Duration>,
    },
    /// The connection failed: refused, unresolvable, or too slow.
    NoConnection,
    /// The connection broke between request and response.
    Lost,
    /// No response came in time.
    TooSlow,
    /// A failure that a retry does not change: a certificate, credentials, an unreadable response.
    Permanent,
}

/// State of a request between attempts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryContext {
    /// Attempts made so far, at least 1.
    pub attempts: u32,
    /// Remaining time until the caller's deadline.
    pub remaining: Duration,
    /// True if this server ever answered this client.
    pub reached_before: bool,
    /// Random number from 0 to 1, so that many clients do not retry at the same moment.
    pub jitter: f64,
}

/// Next step after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Retry after this wait.
    RetryAfter(Duration),
    /// A retry makes sense, but no time is left.
    OutOfTime,
    /// A retry would change nothing.
    Final,
}

impl RetryPolicy {
    /// Decides the next step after a failed attempt.
    #[must_use]
    pub fn decide(&self, class: &FailureClass, context: RetryContext) -> Decision {
        let requested = match class {
            FailureClass::Status { code: 429 | 500 | 502 | 503 | 504, retry_after } => *retry_after,
            FailureClass::TooSlow => None,
            // A server that never answered is probably at another address, so no retry helps.
            FailureClass::NoConnection | FailureClass::Lost if context.reached_before => None,
            FailureClass::Status { .. } | FailureClass::NoConnection | FailureClass::Lost | FailureClass::Permanent => {
                return Decision::Final;
            }
        };
        if context.remaining.is_zero() {
            return Decision::OutOfTime;
        }
        let delay = match requested {
            // Never earlier than the server requests, plus jitter.
            Some(requested) => {
                let delay = requested.saturating_add(self.first_delay.mul_f64(context.jitter.clamp(0.0, 1.0)));
                if delay >= context.remaining {
                    return Decision::OutOfTime;
                }
                delay
            }
            None => self.backoff(context.attempts, context.jitter).min(context.remaining),
        };
        Decision::RetryAfter(delay)
    }

    /// Exponential wait, between half and the whole of a step. The first step is `first_delay`.
    #[must_use]
    pub fn backoff(&self, attempts: u32, jitter: f64) -> Duration {
        let doublings = attempts.saturating_sub(1).min(20);
        let step = self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay);
        step.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }
}

/// Reads a Retry-After header in seconds. API priority and fairness never sends a date.
#[must_use]
pub(crate) fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: RetryContext =
        RetryContext { attempts: 1, remaining: Duration::from_secs(30), reached_before: true, jitter: 1.0 };

    fn status(code: u16) -> FailureClass {
        FailureClass::Status { code, retry_after: None }
    }

    #[test]
    fn retries_only_temporary_failures() {
        let policy = RetryPolicy::default();
        for code in [429, 500, 502, 503, 504] {
            assert!(matches!(policy.decide(&status(code), CONTEXT), Decision::RetryAfter(_)), "{code}");
        }
        for code in [400, 401, 403, 404, 405, 409, 410, 413, 422, 501] {
            assert_eq!(policy.decide(&status(code), CONTEXT), Decision::Final, "{code}");
        }
        assert!(matches!(policy.decide(&FailureClass::Lost, CONTEXT), Decision::RetryAfter(_)));
        assert!(matches!(policy.decide(&FailureClass::TooSlow, CONTEXT), Decision::RetryAfter(_)));
        assert_eq!(policy.decide(&FailureClass::Permanent, CONTEXT), Decision::Final);
    }

    #[test]
    fn never_waits_for_a_server_that_never_answered() {
        let policy = RetryPolicy::default();
        let first = RetryContext { reached_before: false, ..CONTEXT };
        for class in [FailureClass::NoConnection, FailureClass::Lost] {
            assert_eq!(policy.decide(&class, first), Decision::Final);
            assert!(matches!(policy.decide(&class, CONTEXT), Decision::RetryAfter(_)));
        }
    }

    #[test]
    fn retry_after_is_a_lower_bound_and_must_fit() {
        let policy = RetryPolicy::default();
        let requested = |seconds| FailureClass::Status { code: 429, retry_after: Some(Duration::from_secs(seconds)) };
        let earliest = RetryContext { jitter: 0.0, ..CONTEXT };
        assert_eq!(policy.decide(&requested(7), earliest), Decision::RetryAfter(Duration::from_secs(7)));
        assert_eq!(policy.decide(&requested(7), CONTEXT), Decision::RetryAfter(Duration::from_millis(7200)));
        assert_eq!(policy.decide(&requested(30), earliest), Decision::OutOfTime);
        assert_eq!(policy.decide(&requested(u64::MAX), CONTEXT), Decision::OutOfTime);
    }

    #[test]
    fn backoff_doubles_to_a_limit_with_jitter() {
        let policy = RetryPolicy::default();
        let steps: Vec<u128> = (1..=8).map(|attempts| policy.backoff(attempts, 1.0).as_millis()).collect();
        assert_eq!(steps, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(policy.backoff(1, 0.0), Duration::from_millis(100));
        assert_eq!(policy.backoff(u32::MAX, 1.0), Duration::from_secs(10));
    }

    #[test]
    fn deadline_limits_every_wait() {
        let policy = RetryPolicy::default();
        let late = RetryContext { attempts: 9, remaining: Duration::from_secs(1), ..CONTEXT };
        assert_eq!(policy.decide(&status(503), late), Decision::RetryAfter(Duration::from_secs(1)));
        let over = RetryContext { remaining: Duration::ZERO, ..CONTEXT };
        assert_eq!(policy.decide(&status(503), over), Decision::OutOfTime);
    }

    #[test]
    fn reads_retry_after_headers() {
        let read = |text: &'static str| {
            let mut headers = http::HeaderMap::new();
            headers.insert(http::header::RETRY_AFTER, http::HeaderValue::from_static(text));
            retry_after(&headers)
        };
        assert_eq!(read("1"), Some(Duration::from_secs(1)));
        assert_eq!(read("Wed, 21 Oct 2015 07:28:00 GMT"), None);
        assert_eq!(read("-1"), None);
        assert_eq!(retry_after(&http::HeaderMap::new()), None);
    }
}
