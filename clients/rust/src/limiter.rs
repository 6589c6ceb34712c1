//! Limiters: the checks of one policy, and what applies when no server answers.

use std::time::Duration;

use tokio::time::timeout;

use crate::{Against, Connection, Error, RateVerdict, pb, time};

/// What a limiter answers when the check fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnFailure {
    Error,
    Open,
    Closed,
}

/// Checks the keys of one policy or rule. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Limiter {
    connection: Connection,
    against: Against,
    on_failure: OnFailure,
}

/// The answer to a check.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    /// Whether the call may pass.
    pub allowed: bool,
    /// The verdict; `None` if the limiter decided without a server.
    pub verdict: Option<RateVerdict>,
    /// Time until the same call passes; only on a refusal.
    pub retry_after: Option<Duration>,
    /// The limits of the rule, this call included.
    pub limits: Vec<pb::LimitUsage>,
    /// The running ban; only on BAN.
    pub ban: Option<pb::Ban>,
    /// True on exactly one call per tier and window: send a notice now.
    pub crossed: bool,
    /// Whether an earlier call with the same id got this answer.
    pub replayed: bool,
    /// Whether the store was unreachable, or no server answered: a fallback decided.
    pub degraded: bool,
}

impl Connection {
    /// Returns a limiter of a policy of the server's configuration.
    pub fn limiter(&self, policy: &str) -> Limiter {
        self.limiter_of(Against::Policy(policy.to_owned()))
    }

    /// Returns a limiter of a policy, or of a rule that each call carries.
    pub fn limiter_of(&self, against: Against) -> Limiter {
        Limiter { connection: self.clone(), against, on_failure: OnFailure::Error }
    }
}

impl Limiter {
    /// Allows calls that no server can decide: the service stays available without its limits. So
    /// do mistakes of the configuration, such as an unknown policy. A warning of `tracing` says so,
    /// at most once in 10 s for each policy.
    pub fn fail_open(mut self) -> Limiter {
        self.on_failure = OnFailure::Open;
        self
    }

    /// Refuses calls that no server decides, with a `retry_after` of 1 s: the limits always hold.
    pub fn fail_closed(mut self) -> Limiter {
        self.on_failure = OnFailure::Closed;
        self
    }

    /// Counts a call of a key. Fails if no server decides, unless the limiter fails open or closed:
    /// then it decides within one deadline, which includes the wait to be sent. A request that is
    /// invalid always fails. Unless the limiter fails open, so does an unknown policy, with
    /// NOT_FOUND and the reason `POLICY_NOT_FOUND`.
    pub async fn check(&self, key: &str) -> Result<Rate, Error> {
        self.check_cost(key, 1, None).await
    }

    /// Does the same with a cost; a cost of 0 reads without counting. A repeat with the same
    /// `request_id` counts once; `None` means an id of this call alone.
    pub async fn check_cost(
        &self,
        key: &str,
        cost: u64,
        request_id: Option<&str>,
    ) -> Result<Rate, Error> {
        let message = pb::CheckRateRequest {
            key: key.to_owned(),
            against: Some(self.against.clone()),
            cost: Some(cost),
            request_id: self.connection.request_id(request_id),
        };
        let call = self.connection.check_rate(message);
        let answer = match self.on_failure {
            OnFailure::Error => call.await,
            // The wait to be sent has no deadline of its own.
            OnFailure::Open | OnFailure::Closed => timeout(self.connection.deadline(), call)
                .await
                .unwrap_or_else(|_| Err(Error::deadline())),
        };
        match answer {
            Ok(response) => Rate::new(response),
            Err(error) => match self.on_failure {
                // The key of an invalid request was chosen by its caller, so even a limiter that
                // fails open does not allow it.
                OnFailure::Open if error.code != "INVALID_ARGUMENT" && !error.is_closed() => {
                    self.log("the call passes (fail open)", &error);
                    Ok(Rate::undecided(true, None))
                }
                OnFailure::Closed if is_undecided(&error) => {
                    self.log("the call is refused (fail closed)", &error);
                    let after = error.retry_after.unwrap_or(Duration::from_secs(1));
                    Ok(Rate::undecided(false, Some(after)))
                }
                _ => Err(error),
            },
        }
    }

    /// Logs that a check was not decided, at most once in 10 s for each policy.
    pub(crate) fn log(&self, effect: &'static str, error: &Error) {
        let policy = match &self.against {
            Against::Policy(policy) => policy,
            Against::Rule(_) => "a rule",
        };
        self.connection.checks().undecided(policy, effect, error);
    }
}

/// Whether the servers could not decide. Invalid requests and missing permissions are errors of the
/// caller.
fn is_undecided(error: &Error) -> bool {
    error.is_retryable() || error.code == "INTERNAL"
}

impl Rate {
    fn new(response: pb::CheckRateResponse) -> Result<Rate, Error> {
        let retry_after = if response.allowed {
            None
        } else {
            Some(time::length(response.retry_after, "retry_after")?)
        };
        Ok(Rate {
            allowed: response.allowed,
            verdict: Some(response.verdict()),
            retry_after,
            limits: response.limits,
            ban: response.ban,
            crossed: response.crossed,
            replayed: response.replayed,
            degraded: response.degraded,
        })
    }

    pub(crate) fn undecided(allowed: bool, retry_after: Option<Duration>) -> Rate {
        Rate {
            allowed,
            verdict: None,
            retry_after,
            limits: Vec::new(),
            ban: None,
            crossed: false,
            replayed: false,
            degraded: true,
        }
    }

    /// Returns the HTTP headers of the answer, with lower-case names: `ratelimit`,
    /// `ratelimit-policy`, and on a refusal `retry-after` (draft-ietf-httpapi-ratelimit-headers).
    pub fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers = Vec::new();
        if let Some(after) = self.retry_after {
            headers.push(("retry-after", seconds(after).max(1).to_string()));
        }
        if !self.limits.is_empty() {
            let usage = |limit: &pb::LimitUsage| {
                let reset = length(limit.reset_after);
                format!("{};r={};t={}", quoted(&limit.name), limit.remaining, seconds(reset))
            };
            let policy = |limit: &pb::LimitUsage| {
                let window = length(limit.window);
                format!("{};q={};w={}", quoted(&limit.name), limit.max, seconds(window))
            };
            let joined = |of: &dyn Fn(&pb::LimitUsage) -> String| {
                self.limits.iter().map(of).collect::<Vec<_>>().join(", ")
            };
            headers.push(("ratelimit", joined(&usage)));
            headers.push(("ratelimit-policy", joined(&policy)));
        }
        headers
    }
}

fn length(wire: Option<prost_types::Duration>) -> Duration {
    time::length(wire, "").unwrap_or_default()
}

/// Rounds up, so that a caller that returns after this number of seconds does not return too early.
fn seconds(length: Duration) -> u64 {
    length.as_secs() + u64::from(length.subsec_nanos() > 0)
}

/// Returns the name of a limit as a string of a structured header (RFC 9651): ASCII only.
fn quoted(name: &str) -> String {
    let name = if name.is_empty() { "default" } else { name };
    let escaped = name.chars().map(|letter| match letter {
        '"' | '\\' => format!("\\{letter}"),
        ' '..='~' => letter.to_string(),
        _ => "?".to_owned(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_name_each_limit() {
        let limit = |name: &str, remaining, millis| pb::LimitUsage {
            name: name.to_owned(),
            max: 10,
            remaining,
            reset_after: Some(time::wire(Duration::from_millis(millis))),
            window: Some(time::wire(Duration::from_secs(60))),
            ..pb::LimitUsage::default()
        };
        let limits = vec![limit("", 4, 29_001), limit("a\"é", 0, 0)];
        let refused = Rate::undecided(false, Some(Duration::from_millis(1)));
        let headers = Rate { limits, ..refused }.headers();
        let expected = [
            ("retry-after", "1"),
            ("ratelimit", "\"default\";r=4;t=30, \"a\\\"?\";r=0;t=0"),
            ("ratelimit-policy", "\"default\";q=10;w=60, \"a\\\"?\";q=10;w=60"),
        ];
        assert_eq!(headers, expected.map(|(name, value)| (name, value.to_owned())));
        assert!(Rate::undecided(true, None).headers().is_empty());
    }
}
