use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;

use super::*;
use crate::{
    admission::{AdmitTask, CompleteTask, Outcome, Pool, Settings, TaskName},
    names::Name,
    time::{Clock, Millis},
};

fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn engine() -> (Embedded, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(1_000_000));
    (Embedded::new(Clock::Stepped(now.clone())), now)
}

#[test]
fn a_step_sees_to_a_few_of_a_shards_partitions() {
    let (engine, _) = engine();
    for number in 0..10_000u64 {
        let key: Box<[u8]> = number.to_be_bytes().into();
        rate::Meter::table(&mut engine.shards[0].lock()).insert(key, rate::Meter::default());
    }
    let left = || rate::Meter::table(&mut engine.shards[0].lock()).len();
    let (mut steps, mut next) = (0, None);
    while left() > 0 {
        let before = left();
        next = engine.sweep_step(0, next.unwrap_or_default());
        assert!(before - left() <= 3 * LOOKED_MAX, "{} in one step", before - left());
        steps += 1;
        assert!(steps < 100, "{} are left", left());
    }
    assert!(steps > 5, "{steps} steps");
}

/// An engine with so many tasks of a pool that are to be forgotten.
fn crowd(tasks: usize) -> Embedded {
    let (engine, now) = engine();
    let settings =
        Settings { capacity: 1, retention: Millis::from_secs(60), ..Settings::default() };
    for number in 0..tasks {
        let (pool, device, task) = (name("p"), name(&format!("d{number}")), name("t"));
        let place = None;
        let admit = AdmitTask {
            pool: pool.clone(),
            device: device.clone(),
            task: Some(task.clone()),
            lease_duration: None,
            settings,
            place,
        };
        assert!(engine.run(&admit).unwrap().is_granted());
        let (name, outcome) = (TaskName { pool, device, task }, Outcome::Succeeded);
        let result = Bytes::new();
        engine.run(&CompleteTask { name, token: None, outcome, result, settings }).unwrap();
    }
    now.fetch_add(Millis::from_secs(61).micros(), Ordering::SeqCst);
    engine
}

/// The pool's shard, and how many tasks are left of it.
fn held(engine: &Embedded) -> (usize, usize) {
    let held = (0..SHARDS).find_map(|shard| {
        let mut tables = engine.shards[shard].lock();
        let pool = Pool::table(&mut tables).get(b"p")?;
        Some((shard, pool.tasks(Timestamp(0)).count()))
    });
    held.unwrap()
}

#[test]
fn a_pool_is_swept_until_nothing_is_left_of_it() {
    let engine = crowd(5000);
    let (shard, mut before) = held(&engine);
    assert_eq!(before, 5000);
    // No step does more than its part.
    let mut next = Some(Place::default());
    while let Some(place) = next {
        next = engine.sweep_step(shard, place);
        let left = held(&engine).1;
        assert!(before - left <= DROPPED_MAX);
        before = left;
    }
    assert_eq!(before, 0);
}

#[tokio::test]
async fn a_turn_of_a_crowd_ends_and_the_next_one_goes_on() {
    const TURN: usize = STEPS_MAX * DROPPED_MAX;
    let engine = crowd(TURN + 1000);
    let (shard, _) = held(&engine);
    let place = engine.sweep_turn(shard, Place::default()).await;
    assert!((1000..=1000 + DROPPED_MAX).contains(&held(&engine).1), "{} are left", held(&engine).1);
    assert_eq!(engine.sweep_turn(shard, place).await, Place::default());
    assert_eq!(held(&engine).1, 0);
}

/// A listing goes through a shard a part at a time, while names come and go.
#[test]
fn none_that_is_there_all_the_time_is_left_out() {
    const STAY: u64 = 500;
    let (engine, _) = engine();
    let key = |number: u64| -> Box<[u8]> { number.to_be_bytes().into() };
    let add = |number: u64| {
        let meter = rate::Meter::default();
        rate::Meter::table(&mut engine.shards[0].lock()).insert(key(number), meter);
    };
    (0..STAY).for_each(add);
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for _ in 0..20 {
                (STAY..5000).for_each(add);
                for number in STAY..5000 {
                    rate::Meter::table(&mut engine.shards[0].lock()).remove(&key(number));
                }
            }
        });
        while !churn.is_finished() {
            let mut seen = std::collections::BTreeSet::new();
            engine.each_part::<rate::Meter>(0, |table, part| {
                seen.extend(table.part(part).map(|(name, _)| name.clone()));
            });
            assert!((0..STAY).all(|number| seen.contains(&key(number))));
        }
    });
}
