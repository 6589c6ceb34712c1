//! Results of callers.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;

use crate::{
    call::{Call, hexadecimal},
    connection::{Failure, RESOURCE_EXHAUSTED},
};

/// Results of one or more callers.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Latency of each call with the expected reply, in ns.
    pub(crate) latencies: Vec<u32>,
    /// Calls refused with RESOURCE_EXHAUSTED.
    pub(crate) refused: u64,
    /// Failed calls and unexpected replies, by description.
    pub(crate) wrong: BTreeMap<String, u64>,
}

/// The next step of a caller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// The next call of the load.
    GoOn,
    /// The first call of the load, because the rest would not make sense after a failure.
    Anew,
    /// The first call, after a pause.
    Later,
    /// None: the connection is broken.
    End,
}

impl Tally {
    /// Records the outcome of a call. Expected replies and refusals count only if `counts` is set;
    /// unexpected ones always count.
    pub(crate) fn record(
        &mut self,
        call: &Call,
        answer: Result<Bytes, Failure>,
        took: Duration,
        counts: bool,
    ) -> Then {
        let (what, then) = match answer {
            Ok(received) if call.accepts(&received) => {
                if counts {
                    self.latencies.push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
                }
                return Then::GoOn;
            }
            Err(Failure::Status(RESOURCE_EXHAUSTED, _)) => {
                self.refused += u64::from(counts);
                return Then::Later;
            }
            Ok(received) => {
                (format!("{} answered {}", call.path, hexadecimal(&received)), Then::Anew)
            }
            Err(Failure::Status(code, message)) => {
                (format!("{} failed with {code}: {message}", call.path), Then::Anew)
            }
            Err(Failure::Broken(what)) => (what, Then::End),
        };
        self.record_wrong(what, 1);
        then
    }

    pub(crate) fn record_wrong(&mut self, what: String, count: u64) {
        *self.wrong.entry(what).or_default() += count;
    }

    pub(crate) fn join(&mut self, other: Tally) {
        self.latencies.extend(other.latencies);
        self.refused += other.refused;
        for (what, count) in other.wrong {
            self.record_wrong(what, count);
        }
    }
}
