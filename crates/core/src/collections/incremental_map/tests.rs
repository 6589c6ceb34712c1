use std::iter;

use super::*;

fn key(number: u64) -> Box<[u8]> {
    number.to_be_bytes().into()
}

#[test]
fn segments_stay_small_as_the_map_grows() {
    let mut map = IncrementalMap::default();
    let mut largest = 0;
    for number in 0..100_000u64 {
        assert_eq!(map.insert(key(number), number), None);
        if number % 1000 == 0 {
            let sizes = (0..map.parts()).map(|part| map.at(part).capacity());
            largest = sizes.max().unwrap_or(0).max(largest);
        }
    }
    assert!(largest <= 4 * FULL, "room for {largest}");
    assert_eq!((map.len(), map.iter().count()), (100_000, 100_000));
    assert_eq!(map.insert(key(7), 8), Some(7));
    for number in 8..100_000 {
        assert_eq!(map.get(&key(number)), Some(&number));
        assert_eq!(map.remove(&key(number)), Some(number));
        assert_eq!(map.get(&key(number)), None);
    }
    assert_eq!((map.len(), map.parts()), (8, 1));
    assert!(map.at(0).capacity() < 100);
    assert_eq!(map.get_mut(&key(7)), Some(&mut 8));
}

#[test]
fn a_walk_by_segments_visits_every_entry() {
    let mut map: IncrementalMap<_, _> = IncrementalMap::default();
    for number in 0..10_000u64 {
        map.insert(key(number), number);
    }
    let (mut part, mut seen) = (0, 0);
    let mut gone = Vec::new();
    while part < map.parts() {
        gone.extend(map.retain(part, |_, number| {
            seen += 1;
            *number % 2 == 0
        }));
        part += 1;
    }
    assert_eq!(gone.len(), 5000);
    assert!(gone.iter().all(|pair| pair.1 % 2 == 1 && pair.0 == key(pair.1)));
    assert_eq!((seen, map.len(), map.iter().count()), (10_000, 5000, 5000));
    map.retain(0, |_, _| false);
    for number in 0..10_000 {
        map.remove(&key(number));
    }
    assert!(map.is_empty() && map.parts() == 1);
}

#[test]
fn a_default_is_inserted_once_while_the_map_grows() {
    let mut map: IncrementalMap<Box<[u8]>, u64> = IncrementalMap::default();
    for round in 1..=3 {
        for number in 0..10_000u64 {
            *map.get_or_default(&key(number)) += number;
        }
        assert_eq!((map.len(), map.iter().count()), (10_000, 10_000));
        assert!((0..10_000).all(|number| map.get(&key(number)) == Some(&(round * number))));
    }
    assert!(map.parts() > 10);
}

#[test]
fn warming_changes_nothing() {
    let mut map: IncrementalMap<_, _> = IncrementalMap::default();
    for number in (0..2000u64).step_by(2) {
        map.insert(key(number), number);
    }
    map.warm((0..2000).map(key));
    map.warm(iter::empty::<Box<[u8]>>());
    assert_eq!(map.len(), 1000);
    assert!((0..2000).all(|number| map.get(&key(number)).is_some() == (number % 2 == 0)));
}
