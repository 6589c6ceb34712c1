use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use tokio::time::timeout;

use super::{
    super::{Disk, Durability},
    *,
};
use tollgate_core::{
    admission::{AdmitTask, CompleteTask, Outcome, Pool, Settings, TaskName},
    names::Name,
    record::Changes,
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
fn a_step_sweeps_a_few_of_a_shards_partitions() {
    let (engine, _) = engine();
    for number in 0..10_000u64 {
        let key: Box<[u8]> = number.to_be_bytes().into();
        tollgate_core::rate::Meter::table(&mut engine.shards[0].lock())
            .insert(key, tollgate_core::rate::Meter::default());
    }
    let left = || tollgate_core::rate::Meter::table(&mut engine.shards[0].lock()).len();
    let (mut steps, mut next) = (0, None);
    while left() > 0 {
        let before = left();
        let step = engine.sweep_step(0, next.unwrap_or_default(), None);
        assert!(step.dropped <= DROPPED_MAX, "{} in one step", step.dropped);
        assert_eq!(before - left(), step.dropped);
        next = step.next;
        steps += 1;
        assert!(steps < 100, "{} are left", left());
    }
    assert!(steps > 5, "{steps} steps");
}

/// Creates an engine with a pool that has this number of finished tasks whose retention is over.
fn crowd(tasks: usize) -> Embedded {
    let (engine, now) = engine();
    let settings =
        Settings { capacity: 1, retention: Millis::from_secs(60), ..Settings::default() };
    for number in 0..tasks {
        let (pool, device, task) = (name("p"), name(&format!("d{number}")), name("t"));
        let waiting = None;
        let admit = AdmitTask {
            pool: pool.clone(),
            device: device.clone(),
            task: Some(task.clone()),
            lease_duration: None,
            settings,
            waiting,
        };
        assert!(engine.run(&admit).unwrap().is_granted());
        let (name, outcome) = (TaskName { pool, device, task }, Outcome::Succeeded);
        let result = Bytes::new();
        engine.run(&CompleteTask { name, token: None, outcome, result, settings }).unwrap();
    }
    now.fetch_add(Millis::from_secs(61).micros(), Ordering::SeqCst);
    engine
}

/// Returns the shard of the pool, and its number of tasks.
fn held(engine: &Embedded) -> (usize, usize) {
    let held = (0..SHARDS).find_map(|shard| {
        let mut tables = engine.shards[shard].lock();
        let pool = Pool::table(&mut tables).get(b"p")?;
        Some((shard, pool.tasks(Timestamp(0)).count()))
    });
    held.unwrap()
}

#[test]
fn a_pool_is_swept_until_it_is_gone() {
    let engine = crowd(5000);
    let (shard, mut before) = held(&engine);
    assert_eq!(before, 5000);
    // No step exceeds its budget.
    let mut next = Some(SweepPosition::default());
    while let Some(waiting) = next {
        let step = engine.sweep_step(shard, waiting, None);
        let left = held(&engine).1;
        assert!(before - left <= DROPPED_MAX);
        assert_eq!(before - left, step.dropped);
        next = step.next;
        before = left;
    }
    assert_eq!(before, 0);
}

/// The same on a machine so slow that the time of each step is over when it starts.
#[test]
fn a_step_ends_when_its_time_is_over_but_makes_progress() {
    let engine = crowd(1000);
    let (shard, mut before) = held(&engine);
    let mut next = Some(SweepPosition::default());
    while let Some(waiting) = next {
        let step = engine.sweep_step(shard, waiting, Some(Duration::ZERO));
        let left = held(&engine).1;
        assert!(step.dropped < DROPPED_MAX / 4, "{} in one step", step.dropped);
        assert!(step.dropped > 0 || step.next.is_none(), "the step makes no progress");
        assert_eq!(before - left, step.dropped);
        next = step.next;
        before = left;
    }
    assert_eq!(before, 0);
}

#[tokio::test]
async fn a_pass_over_many_entries_ends_and_the_next_pass_continues() {
    let engine = crowd(QUARTER_MAX + 1000);
    let (shard, _) = held(&engine);
    // Another shard of the quarter also has work, and gets its steps in the same pass.
    let (other, key) = ((shard + 1) % SHARDS, b"key");
    let idle = tollgate_core::rate::Meter::default();
    tollgate_core::rate::Meter::table(&mut engine.shards[other].lock())
        .insert(key.as_slice().into(), idle);
    let mut places = vec![SweepPosition::default(); SHARDS];
    engine.sweep_quarter(&[shard, other], &mut places).await;
    let left = held(&engine).1;
    // The other shard's key counts as one of the entries dropped.
    assert!((1000 - DROPPED_MAX..=1001).contains(&left), "{left} are left");
    assert!(tollgate_core::rate::Meter::table(&mut engine.shards[other].lock()).is_empty());
    engine.sweep_quarter(&[shard], &mut places).await;
    assert_eq!(held(&engine).1, 0);
    assert_eq!(places, vec![SweepPosition::default(); SHARDS]);
}

#[tokio::test]
async fn a_pass_waits_while_the_disk_is_busy() {
    let folder = std::env::temp_dir().join(format!("tollgate-sweep-{}", std::process::id()));
    let (disk, clock) = (Disk::directory(&folder).unwrap(), Clock::Stepped(Arc::default()));
    let opened = Embedded::open_unwritten(clock, disk, Durability::Always, 7);
    let (engine, mut writer) = opened.unwrap();
    let quarter = [0, 1];
    let left = || {
        let len = |shard: &usize| {
            tollgate_core::rate::Meter::table(&mut engine.shards[*shard].lock()).len()
        };
        quarter.iter().map(len).sum::<usize>()
    };
    for shard in quarter {
        let key = shard.to_be_bytes().as_slice().into();
        tollgate_core::rate::Meter::table(&mut engine.shards[shard].lock())
            .insert(key, tollgate_core::rate::Meter::default());
    }
    let mut changes = Changes::default();
    changes.remove(&[b"none"]);
    while engine.has_room() {
        engine.journal().unwrap().push(changes.row());
    }
    let mut places = vec![SweepPosition::default(); SHARDS];
    let mut pass = pin!(engine.sweep_quarter(&quarter, &mut places));
    assert!(timeout(3 * ROOM_PAUSE, &mut pass).await.is_err());
    assert_eq!(left(), 2);
    writer.write();
    pass.await;
    assert_eq!(left(), 0);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A listing visits a shard segment by segment while names come and go.
#[test]
fn a_partition_that_exists_all_the_time_is_not_skipped() {
    const STAY: u64 = 500;
    let (engine, _) = engine();
    let key = |number: u64| -> Box<[u8]> { number.to_be_bytes().into() };
    let add = |number: u64| {
        let meter = tollgate_core::rate::Meter::default();
        tollgate_core::rate::Meter::table(&mut engine.shards[0].lock()).insert(key(number), meter);
    };
    (0..STAY).for_each(add);
    std::thread::scope(|scope| {
        let churn = scope.spawn(|| {
            for _ in 0..20 {
                (STAY..5000).for_each(add);
                for number in STAY..5000 {
                    tollgate_core::rate::Meter::table(&mut engine.shards[0].lock())
                        .remove(&key(number));
                }
            }
        });
        while !churn.is_finished() {
            let mut seen = std::collections::BTreeSet::new();
            engine.each_part::<tollgate_core::rate::Meter>(0, |table, part| {
                seen.extend(table.part(part).map(|(name, _)| name.clone()));
            });
            assert!((0..STAY).all(|number| seen.contains(&key(number))));
        }
    });
}
