//! `NextSequence` in plain types.

use std::{fmt, iter, num::NonZeroU64};

use super::{CallError, Client, answered, convert, pb, request};

/// The values that `NextSequence` gave out. `Display` prints one per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Serials {
    /// Values of a sequence without a layout: `first`, `first + step`, … `last`.
    Values {
        /// The first value.
        first: u64,
        /// The last value.
        last: u64,
        /// Difference between two values.
        step: NonZeroU64,
    },
    /// Serials in the layout of the sequence, in order.
    Written(Vec<String>),
}

impl fmt::Display for Serials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Serials::Values { first, last, step } => {
                iter::successors(Some(*first), |value| value.checked_add(step.get()))
                    .take_while(|value| value <= last)
                    .try_for_each(|value| writeln!(f, "{value}"))
            }
            Serials::Written(serials) => {
                serials.iter().try_for_each(|serial| writeln!(f, "{serial}"))
            }
        }
    }
}

impl Client {
    /// Takes the next values of a sequence. A repeat with the same `request_id` gets the first
    /// answer.
    pub async fn next_sequence(
        &self,
        name: &str,
        count: u32,
        step: i64,
        floor: Option<u64>,
        request_id: Option<&str>,
    ) -> Result<Serials, CallError> {
        let message = pb::NextSequenceRequest {
            name: name.to_owned(),
            count: Some(count),
            step: Some(step),
            floor,
            request_id: request_id.unwrap_or_default().to_owned(),
        };
        convert::serials(answered(self.sequence.clone().next_sequence(request(message))).await?)
    }
}
