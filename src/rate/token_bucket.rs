//! Token buckets: the generic cell rate algorithm (GCRA), in its virtual
//! scheduling form.
//!
//! Source: ATM Forum, *Traffic Management Specification 4.1* (af-tm-0121),
//! 4.4.2; ITU-T I.371, annex A. All that is kept is the *theoretical arrival
//! time* `tat`: when a caller that keeps to the rate would call next. With the
//! emission interval T = window / max and the burst tolerance τ = (burst − 1) T
//! a call conforms if `tat` ≤ now + τ, and then moves `tat` to
//! max(`tat`, now) + T. A call of cost n is n calls: it conforms if
//! max(`tat`, now) + n T ≤ now + burst T.
//!
//! T is rarely a whole number of microseconds. Instants are kept as whole
//! microseconds and a numerator over `max`, so that nothing is rounded and
//! nothing drifts: rates beyond one per microsecond are exact, too.

use serde::{Deserialize, Serialize};

use super::{FILL_MAX, rule::Limit};
use crate::time::Timestamp;

/// Doubles, which are all numbers that Lua has, are exact below this.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// The theoretical arrival time, and the numbers it was counted with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TokenBucket {
    /// Whole µs since the epoch.
    pub(super) tat: u64,
    /// And this many times 1/max µs.
    pub(super) part: u32,
    pub(super) max: u32,
    pub(super) burst: u32,
    pub(super) window: u64,
    /// When it was put down: a later time than now tells that the clock has
    /// been set back, and by how much at least.
    pub(super) seen: Timestamp,
}

/// A length of time: whole µs, and a numerator over `max`.
type Length = (u64, u32);

/// n emission intervals.
fn intervals(n: u32, window: u64, max: u32) -> Length {
    let (whole, rest) = (window / u64::from(max), window % u64::from(max));
    let parts = u64::from(n) * rest;
    (u64::from(n) * whole + parts / u64::from(max), (parts % u64::from(max)) as u32)
}

impl TokenBucket {
    /// One of which nothing is used.
    pub(super) fn full(limit: &Limit, now: Timestamp) -> TokenBucket {
        let (max, burst) = (limit.max, limit.burst);
        TokenBucket { tat: now.0, part: 0, max, burst, window: limit.window.micros(), seen: now }
    }

    pub(super) fn is_moved(&self, limit: &Limit, now: Timestamp) -> bool {
        let same = self.max == limit.max && self.window == limit.window.micros();
        // Under a max of 0 there is no telling what it is worth.
        limit.max > 0 && (self.seen > now || !same)
    }

    /// Brings it up to now, and to the limit's numbers: what was used stays
    /// used, in calls.
    pub(super) fn drain(&self, limit: &Limit, now: Timestamp) -> TokenBucket {
        if self.max == 0 || limit.max == 0 {
            return TokenBucket::full(limit, now);
        }
        // A clock that was set back must not hold a key up for longer.
        let mut debt = self.debt(now.max(self.seen));
        let window = limit.window.micros();
        if self.max != limit.max || self.window != window {
            debt = self.rescale(debt, limit);
        }
        let (tat, part) = (now.0 + debt.0, debt.1);
        TokenBucket { tat, part, max: limit.max, burst: limit.burst, window, seen: now }
    }

    /// The same number of calls at the limit's rate. Debt × max is calls ×
    /// window: for a changed max it stays, for a changed window it grows with
    /// it. In doubles, as the script has no others: exact for all but the
    /// largest, of which it errs by less than a microsecond.
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

    pub(super) fn wait(&self, cost: u32, now: Timestamp) -> u64 {
        let wanted = self.with(cost, now);
        let most = intervals(self.burst, self.window, self.max);
        match wanted <= most {
            true => 0,
            // A part of a microsecond is waited for in full.
            false => wanted.0 - most.0 + u64::from(wanted.1 > most.1),
        }
    }

    pub(super) fn spend(&mut self, cost: u32, now: Timestamp) {
        let (whole, part) = self.with(cost, now);
        (self.tat, self.part) = (now.0 + whole, part);
    }

    /// The least number of calls that would owe as much, at most the burst.
    pub(super) fn count(&self, now: Timestamp) -> u32 {
        let debt = self.debt(now);
        let parts = u128::from(debt.0) * u128::from(self.max) + u128::from(debt.1);
        let calls = parts.div_ceil(u128::from(self.window));
        u32::try_from(calls).unwrap_or(u32::MAX).min(self.burst)
    }

    pub(super) fn reset(&self, now: Timestamp) -> u64 {
        let (whole, part) = self.debt(now);
        whole + u64::from(part > 0)
    }

    /// How far `tat` is ahead.
    fn debt(&self, now: Timestamp) -> Length {
        if self.tat < now.0 { (0, 0) } else { (self.tat - now.0, self.part) }
    }

    /// How far it would be ahead after a call.
    fn with(&self, cost: u32, now: Timestamp) -> Length {
        let (debt, more) = (self.debt(now), intervals(cost, self.window, self.max));
        let parts = u64::from(debt.1) + u64::from(more.1);
        let max = u64::from(self.max);
        (debt.0 + more.0 + parts / max, (parts % max) as u32)
    }
}
