//! Both executors of every sequence decision on the same random histories with stepped time. The
//! clock is also set back.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use rand::{Rng, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    acknowledgement::Acknowledgement,
    names::Name,
    record::Source,
    sequence::{
        Allocation, Counter, DATED_STEP_MAX, Floor, GetSequence, Layout, NextSequence, Reserve,
        ReserveSequence, ReservedBlock, Sequence, SetSequenceFloor,
    },
    time::Millis,
};

use crate::support::twins::{States, Twins, play};

const STEPS: usize = 15_000;
/// Steps between two copies of a sequence.
const COPY_EVERY: usize = 500;
const SEQUENCES: usize = 14;
const SEEDS: [u64; 3] = [1, 2, 3];
const VALUE_MAX: u64 = i64::MAX as u64;
const DAY: u64 = 86_400_000_000;
const PART: u64 = 1_000_000_000_000_000;
const LAYOUTS: [&str; 9] = [
    "{n:06}",
    "timestamp17",
    "{yyMMddHHmmssSSS}{n:01}",
    "{yyyyMMddHHmmss}{n:01}",
    "{yyyyMMddHHmm}{n:02}",
    "{yyyyMMddHH}{n:09}",
    "{yyyyMMdd}{n:01}",
    "{yyMM}{n:02}",
    "{yyyy}{n:01}",
];

struct History {
    twins: Twins,
    counters: States<Counter>,
    random: ChaCha8Rng,
    sequences: Vec<(Sequence, Option<Reserve>)>,
    /// The last value that each sequence gave out, as on the wire.
    given: BTreeMap<usize, u64>,
    outcomes: BTreeMap<&'static str, usize>,
    /// The epoch that Redis reported last; empty before the first reservation.
    epoch: Vec<u8>,
}

#[tokio::test]
async fn both_executors_of_every_sequence_decision_agree() {
    play(&SEEDS, history).await;
}

/// The highest value of a short serial is below the largest step.
#[tokio::test]
async fn a_repeat_with_a_step_above_the_highest_value_gets_the_same_value() {
    let (twins, mut counters) = (Twins::new().await, States::new());
    let layout = Layout::parse("{yyyyMMdd}{n:01}", 0, Millis(0)).unwrap();
    let name = |text: &'static str| Name::parse(Bytes::from(text)).unwrap();
    let next = NextSequence {
        sequence: Sequence::new(&name("short"), Some(Arc::new(layout))),
        count: 1,
        step: DATED_STEP_MAX,
        floor: None,
        request: Some(name("request")),
        reserve: None,
        confirmed: None,
    };
    assert!(next.sequence.value_max() < next.step);
    for is_repeat in [false, true] {
        let given = twins.agree(&mut counters, &next, "short").await;
        let is_replayed =
            matches!(given, Allocation::Given { replayed, .. } if replayed == is_repeat);
        assert!(is_replayed, "{given:?}");
    }
}

async fn history(seed: u64) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let sequences = (0..SEQUENCES).map(|number| sequence(number, &mut random)).collect();
    let mut history = History {
        twins: Twins::new().await,
        counters: States::new(),
        random,
        sequences,
        given: BTreeMap::new(),
        outcomes: BTreeMap::new(),
        epoch: Vec::new(),
    };
    if seed == 3 {
        // Starts late enough for the history to reach the end of the calendar.
        history.twins.time.advance(56 * 365 * DAY).await;
    }
    for step in 0..STEPS {
        let context = format!("seed {seed}, step {step}");
        history.pass_time().await;
        history.decide(&context).await;
        if step % COPY_EVERY == 0 {
            history.copy(step, &context).await;
        }
    }
    for (outcome, least) in [
        ("given", 1000),
        ("replayed", 30),
        ("out of range", 10),
        ("too far", 20),
        ("unreserved", 100),
        ("floor applied", 100),
        ("floor not above", 50),
        ("floor too far", 5),
        ("copied", 20),
    ] {
        let met = history.outcomes.get(outcome).copied().unwrap_or_default();
        assert!(met >= least, "seed {seed}: {:?}", history.outcomes);
    }
}

fn sequence(number: usize, random: &mut ChaCha8Rng) -> (Sequence, Option<Reserve>) {
    let name = Name::parse(Bytes::from(format!("sequence {number}"))).unwrap();
    // The first nine sequences have one layout each.
    let pattern = LAYOUTS.get(number).or_else(|| LAYOUTS.choose(random)).unwrap();
    let ahead = *[0, 1, 1000, 86_400_000, 40 * 86_400_000].choose(random).unwrap();
    let offset = random.random_range(-840..=840);
    let layout = Layout::parse(pattern, offset, Millis(ahead)).unwrap();
    let layout = random.random_bool(0.8).then(|| Arc::new(layout));
    let reserve = Reserve { block: 5, acknowledgement: Acknowledgement::NONE };
    (Sequence::new(&name, layout), random.random_bool(0.3).then_some(reserve))
}

impl History {
    async fn pass_time(&mut self) {
        let time = &self.twins.time;
        let now = time.now();
        let unit = *[1000, 1_000_000, 60_000_000, DAY / 24, DAY].choose(&mut self.random).unwrap();
        match self.random.random_range(0..1000) {
            0..600 => {}
            600..800 => time.advance(self.random.random_range(0..3000)).await,
            800..900 => time.advance(self.random.random_range(0..100_000_000)).await,
            // Steps to a boundary of a random unit, or to 1 µs before it.
            900..960 => {
                let next = (now / unit + 1) * unit - self.random.random_range(0..2);
                time.advance(next - now).await;
            }
            960..970 => time.advance(self.random.random_range(0..40 * DAY)).await,
            970..985 => time.set_back(self.random.random_range(0..5000)).await,
            985..998 => time.set_back(self.random.random_range(0..3 * DAY)).await,
            _ => time.advance(self.random.random_range(0..400) * DAY).await,
        }
    }

    async fn decide(&mut self, context: &str) {
        let index = self.random.random_range(0..self.sequences.len());
        match self.random.random_range(0..20) {
            0 => {
                self.last(index).await;
            }
            1 => self.reserve(index, context).await,
            2 => self.set_floor(index, context).await,
            _ => self.next(index, context).await,
        }
    }

    /// Copies a sequence by export and import.
    async fn copy(&mut self, step: usize, context: &str) {
        let (from, _) = self.sequences.choose(&mut self.random).unwrap();
        let replays = (b'a'..b'd').map(|request| Source::new(b'r', &[request]));
        let sources: Vec<Source> = replays.chain([Source::new(b'c', b"")]).collect();
        let (from, to) = (from.partition().to_vec(), format!("copy {step}"));
        let names = [&from[..], to.as_bytes()];
        let copied = self.twins.copy(&mut self.counters, names, &sources, context).await;
        *self.outcomes.entry("copied").or_default() += copied;
    }

    async fn reserve(&mut self, index: usize, context: &str) {
        let last = self.last(index).await;
        let sequence = self.sequences[index].0.clone();
        let most = sequence.value_max();
        let needed = last.saturating_add(self.random.random_range(1..20)).min(most);
        let ahead = match self.random.random_range(0..4) {
            0 => self.random.random_range(0..1_000_000),
            _ => self.random.random_range(0..20),
        };
        let decision = ReserveSequence {
            sequence,
            last: needed,
            ahead,
            acknowledgement: Acknowledgement::NONE,
        };
        let (native, redis) = self.twins.both(&mut self.counters, &decision).await;
        let redis = redis.unwrap();
        // Only Redis has an epoch.
        assert_eq!(native.upto, redis.upto, "{context}: {decision:?}");
        self.epoch = redis.epoch;
    }

    async fn set_floor(&mut self, index: usize, context: &str) {
        let last = self.last(index).await;
        let random = &mut self.random;
        let (sequence, reserve) = &self.sequences[index];
        let floor = match random.random_range(0..100) {
            0..60 => last.saturating_add(random.random_range(0..30)).saturating_sub(8),
            60..85 => last.saturating_add(random.random_range(0..3_000_000)),
            85..95 => (last / PART + 1) * PART - random.random_range(0..3),
            95 if index.is_multiple_of(4) => VALUE_MAX - random.random_range(0..20),
            _ => random.random_range(0..3),
        };
        // Only every fourth sequence may reach its end, as in `next`.
        let is_free = index.is_multiple_of(4) || sequence.dating().is_some();
        let most = if is_free { sequence.value_max() } else { 1 << 60 };
        let set = SetSequenceFloor {
            sequence: sequence.clone(),
            floor: floor.min(most),
            reserve: reserve.filter(|_| random.random_bool(0.95)),
        };
        let kind = match self.twins.agree(&mut self.counters, &set, context).await {
            Floor::Applied(_) => "floor applied",
            Floor::NotAbove(_) => "floor not above",
            Floor::TooFarAhead => "floor too far",
        };
        *self.outcomes.entry(kind).or_default() += 1;
    }

    /// Returns the last value; 0 if there is none.
    async fn last(&mut self, index: usize) -> u64 {
        let get = GetSequence { sequence: self.sequences[index].0.clone() };
        let last = self.twins.agree(&mut self.counters, &get, "last").await;
        last.map_or(0, |(last, _)| last)
    }

    async fn next(&mut self, index: usize, context: &str) {
        let last = self.last(index).await;
        let random = &mut self.random;
        let (sequence, reserve) = &self.sequences[index];
        let dated = sequence.dating().is_some();
        let count = match random.random_range(0..10) {
            0..6 => 1,
            6..9 => random.random_range(1..12),
            _ => random.random_range(1..=10_000),
        };
        let step = match random.random_range(0..100) {
            0..80 => 1,
            80..95 => random.random_range(1..12),
            95..99 => random.random_range(1..=1_000_000),
            _ if dated => 1,
            _ => random.random_range(1..=VALUE_MAX / count),
        };
        let floor = match random.random_range(0..100) {
            0..75 => None,
            75..88 => Some(last.saturating_add(random.random_range(0..8)).saturating_sub(3)),
            88..92 => Some(last.saturating_add(random.random_range(0..3_000_000))),
            92..94 => Some((1 << 53) - random.random_range(0..10)),
            // Near a multiple of 10^15, where the two parts of a stored value meet.
            94..96 => Some((last / PART + 1) * PART - random.random_range(1..4)),
            // Only every fourth sequence may reach its end, since no other case can follow.
            96 if index.is_multiple_of(4) => Some(VALUE_MAX - random.random_range(0..20)),
            96 | 97 => Some(random.random_range(0..=VALUE_MAX)),
            _ => Some(0),
        };
        let floor = floor.filter(|floor| index.is_multiple_of(4) || dated || *floor < 1 << 60);
        let request = random.random_bool(0.3).then(|| random.random_range(b'a'..b'd'));
        let most = sequence.value_max();
        let upto = last.saturating_add(random.random_range(0..20)).min(most);
        let known =
            random.random_bool(0.3).then(|| ReservedBlock { upto, epoch: self.epoch.clone() });
        // The epoch is known only after a reservation.
        let confirmed = known.filter(|known| !known.epoch.is_empty());
        // Sometimes the server has no entry for the sequence in its configuration.
        let reserve = reserve.filter(|_| random.random_bool(0.95));
        let decision = NextSequence {
            sequence: sequence.clone(),
            count,
            step,
            floor: floor.map(|floor| floor.min(VALUE_MAX)),
            request: request.map(|byte| Name::parse(vec![byte].into()).unwrap()),
            reserve,
            confirmed,
        };
        let outcome = self.twins.agree(&mut self.counters, &decision, context).await;
        self.check(index, &decision, &outcome, context);
    }

    /// Checks the invariants of an answer, and counts its kind.
    fn check(&mut self, index: usize, asked: &NextSequence, outcome: &Allocation, context: &str) {
        let kind = match outcome {
            Allocation::Given { replayed: true, .. } => "replayed",
            Allocation::Given { range, .. } => {
                let dating = self.sequences[index].0.dating();
                let wire = |value| dating.map_or(value, |dating| dating.to_wire(value));
                let (first, last) = (wire(range.first()), wire(range.last));
                let before = self.given.insert(index, last);
                assert!(
                    before < Some(first) && first <= last,
                    "{context}: {first} after {before:?}"
                );
                assert!(asked.floor <= Some(range.first()), "{context}: below the floor");
                assert_eq!((range.count, range.step), (asked.count, asked.step), "{context}");
                "given"
            }
            Allocation::OutOfRange => "out of range",
            Allocation::TooFarAhead { .. } => "too far",
            Allocation::Unreserved { .. } => "unreserved",
        };
        *self.outcomes.entry(kind).or_default() += 1;
    }
}
