//! Gives out the values of a sequence from blocks that are fetched ahead.

use std::collections::VecDeque;

use tokio::{sync::Mutex, task::JoinHandle};
use tonic::Code;

use crate::{Connection, Error, pb};

/// Default number of values of a block.
const BLOCK: u32 = 100;
/// Maximum number of values of a block.
const BLOCK_MAX: u32 = 10_000;

/// A value of a sequence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serial {
    /// The value.
    pub value: u64,
    /// The value in the layout of the sequence; `None` without a layout.
    pub text: Option<String>,
}

/// Gives out the values of a sequence, each once. It fetches one block per call, and the next block
/// when half of the current one is used. The unused values of a block are a gap.
#[derive(Debug)]
pub struct Allocator {
    connection: Connection,
    name: String,
    block: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    values: VecDeque<Serial>,
    fetch: Option<JoinHandle<Result<VecDeque<Serial>, Error>>>,
}

impl Connection {
    /// Returns an allocator of the values of a sequence. It makes no call yet.
    pub fn allocator(&self, name: &str) -> Allocator {
        let (connection, name) = (self.clone(), name.to_owned());
        Allocator { connection, name, block: BLOCK, state: Mutex::default() }
    }
}

impl Allocator {
    /// Sets the number of values of a block, 1 to 10,000. Default: 100.
    pub fn block(mut self, values: u32) -> Allocator {
        self.block = values.clamp(1, BLOCK_MAX);
        self
    }

    /// Returns the next value. Cancel-safe: a dropped call loses no value. Fails if no value is
    /// left and the block cannot be fetched.
    pub async fn next(&self) -> Result<Serial, Error> {
        let mut state = self.state.lock().await;
        loop {
            if let Some(serial) = state.values.pop_front() {
                if state.values.len() <= self.block as usize / 2 && state.fetch.is_none() {
                    state.fetch = Some(self.fetch());
                }
                return Ok(serial);
            }
            let fetch = state.fetch.get_or_insert_with(|| self.fetch());
            let fetched = fetch.await;
            state.fetch = None;
            state.values = fetched.map_err(|_| {
                Error::new(Code::Cancelled, "the runtime of the allocator has shut down")
            })??;
        }
    }

    fn fetch(&self) -> JoinHandle<Result<VecDeque<Serial>, Error>> {
        let (connection, name, count) = (self.connection.clone(), self.name.clone(), self.block);
        tokio::spawn(async move { values(connection.take(&name, count, 1, None, None).await?) })
    }
}

/// Returns the values of a response in order.
fn values(response: pb::NextSequenceResponse) -> Result<VecDeque<Serial>, Error> {
    let pb::NextSequenceResponse { first, last, step, serials, .. } = response;
    let steps =
        last.checked_sub(first).zip(last.checked_sub(first).and_then(|it| it.checked_div(step)));
    let Some((span, steps)) = steps.filter(|(_, steps)| *steps < u64::from(BLOCK_MAX)) else {
        return with_calendar(serials, last);
    };
    let is_range = span % step == 0;
    if is_range && serials.is_empty() {
        let value = |index| Serial { value: first + index * step, text: None };
        return Ok((0..=steps).map(value).collect());
    } else if is_range && serials.len() as u64 == steps + 1 {
        let value = |(index, text)| Serial { value: first + index * step, text: Some(text) };
        return Ok((0..).zip(serials).map(value).collect());
    }
    with_calendar(serials, last)
}

/// Reads values that follow a calendar out of their serials: the last digits of each.
fn with_calendar(serials: Vec<String>, last: u64) -> Result<VecDeque<Serial>, Error> {
    let length = last.to_string().len();
    let value = |text: String| {
        let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
        let start = digits.len().saturating_sub(length);
        let value = std::str::from_utf8(&digits[start..]).ok().and_then(|it| it.parse().ok());
        let value = value.ok_or_else(|| Error::malformed("serials"))?;
        Ok(Serial { value, text: Some(text) })
    };
    let values: VecDeque<Serial> = serials.into_iter().map(value).collect::<Result<_, Error>>()?;
    match values.back() {
        Some(back) if back.value == last => Ok(values),
        _ => Err(Error::malformed("values")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_expanded_into_its_values() {
        let block = |first, last, step, serials: &[&str]| {
            let serials = serials.iter().map(|it| (*it).to_owned()).collect();
            let response =
                pb::NextSequenceResponse { first, last, step, serials, ..Default::default() };
            values(response).map(|it| it.into_iter().map(|it| it.value).collect::<Vec<_>>())
        };
        assert_eq!(block(7, 9, 1, &[]), Ok(vec![7, 8, 9]));
        let most = i64::MAX as u64;
        assert_eq!(block(most, most, 1, &[]), Ok(vec![most]));
        assert_eq!(block(1, 2, 1, &["A-01", "A-02"]), Ok(vec![1, 2]));
        let (day, next) = (20_261_121_999_999, 20_261_122_000_001);
        let serials = ["O7-20261121-999999", "O7-20261122-000001"];
        assert_eq!(block(day, next, 1, &serials), Ok(vec![day, next]));
        assert!(block(2, 1, 1, &[]).is_err());
        assert!(block(1, 3, 0, &[]).is_err());
        assert!(block(1, 3, 4, &[]).is_err());
    }
}
