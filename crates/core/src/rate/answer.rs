//! The answer to a check.

use serde::{Deserialize, Serialize};

use super::{Rule, ban_record::Ban, usage::Usage};
use crate::{
    Reply,
    error::Error,
    statuses,
    time::{Millis, Timestamp},
    unknown_status,
};

statuses! { CHECK_ALLOW = 0, CHECK_WARN = 1, CHECK_THROTTLE = 2, CHECK_BAN = 3 }

/// The verdict on a call, and the usage of the limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether this call is the first of its window above a tier: send one notice.
    #[serde(default)]
    pub crossed: bool,
    /// When the same call passes; `None` if it passes now.
    #[serde(rename = "retry_after_ms")]
    pub retry_after: Option<Millis>,
    /// The ban in force.
    pub ban: Option<Ban>,
    /// The usage of each limit, in the order of the rule.
    #[serde(default)]
    pub limits: Vec<LimitUse>,
}

/// The verdict on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call may pass.
    Allow,
    /// The call may pass; the count is above a WARN tier.
    Warn,
    /// The call may not pass.
    Throttle,
    /// The call may not pass: the key is banned.
    Ban,
}

impl Answer {
    /// Whether the call may pass.
    pub fn is_allowed(&self) -> bool {
        self.verdict.is_allowed()
    }
}

impl Verdict {
    /// Reads a verdict from its number in the scripts.
    pub(super) fn parse(number: u64) -> Result<Verdict, Error> {
        Ok(match number {
            CHECK_ALLOW => Verdict::Allow,
            CHECK_WARN => Verdict::Warn,
            CHECK_THROTTLE => Verdict::Throttle,
            CHECK_BAN => Verdict::Ban,
            status => return unknown_status(status),
        })
    }

    pub(super) fn is_allowed(self) -> bool {
        matches!(self, Verdict::Allow | Verdict::Warn)
    }
}

/// The usage of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitUse {
    /// The count, with this call if it passed.
    pub count: u64,
    /// When the count is 0 again.
    #[serde(rename = "reset_after_ms")]
    pub reset_after: Millis,
}

impl LimitUse {
    /// Returns the usage of each limit of a rule.
    pub(super) fn of_rule(rule: &Rule, usages: &[Usage], now: Timestamp) -> Vec<LimitUse> {
        let usages = usages.iter().zip(&rule.limits).map(|(usage, limit)| LimitUse {
            count: usage.count(now),
            reset_after: Millis(usage.reset(limit, now).div_ceil(1000)),
        });
        usages.collect()
    }

    /// Reads count and reset time of each limit, until the end of the reply.
    pub(super) fn parse_all(reply: &mut Reply) -> Result<Vec<LimitUse>, Error> {
        let mut limits = Vec::with_capacity(2);
        while reply.has_more() {
            let count = reply.number()?;
            limits.push(LimitUse { count, reset_after: Millis(reply.number()?) });
        }
        Ok(limits)
    }
}
