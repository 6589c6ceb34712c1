//! Sums of the counters of this process, for the console.

use std::array;

use tollgate_core::script;
use tollgate_engine::CountedVerb;
use tollgate_telemetry::metrics::{CODES, CellTotals, METHODS_MAX};

/// The outcomes that refuse what the caller asked for.
pub const REFUSALS: [&str; 9] = [
    "full",
    "paused",
    "throttle",
    "ban",
    "too_many_names",
    "held",
    "short",
    "buyer_limit",
    "stale_token",
];

/// Sums since the start of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessTotals {
    /// Calls whose headers were read.
    pub calls: u64,
    /// Decisions that refused what the caller asked for.
    pub refusals: u64,
    /// Finished calls, by status code.
    pub codes: [u64; CODES],
    /// Leases of pools that expired.
    pub expired_leases: u64,
    /// Results of tasks whose lease had ended.
    pub late_results: u64,
    /// Changes or restarts of the Redis primary.
    pub failovers: u64,
    /// Decisions that the store did not execute.
    pub store_failures: u64,
}

impl ProcessTotals {
    /// Sums the counters; `verbs` are those whose outcomes are counted.
    pub fn now(verbs: &[CountedVerb]) -> ProcessTotals {
        let cells = CellTotals::now();
        let (mut refusals, mut late_results) = (0, 0);
        for verb in verbs {
            for (index, outcome) in verb.outcomes.iter().enumerate() {
                let count = || cells.sum(|cells| &cells.decisions[verb.script.index][index]);
                if REFUSALS.contains(outcome) {
                    refusals += count();
                }
                if verb.script.index == script::admission::COMPLETE.index && *outcome == "late" {
                    late_results += count();
                }
            }
        }
        let store_failures = cells.each().flat_map(|cells| &cells.store_failures);
        ProcessTotals {
            calls: (0..METHODS_MAX).map(|rpc| cells.sum(|cells| &cells.calls[rpc].started)).sum(),
            refusals,
            codes: array::from_fn(|code| {
                (0..METHODS_MAX).map(|rpc| cells.sum(|cells| &cells.calls[rpc].handled[code])).sum()
            }),
            expired_leases: cells.sum(|cells| &cells.expired_leases),
            late_results,
            failovers: cells.sum(|cells| &cells.failovers),
            store_failures: store_failures.map(|count| count.get()).sum(),
        }
    }
}
