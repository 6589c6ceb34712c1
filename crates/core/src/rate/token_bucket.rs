//! Token buckets: the generic cell rate algorithm (GCRA), in its virtual scheduling form.
//!
//! Source: ATM Forum, *Traffic Management Specification 4.1* (af-tm-0121), 4.4.2; ITU-T I.371,
//! annex A. The state is one time, the *theoretical arrival time* `tat`: when a caller that keeps
//! to the rate would call next. Let T = window / max be the emission interval and τ = (burst − 1) T
//! the burst tolerance. A call conforms if `tat` ≤ now + τ; it then moves `tat` to max(`tat`, now)
//! + T. A call of cost n counts as n calls: it conforms if max(`tat`, now) + n T ≤ now + burst T.
//!
//! T is rarely a whole number of µs. Times are therefore stored as whole µs and a numerator over
//! `max`. Nothing is rounded and nothing drifts, even for rates above one per µs.

use serde::{Deserialize, Serialize};

use super::{FILL_MAX, rule::Limit};
use crate::time::Timestamp;

/// Lua numbers are doubles, which are exact below this.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The theoretical arrival time, and the numbers of the limit that produced it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokenBucket {
    /// The whole µs since the Unix epoch.
    pub(super) tat: u64,
    /// The fraction: this many times 1/max µs.
    pub(super) part: u32,
    /// The number of calls that `window` gives back.
    pub(super) max: u32,
    /// Not exported; it comes from the current limit.
    #[serde(default, with = "unexported")]
    pub(super) burst: u32,
    /// In µs.
    pub(super) window: u64,
    /// When the bucket was stored. If this is later than now, the clock was set back by at least
    /// the difference.
    pub(super) seen: Timestamp,
}

/// Serializes a number that a data directory has and an export does not.
mod unexported {
    use serde::{Deserialize, Deserializer, Serializer, de::IgnoredAny};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "for serde")]
    pub(super) fn serialize<S: Serializer>(number: &u32, to: S) -> Result<S::Ok, S::Error> {
        if to.is_human_readable() { to.serialize_none() } else { to.serialize_u32(*number) }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        if from.is_human_readable() {
            IgnoredAny::deserialize(from).map(|_| 0)
        } else {
            u32::deserialize(from)
        }
    }
}

/// A duration: whole µs, and a numerator over `max`.
type Length = (u64, u32);

/// Returns the duration of n emission intervals.
fn intervals(n: u32, window: u64, max: u32) -> Length {
    let (whole, rest) = (window / u64::from(max), window % u64::from(max));
    let parts = u64::from(n) * rest;
    (u64::from(n) * whole + parts / u64::from(max), (parts % u64::from(max)) as u32)
}

impl TokenBucket {
    /// Creates a full bucket: no call is counted.
    pub(super) fn full(limit: &Limit, now: Timestamp) -> TokenBucket {
        let (max, burst) = (limit.max, limit.burst);
        TokenBucket { tat: now.0, part: 0, max, burst, window: limit.window.micros(), seen: now }
    }

    /// Whether the limit's numbers have changed or the clock was set back, so that the bucket must
    /// be stored even for a refused call.
    pub(super) fn is_moved(&self, limit: &Limit, now: Timestamp) -> bool {
        let same = self.max == limit.max && self.window == limit.window.micros();
        // With `max` 0 the usage cannot be converted.
        limit.max > 0 && (self.seen > now || !same)
    }

    /// Returns the bucket as of `now`, under the limit's current numbers. The number of counted
    /// calls stays the same.
    pub(super) fn drain(&self, limit: &Limit, now: Timestamp) -> TokenBucket {
        if self.max == 0 || limit.max == 0 {
            return TokenBucket::full(limit, now);
        }
        // The clock was set back: that must not make a key wait longer.
        let mut debt = self.debt(now.max(self.seen));
        let window = limit.window.micros();
        if self.max != limit.max || self.window != window {
            debt = self.rescale(debt, limit);
        }
        let (tat, part) = (now.0 + debt.0, debt.1);
        TokenBucket { tat, part, max: limit.max, burst: limit.burst, window, seen: now }
    }

    /// Returns the debt of the same number of calls under the limit's numbers. Debt × max = calls ×
    /// window, so a changed `max` keeps the product and a changed window scales it. Computed in
    /// doubles, like the script: exact except for the largest values, where the error is below 1
    /// µs.
    fn rescale(&self, debt: Length, limit: &Limit) -> Length {
        let window = limit.window.micros();
        let mut calls = debt.0 as f64 * f64::from(self.max) + f64::from(debt.1);
        if self.window != window {
            calls = (calls * window as f64 / self.window as f64).ceil();
        }
        if calls >= EXACT {
            let whole = (calls / f64::from(limit.max)).ceil();
            return (whole.min(FILL_MAX.micros() as f64) as u64, 0);
        }
        let (calls, max) = (calls as u64, u64::from(limit.max));
        (calls / max, (calls % max) as u32).min((FILL_MAX.micros(), 0))
    }

    /// Returns the time in µs until a call of this cost conforms; 0 for now.
    pub(super) fn wait(&self, cost: u32, now: Timestamp) -> u64 {
        let wanted = self.with(cost, now);
        let most = intervals(self.burst, self.window, self.max);
        if wanted <= most {
            0
        } else {
            // A fraction of a µs is rounded up.
            wanted.0 - most.0 + u64::from(wanted.1 > most.1)
        }
    }

    /// Counts a call: moves `tat`.
    pub(super) fn spend(&mut self, cost: u32, now: Timestamp) {
        let (whole, part) = self.with(cost, now);
        (self.tat, self.part) = (now.0 + whole, part);
    }

    /// Returns the smallest number of calls with this debt; at most the burst.
    pub(super) fn count(&self, now: Timestamp) -> u32 {
        let debt = self.debt(now);
        let parts = u128::from(debt.0) * u128::from(self.max) + u128::from(debt.1);
        let calls = parts.div_ceil(u128::from(self.window));
        u32::try_from(calls).unwrap_or(u32::MAX).min(self.burst)
    }

    /// Returns the time in µs until the bucket is full.
    pub(super) fn reset(&self, now: Timestamp) -> u64 {
        let (whole, part) = self.debt(now);
        whole + u64::from(part > 0)
    }

    /// Returns how far `tat` is ahead of now.
    fn debt(&self, now: Timestamp) -> Length {
        if self.tat < now.0 { (0, 0) } else { (self.tat - now.0, self.part) }
    }

    /// Returns how far `tat` would be ahead after a call of this cost.
    fn with(&self, cost: u32, now: Timestamp) -> Length {
        let (debt, more) = (self.debt(now), intervals(cost, self.window, self.max));
        let parts = u64::from(debt.1) + u64::from(more.1);
        let max = u64::from(self.max);
        (debt.0 + more.0 + parts / max, (parts % max) as u32)
    }
}
