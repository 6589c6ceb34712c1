//! The interface of a capability to the simulation: the requests of callers, and a model of their
//! knowledge.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use tollgate_core::{error::Error, names::Name, time::monotonic};
use tollgate_engine::Engine;

/// Success, or the rule that is broken.
pub type Checked = Result<(), &'static str>;
/// An answer that may still be pending.
pub type Answering<A> = Pin<Box<dyn Future<Output = Result<A, Error>>>>;

/// One pool, lock, key, sequence or SKU. If it is unknown whether the last calls were executed,
/// callers continue with its next generation, which has another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    pub index: u8,
    pub generation: u32,
}

impl Part {
    pub fn text(self, letter: char) -> String {
        format!("{letter}{}.{}", self.index, self.generation)
    }
}

/// A model of the callers' knowledge about a part. Its rules are as simple as possible.
pub trait Capability: Clone + fmt::Debug {
    /// A request; a repeat is a clone.
    type Ask: Clone + fmt::Debug;
    /// The answer to a request.
    type Answer: Clone + fmt::Debug;

    fn new(part: Part) -> Self;
    fn part(&self) -> Part;
    /// Returns the next request of a caller, in this step.
    fn ask(&mut self, random: &mut ChaCha8Rng, step: u64) -> Self::Ask;
    /// Requests that read the whole state of the part.
    fn reads(&self) -> Vec<Self::Ask>;
    fn run(part: Part, ask: Self::Ask, engine: Arc<Engine>) -> Answering<Self::Answer>;
    /// Checks an answer, and updates the model. `now` is the engine's time of the decision, in µs.
    fn check(&mut self, ask: &Self::Ask, answer: &Self::Answer, now: u64) -> Checked;
    /// Whether the answer certainly reports a change.
    fn is_change(answer: &Self::Answer) -> bool;
    /// Records that a request is in flight in this step.
    fn mention(&mut self, _ask: &Self::Ask, _step: u64) {}
    /// The process has lost its last changes: numbers that it had reserved are skipped.
    fn lose(&mut self) {}
    /// Drops entries that no caller asks about after a long jump of time.
    fn forget(&mut self, _now: u64) {}
}

/// Returns a deadline that is never reached.
pub fn deadline() -> Instant {
    monotonic() + Duration::from_secs(86_400)
}

pub fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

pub fn text(letter: char, number: impl fmt::Display) -> String {
    format!("{letter}{number}")
}

pub fn holds(rule: bool, what: &'static str) -> Checked {
    if rule { Ok(()) } else { Err(what) }
}
