//! A model of sequences: values are distinct and grow, and a repeat gets the same values.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    sequence::{
        AHEAD_DEFAULT, Allocation, Floor, GetSequence, Layout, NextSequence, Range, Sequence,
        SetSequenceFloor,
    },
    time::Timestamp,
};
use tollgate_engine::Engine;

use crate::capability::{Answering, Capability, Checked, Part, deadline, holds, name, text};

/// Time during which a request can be repeated, in µs.
const REPLAY: u64 = 300_000_000;
/// Index of the sequence that has a calendar.
const DATED: u8 = 0;

#[derive(Debug, Clone)]
pub enum Ask {
    Next { count: u64, step: u64, floor: Option<u64>, request: Option<u32> },
    Floor(u64),
    Get,
}

#[derive(Debug, Clone)]
pub enum Answer {
    Given(Allocation),
    Moved(Floor),
    Last(Option<(u64, Timestamp)>),
}

#[derive(Debug, Clone)]
pub struct Serials {
    part: Part,
    last: Option<u64>,
    /// Whether reserved values were skipped since `last`.
    may_skip: bool,
    requests: u32,
    /// The values of each request, and the time until which it can be repeated.
    replays: BTreeMap<u32, (Range, u64)>,
}

fn sequence(part: Part) -> Sequence {
    static STAMP: OnceLock<Arc<Layout>> = OnceLock::new();
    let stamp = STAMP.get_or_init(|| {
        Arc::new(Layout::parse("timestamp17", 0, AHEAD_DEFAULT).expect("a layout"))
    });
    Sequence::new(&name(&part.text('s')), (part.index == DATED).then(|| stamp.clone()))
}

impl Serials {
    fn given(&mut self, ask: &Ask, answer: &Allocation, now: u64) -> Checked {
        let Ask::Next { count, step, floor, request } = *ask else {
            return Err("the answer belongs to the call");
        };
        let known = request.and_then(|request| self.replays.get(&request));
        let known = known.filter(|(_, until)| now < *until).map(|(range, _)| *range);
        let Allocation::Given { range, replayed, .. } = *answer else {
            return Err("a request gets values");
        };
        if let Some(known) = known {
            return holds(replayed && known == range, "a repeat gets the same values");
        }
        holds(!replayed, "only a repeat is replayed")?;
        let first = range.first();
        holds(self.last.is_none_or(|last| first > last), "values grow")?;
        holds(floor.is_none_or(|floor| first >= floor), "not below the floor")?;
        if self.part.index != DATED {
            let next = self.last.unwrap_or(0) + step;
            let next = next.max(floor.unwrap_or(0));
            holds(first == next || self.may_skip && first > next, "no value is skipped")?;
        }
        holds((range.count, range.step) == (count, step), "count and step are as requested")?;
        (self.last, self.may_skip) = (Some(range.last), false);
        if let Some(request) = request {
            self.replays.insert(request, (range, now + REPLAY));
        }
        if self.replays.len() > 60 {
            self.replays.pop_first();
        }
        Ok(())
    }
}

impl Serials {
    fn moved(&mut self, ask: &Ask, moved: Floor) -> Checked {
        let Ask::Floor(floor) = *ask else { return Err("the answer belongs to the call") };
        let before = floor.saturating_sub(1);
        match self.last.filter(|last| *last > before) {
            Some(last) => holds(moved == Floor::NotAbove(last), "no floor moves a sequence back"),
            None => {
                self.last = Some(before);
                holds(moved == Floor::Applied(before), "a floor above the last value applies")
            }
        }
    }
}

impl Capability for Serials {
    type Ask = Ask;
    type Answer = Answer;

    fn new(part: Part) -> Serials {
        Serials { part, last: None, may_skip: false, requests: 0, replays: BTreeMap::new() }
    }

    fn part(&self) -> Part {
        self.part
    }

    fn ask(&mut self, random: &mut ChaCha8Rng, _: u64) -> Ask {
        if random.random_bool(0.1) {
            return Ask::Get;
        }
        if self.part.index != DATED && random.random_bool(0.05) {
            return Ask::Floor(
                (self.last.unwrap_or(0) + 9).saturating_sub(random.random_range(0..14)),
            );
        }
        self.requests += 1;
        let (mut step, mut floor) = (1, None);
        if self.part.index != DATED && random.random_bool(0.2) {
            step = random.random_range(1..5);
            floor = self.last.map(|last| (last + 3).saturating_sub(random.random_range(0..8)));
        }
        let request = random.random_bool(0.5).then_some(self.requests);
        Ask::Next { count: random.random_range(1..4), step, floor, request }
    }

    fn reads(&self) -> Vec<Ask> {
        vec![Ask::Get]
    }

    fn run(part: Part, ask: Ask, engine: Arc<Engine>) -> Answering<Answer> {
        let sequence = sequence(part);
        Box::pin(async move {
            Ok(match ask {
                Ask::Next { count, step, floor, request } => {
                    let request = request.map(|request| name(&text('r', request)));
                    let (reserve, confirmed) = (None, None);
                    let next =
                        NextSequence { sequence, count, step, floor, request, reserve, confirmed };
                    Answer::Given(engine.submit_merged(&next, deadline()).await?.outcome)
                }
                Ask::Floor(floor) => {
                    let set = SetSequenceFloor { sequence, floor, reserve: None };
                    Answer::Moved(engine.submit(&set, deadline()).await?.outcome)
                }
                Ask::Get => Answer::Last(
                    engine.submit(&GetSequence { sequence }, deadline()).await?.outcome,
                ),
            })
        })
    }

    fn check(&mut self, ask: &Ask, answer: &Answer, now: u64) -> Checked {
        match answer {
            Answer::Given(allocation) => self.given(ask, allocation, now),
            Answer::Moved(moved) => self.moved(ask, *moved),
            Answer::Last(last) => {
                let last = last.map(|(last, _)| last);
                let is_skipped = std::mem::take(&mut self.may_skip) && last > self.last;
                let known = std::mem::replace(&mut self.last, last);
                holds(last == known || is_skipped, "the view has the last value")
            }
        }
    }

    fn lose(&mut self) {
        self.may_skip = true;
    }

    fn is_change(answer: &Answer) -> bool {
        matches!(
            answer,
            Answer::Given(Allocation::Given { replayed: false, .. })
                | Answer::Moved(Floor::Applied(_))
        )
    }
}
