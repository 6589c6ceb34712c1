//! What callers saw.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;

use crate::{
    call::{Call, hexadecimal},
    connection::{Failure, RESOURCE_EXHAUSTED},
};

/// What one or more callers saw.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How long each call took that was answered as it should be, in ns.
    pub(crate) latencies: Vec<u32>,
    /// Calls refused with RESOURCE_EXHAUSTED.
    pub(crate) refused: u64,
    /// Calls that failed or were answered otherwise than they should be, by what came.
    pub(crate) wrong: BTreeMap<String, u64>,
}

/// What a caller can do after an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// What comes next.
    GoOn,
    /// Begin anew: what follows a failed call would not make sense.
    Anew,
    /// Come again later.
    Later,
    /// Nothing: the connection is broken.
    End,
}

impl Tally {
    /// Notes what came of a call. Only within the time that counts does it count when it
    /// is as it should be; what is wrong always does.
    pub(crate) fn note(
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
        self.note_wrong(what, 1);
        then
    }

    pub(crate) fn note_wrong(&mut self, what: String, count: u64) {
        *self.wrong.entry(what).or_default() += count;
    }

    pub(crate) fn join(&mut self, other: Tally) {
        self.latencies.extend(other.latencies);
        self.refused += other.refused;
        for (what, count) in other.wrong {
            self.note_wrong(what, count);
        }
    }
}
