//! What the simulation has of each capability: what callers ask, and what they know.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rand_chacha::ChaCha8Rng;
use tollgate::{
    decision::{error::Error, names::Name, time::monotonic},
    engine::Engine,
};

/// What a rule that is broken says.
pub type Checked = Result<(), &'static str>;
/// An answer on its way.
pub type Answering<A> = Pin<Box<dyn Future<Output = Result<A, Error>>>>;

/// One pool, lock, key, sequence or sku. Where nobody can tell what became of the last
/// calls, another generation of it goes on under a name of its own.
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

/// What callers know of a part: a record of their own, by the simplest rules there are.
pub trait Capability: Clone + fmt::Debug {
    /// What a caller asks; a repeat is a clone.
    type Ask: Clone + fmt::Debug;
    /// What it is answered.
    type Answer: Clone + fmt::Debug;

    fn new(part: Part) -> Self;
    fn part(&self) -> Part;
    /// What a caller asks next, in this step.
    fn ask(&mut self, random: &mut ChaCha8Rng, step: u64) -> Self::Ask;
    /// What tells all that there is to know.
    fn reads(&self) -> Vec<Self::Ask>;
    fn run(part: Part, ask: Self::Ask, engine: Arc<Engine>) -> Answering<Self::Answer>;
    /// Checks what was answered, and notes it. `now` is the engine's time of the decision.
    fn check(&mut self, ask: &Self::Ask, answer: &Self::Answer, now: u64) -> Checked;
    /// Whether it certainly has changed something.
    fn is_change(answer: &Self::Answer) -> bool;
    /// What is asked about is on somebody's mind in this step.
    fn mention(&mut self, _ask: &Self::Ask, _step: u64) {}
    /// So much time went by that nobody remembers what was only lingering.
    fn forget(&mut self, _now: u64) {}
}

/// Nothing ends by real time.
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
