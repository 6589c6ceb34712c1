use std::{collections::BTreeSet, ops::Bound};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

fn name(number: u64) -> Member {
    Member::from(&number.to_be_bytes()[..])
}

/// Compares with a tree of the same entries, counted one by one.
fn check(ends: &ExpiryIndex, model: &BTreeSet<End>, now: Timestamp, entry: &End) {
    let later = |end: &&End| end.0 > now;
    assert_eq!(ends.len(), model.len());
    assert_eq!(ends.to_come(), model.iter().filter(later).count());
    assert_eq!(ends.first(), model.first());
    let (is_there, has_ended) = (model.contains(entry), entry.0 <= now);
    assert_eq!(ends.contains(entry.0, &entry.1), is_there);
    assert_eq!(ends.has_ended(entry.0, &entry.1), is_there && has_ended);
    let from = if is_there { entry.clone() } else { (entry.0, Member::from(&[][..])) };
    let rest: Vec<_> =
        model.range((Bound::Excluded(from), Bound::Unbounded)).filter(later).collect();
    assert_eq!(ends.after(entry.0, &entry.1).collect::<Vec<_>>(), rest);
    let nth = rest.len() / 2;
    assert_eq!(ends.nth(nth), model.iter().filter(later).nth(nth));
    assert!(ends.chunks.iter().all(|chunk| {
        !chunk.ends.is_empty() && chunk.ends.len() <= CHUNK && chunk.last == last(&chunk.ends)
    }));
}

#[test]
fn the_index_agrees_with_a_tree() {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let (mut ends, mut model, mut now) = (ExpiryIndex::default(), BTreeSet::new(), Timestamp(0));
    for step in 0..60_000u64 {
        // The number of entries grows for a while, then falls for a while.
        let grows = step / 10_000 % 2 == 0;
        let end = Timestamp(now.0 + random.random_range(0..500));
        let entry = (end, name(random.random_range(0..8)));
        if random.random_bool(if grows { 0.9 } else { 0.2 }) {
            ends.insert(end, entry.1.clone());
            model.insert(entry.clone());
        } else if let Some(entry) = model.range(&entry..).next().cloned() {
            assert!(ends.remove(entry.0, &entry.1));
            model.remove(&entry);
        } else {
            assert!(!ends.remove(end, &entry.1));
        }
        if random.random_bool(0.1) {
            // A clock that is set back is counted correctly too.
            let passed = random.random_range(-20..30);
            now = Timestamp(now.0.saturating_add_signed(passed));
        }
        ends.count(now);
        if random.random_bool(0.05) {
            let first = model.first().filter(|first| first.0 <= now).cloned();
            if let Some(first) = &first {
                model.remove(first);
            }
            assert_eq!(ends.pop(now), first);
        }
        if step % 100 == 0 {
            check(&ends, &model, now, &entry);
        }
    }
    assert!(ends.chunks.len() > 1, "{} in one chunk", ends.len());
    let again: ExpiryIndex = model.iter().cloned().collect();
    assert!(again.after(Timestamp(0), &[]).eq(&model));
}

#[test]
fn counting_many_expired_entries_visits_few_chunks() {
    let mut ends = ExpiryIndex::default();
    for task in 0..100_000 {
        ends.insert(Timestamp(task), name(task));
    }
    assert!(ends.chunks.len() <= 100_000 / CHUNK + 1);
    ends.count(Timestamp(70_000));
    assert_eq!((ends.len(), ends.to_come()), (100_000, 29_999));
    // The capacity shrinks with the number of entries.
    for task in (0..100_000).filter(|task| task % 100 > 0) {
        assert!(ends.remove(Timestamp(task), &name(task)));
    }
    assert_eq!((ends.len(), ends.to_come()), (1000, 299));
    let room: usize = ends.chunks.iter().map(|chunk| chunk.ends.capacity()).sum();
    assert!(ends.chunks.len() < 30 && room < 8000, "{} {room}", ends.chunks.len());
}

/// The fuzzer found this: a data directory with an entry at the time of the first count.
#[test]
fn entries_of_time_zero_are_counted() {
    let entries: BTreeSet<End> = (0..3).map(|number| (Timestamp(number), name(number))).collect();
    let mut ends: ExpiryIndex = entries.iter().cloned().collect();
    check(&ends, &entries, Timestamp(0), &(Timestamp(0), name(0)));
    ends.count(Timestamp(1));
    assert_eq!(ends.to_come(), 1);
    assert!(ends.pop(Timestamp(1)).is_some());
    assert!(ends.pop(Timestamp(1)).is_some());
    assert_eq!((ends.to_come(), ends.len()), (1, 1));
}
