//! Merged requests get the same values as consecutive requests.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;
use tollgate_core::{
    Decision, Joined,
    acknowledgement::Acknowledgement,
    names::Name,
    sequence::{Allocation, Counter, Layout, NextSequence, Reserve, Sequence},
    time::{Millis, Timestamp},
};

use crate::support::world::START;

const VALUE_MAX: u64 = i64::MAX as u64;

#[derive(Debug, Clone)]
struct Asked {
    count: u64,
    step: u64,
    floor: Option<u64>,
    request: Option<u8>,
}

fn asked(near: u64) -> impl Strategy<Value = Asked> {
    let count = prop_oneof![4 => 1..4u64, 1 => 1..=10_000u64];
    let step = prop_oneof![6 => Just(1u64), 2 => 1..4u64, 1 => 1..=1_000_000u64];
    let floor = near.saturating_sub(20)..near.saturating_add(40).min(VALUE_MAX);
    (count, step, prop::option::weighted(0.3, floor), prop::option::weighted(0.1, 0..4u8))
        .prop_map(|(count, step, floor, request)| Asked { count, step, floor, request })
}

fn decision(asked: &Asked, layout: Option<Arc<Layout>>, reserve: bool) -> NextSequence {
    let name = Name::parse(Bytes::from_static(b"order")).unwrap();
    let request = asked.request.map(|request| Name::parse(vec![b'a' + request].into()).unwrap());
    NextSequence {
        sequence: Sequence::new(&name, layout),
        count: asked.count,
        step: asked.step,
        floor: asked.floor,
        request,
        reserve: reserve.then_some(Reserve { block: 5, acknowledgement: Acknowledgement::NONE }),
        confirmed: None,
    }
}

/// Decides requests as the coalescer does: merges adjacent requests, and divides the outcome.
fn decide_joined(
    decisions: &[NextSequence],
    counter: &mut Counter,
    now: Timestamp,
) -> Vec<Allocation> {
    let mut outcomes = Vec::new();
    let mut rest = decisions;
    while let Some(first) = rest.first() {
        let mut head = first.clone();
        let size = 1 + rest[1..].iter().take_while(|next| head.join(next)).count();
        let (joined, behind) = rest.split_at(size);
        rest = behind;
        let outcome = head.decide(counter, now);
        match NextSequence::split(&outcome, joined).filter(|_| size > 1) {
            Some(parts) => outcomes.extend(parts),
            None if size == 1 => outcomes.push(outcome),
            None => outcomes.extend(joined.iter().map(|one| one.decide(counter, now))),
        }
    }
    outcomes
}

proptest! {
    #[test]
    fn joined_requests_equal_separate_requests(
        (near, requests) in prop_oneof![
            Just(0u64), Just(100), Just((1 << 53) - 10), Just(VALUE_MAX - 60_000), Just(VALUE_MAX - 20)
        ].prop_flat_map(|near| (Just(near), prop::collection::vec(asked(near), 1..12))),
        reserve in any::<bool>(),
    ) {
        check(near, &requests, None, reserve)?;
    }

    #[test]
    fn joined_requests_equal_separate_requests_in_a_calendar(
        requests in prop::collection::vec(asked(9497 * 999), 1..12),
        back in 0..10u64,
    ) {
        // The clock is in day 9,497 since 2000. Floors are near the first number of that day, and
        // numbers may be up to `back` days ahead.
        let layout = Layout::parse("{yyyyMMdd}{n:03}", 0, Millis(back * 86_400_000)).unwrap();
        check(0, &requests, Some(&Arc::new(layout)), false)?;
    }
}

fn check(
    near: u64,
    requests: &[Asked],
    layout: Option<&Arc<Layout>>,
    reserve: bool,
) -> Result<(), TestCaseError> {
    let now = Timestamp(START);
    let all: Vec<NextSequence> =
        requests.iter().map(|asked| decision(asked, layout.cloned(), reserve)).collect();
    let (mut one, mut other) = (Counter::default(), Counter::default());
    if near > 0 {
        let start = Asked { count: 1, step: 1, floor: Some(near), request: None };
        for counter in [&mut one, &mut other] {
            decision(&start, None, false).decide(counter, now);
        }
    }
    let apart: Vec<Allocation> = all.iter().map(|ask| ask.decide(&mut one, now)).collect();
    let joined = decide_joined(&all, &mut other, now);
    prop_assert_eq!(&apart, &joined);
    let mut last = None;
    for (allocation, asked) in apart.iter().zip(requests) {
        let Allocation::Given { range, replayed: false, .. } = allocation else { continue };
        prop_assert!(last < Some(range.first()) && asked.floor <= Some(range.first()));
        prop_assert!(range.last <= VALUE_MAX);
        prop_assert_eq!(range.values().count() as u64, asked.count);
        last = Some(range.last);
    }
    Ok(())
}
