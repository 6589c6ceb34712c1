//! Sequences.

use std::{fmt, iter, num::NonZeroU64};

use crate::{Connection, Error, pb};

/// Maximum number of values of a call.
const COUNT_MAX: u64 = 10_000;

/// The values that a call has received. `Display` prints one per line.
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

impl Connection {
    /// Returns the next values of a sequence. A repeat with the same `request_id` gets the first
    /// answer. Without one, all attempts of this call have the same new id.
    pub async fn next(
        &self,
        name: &str,
        count: u32,
        step: i64,
        floor: Option<u64>,
        request_id: Option<&str>,
    ) -> Result<Serials, Error> {
        self.take(name, count, step, floor, request_id).await?.try_into()
    }

    /// Does the same, and returns the response of the contract, from which [`Serials`] can be
    /// created.
    pub async fn take(
        &self,
        name: &str,
        count: u32,
        step: i64,
        floor: Option<u64>,
        request_id: Option<&str>,
    ) -> Result<pb::NextSequenceResponse, Error> {
        let message = pb::NextSequenceRequest {
            name: name.to_owned(),
            count: Some(count),
            step: Some(step),
            floor,
            request_id: self.request_id(request_id),
        };
        self.call(message).await
    }
}

impl TryFrom<pb::NextSequenceResponse> for Serials {
    type Error = Error;

    fn try_from(response: pb::NextSequenceResponse) -> Result<Serials, Error> {
        serials(response)
    }
}

/// Converts serials. Without a layout, the values must form a range of at most [`COUNT_MAX`]
/// values.
fn serials(response: pb::NextSequenceResponse) -> Result<Serials, Error> {
    let pb::NextSequenceResponse { first, last, step, serials, .. } = response;
    if !serials.is_empty() {
        return Ok(Serials::Written(serials));
    }
    let values = NonZeroU64::new(step).filter(|step| {
        let span = last.checked_sub(first);
        span.is_some_and(|span| span % *step == 0 && span / *step < COUNT_MAX)
    });
    let step = values.ok_or_else(|| Error::malformed("values"))?;
    Ok(Serials::Values { first, last, step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_no_request_asks_for_are_malformed() {
        let values = |first, last, step| {
            let response = pb::NextSequenceResponse { first, last, step, ..Default::default() };
            serials(response).map(|serials| serials.to_string())
        };
        assert_eq!(values(10, 20, 5), Ok("10\n15\n20\n".to_owned()));
        let most = i64::MAX as u64;
        assert_eq!(values(most, most, 1), Ok(format!("{most}\n")));
        assert!(values(1, 10_000, 1).is_ok());
        for (first, last, step) in [(0, 0, 0), (2, 1, 1), (1, 3, 4), (1, 10_001, 1)] {
            assert!(values(first, last, step).is_err(), "{first} to {last} by {step}");
        }
    }
}
