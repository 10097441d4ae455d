//! The one retry policy. A pure decision over what came back, how often it was tried and how much time is left; the
//! waiting itself happens in the transport. kube's own retry layer is switched off where the client is made.

use std::time::Duration;

/// How long to wait between attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Wait after the first failure; it doubles from there.
    pub first_delay: Duration,
    /// The longest wait that is not asked for by the server.
    pub longest_delay: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { first_delay: Duration::from_millis(200), longest_delay: Duration::from_secs(10) }
    }
}

/// How one attempt failed, as far as trying again depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Setback {
    /// The server answered with an error status.
    Status {
        /// The status.
        code: u16,
        /// Its Retry-After header, when it had one in seconds.
        retry_after: Option<Duration>,
    },
    /// No connection could be made: refused, unresolvable, or too slow to set up.
    NoConnection,
    /// The connection broke between request and answer.
    Lost,
    /// No answer came in time.
    TooSlow,
    /// Something that trying again does not change: a certificate, credentials, an unreadable answer.
    Lasting,
}

/// Where a request stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standing {
    /// Attempts made so far, at least 1.
    pub attempts: u32,
    /// Time that is left until the caller's deadline.
    pub remaining: Duration,
    /// Whether this client has ever had an answer from this server.
    pub reached_before: bool,
    /// A random number from 0 to 1, so that many clients do not come back at the same moment.
    pub jitter: f64,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Try again after this long.
    RetryAfter(Duration),
    /// Trying again is right, and there is no time left for it.
    OutOfTime,
    /// Trying again would change nothing.
    Final,
}

impl RetryPolicy {
    /// Decides what follows a failed attempt.
    #[must_use]
    pub fn decide(&self, setback: &Setback, standing: Standing) -> Decision {
        let asked = match setback {
            Setback::Status { code: 429 | 500 | 502 | 503 | 504, retry_after } => *retry_after,
            Setback::TooSlow => None,
            // An address that has never answered is more likely wrong than away.
            Setback::NoConnection | Setback::Lost if standing.reached_before => None,
            Setback::Status { .. } | Setback::NoConnection | Setback::Lost | Setback::Lasting => {
                return Decision::Final;
            }
        };
        if standing.remaining.is_zero() {
            return Decision::OutOfTime;
        }
        let delay = match asked {
            // Never earlier than the server asks, and spread out from there.
            Some(asked) => {
                let delay = asked.saturating_add(self.first_delay.mul_f64(standing.jitter.clamp(0.0, 1.0)));
                if delay >= standing.remaining {
                    return Decision::OutOfTime;
                }
                delay
            }
            None => self.backoff(standing.attempts, standing.jitter).min(standing.remaining),
        };
        Decision::RetryAfter(delay)
    }

    /// Exponential, from half to the whole of the step: between attempts 1 and 2 it is `first_delay`.
    #[must_use]
    pub fn backoff(&self, attempts: u32, jitter: f64) -> Duration {
        let doublings = attempts.saturating_sub(1).min(20);
        let step = self.first_delay.saturating_mul(1 << doublings).min(self.longest_delay);
        step.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0))
    }
}

/// Reads a Retry-After header. Seconds only: the API server's priority and fairness never sends a date.
#[must_use]
pub(super) fn retry_after(headers: &http::HeaderMap) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDING: Standing =
        Standing { attempts: 1, remaining: Duration::from_secs(30), reached_before: true, jitter: 1.0 };

    fn status(code: u16) -> Setback {
        Setback::Status { code, retry_after: None }
    }

    #[test]
    fn what_passes_by_itself_is_retried_and_nothing_else() {
        let policy = RetryPolicy::default();
        for code in [429, 500, 502, 503, 504] {
            assert!(matches!(policy.decide(&status(code), STANDING), Decision::RetryAfter(_)), "{code}");
        }
        for code in [400, 401, 403, 404, 405, 409, 410, 413, 422, 501] {
            assert_eq!(policy.decide(&status(code), STANDING), Decision::Final, "{code}");
        }
        assert!(matches!(policy.decide(&Setback::Lost, STANDING), Decision::RetryAfter(_)));
        assert!(matches!(policy.decide(&Setback::TooSlow, STANDING), Decision::RetryAfter(_)));
        assert_eq!(policy.decide(&Setback::Lasting, STANDING), Decision::Final);
    }

    #[test]
    fn a_server_that_never_answered_is_not_waited_for() {
        let policy = RetryPolicy::default();
        let first = Standing { reached_before: false, ..STANDING };
        for setback in [Setback::NoConnection, Setback::Lost] {
            assert_eq!(policy.decide(&setback, first), Decision::Final);
            assert!(matches!(policy.decide(&setback, STANDING), Decision::RetryAfter(_)));
        }
    }

    #[test]
    fn retry_after_is_a_lower_bound_and_must_fit() {
        let policy = RetryPolicy::default();
        let asked = |seconds| Setback::Status { code: 429, retry_after: Some(Duration::from_secs(seconds)) };
        let earliest = Standing { jitter: 0.0, ..STANDING };
        assert_eq!(policy.decide(&asked(7), earliest), Decision::RetryAfter(Duration::from_secs(7)));
        assert_eq!(policy.decide(&asked(7), STANDING), Decision::RetryAfter(Duration::from_millis(7200)));
        assert_eq!(policy.decide(&asked(30), earliest), Decision::OutOfTime);
        assert_eq!(policy.decide(&asked(u64::MAX), STANDING), Decision::OutOfTime);
    }

    #[test]
    fn backoff_doubles_to_a_limit_and_is_spread_over_half_a_step() {
        let policy = RetryPolicy::default();
        let steps: Vec<u128> = (1..=8).map(|attempts| policy.backoff(attempts, 1.0).as_millis()).collect();
        assert_eq!(steps, [200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(policy.backoff(1, 0.0), Duration::from_millis(100));
        assert_eq!(policy.backoff(u32::MAX, 1.0), Duration::from_secs(10));
    }

    #[test]
    fn the_deadline_bounds_every_wait() {
        let policy = RetryPolicy::default();
        let late = Standing { attempts: 9, remaining: Duration::from_secs(1), ..STANDING };
        assert_eq!(policy.decide(&status(503), late), Decision::RetryAfter(Duration::from_secs(1)));
        let over = Standing { remaining: Duration::ZERO, ..STANDING };
        assert_eq!(policy.decide(&status(503), over), Decision::OutOfTime);
    }

    #[test]
    fn retry_after_headers() {
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
