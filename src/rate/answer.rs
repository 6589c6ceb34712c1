//! The answer to a check.

use serde::{Deserialize, Serialize};

use super::ban_record::Ban;
use crate::decision::time::Millis;

/// The verdict about a call, and the usage of the limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// Whether this call is the first of its window above a tier: send one notice.
    pub crossed: bool,
    /// When the same call passes; `None` if it passes now.
    pub retry_after: Option<Millis>,
    /// The ban in force.
    pub ban: Option<Ban>,
    /// The usage of each limit, in the order of the rule.
    pub limits: Vec<LimitUse>,
}

/// The verdict about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    pub(super) fn is_allowed(self) -> bool {
        matches!(self, Verdict::Allow | Verdict::Warn)
    }
}

/// The usage of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitUse {
    /// The count, with this call if it passed.
    pub count: u32,
    /// When the count is 0 again.
    pub reset_after: Millis,
}
