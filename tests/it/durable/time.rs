//! The clock of an engine with a data directory, over restarts: it never goes back, and no lease
//! ends early.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use tollgate_core::{
    lock::{AcquireLock, Acquisition, GetLock, ReleaseLock},
    names::Name,
    sequence::{Layout, NextSequence, Sequence},
    time::{AHEAD, Clock, Millis, Timestamp, monotonic},
};
use tollgate_engine::{
    Engine,
    embedded::{Disk, Durability, Embedded},
};

use crate::support::{process::TempFolder, world::START};

const DAY: u64 = 86_400_000_000;

/// An engine with a data directory, on a clock that the test sets.
struct Kept {
    engine: Engine,
    now: Arc<AtomicU64>,
}

impl Kept {
    fn open(folder: &TempFolder, now: u64) -> Kept {
        let now = Arc::new(AtomicU64::new(now));
        let disk = Disk::directory(folder.path()).unwrap();
        let clock = Clock::Stepped(now.clone());
        let engine = Embedded::open(clock, disk, Durability::Always).unwrap();
        Kept { engine: Engine::Embedded(engine), now }
    }

    async fn acquire(&self, owner: &str, length: Millis) -> Acquisition {
        let (name, owner) = (name("nightly"), name(owner));
        let decision = AcquireLock { name, owner, lease_duration: length, waiting: None };
        self.engine.store(&decision, monotonic() + Duration::from_secs(30)).await.unwrap()
    }

    fn advance(&self, micros: u64) {
        self.now.fetch_add(micros, Ordering::SeqCst);
    }
}

fn name(text: &str) -> Name {
    Name::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn next(sequence: &str, layout: &str) -> NextSequence {
    let layout = Layout::parse(layout, 0, Millis::from_secs(86_400)).unwrap();
    NextSequence {
        sequence: Sequence::new(&name(sequence), Some(Arc::new(layout))),
        count: 1,
        step: 1,
        floor: None,
        request: None,
        reserve: None,
        confirmed: None,
    }
}

impl Kept {
    async fn stamp(&self) -> u64 {
        let next = next("stamp", "timestamp17");
        let deadline = monotonic() + Duration::from_secs(30);
        match self.engine.store(&next, deadline).await.unwrap() {
            tollgate_core::sequence::Allocation::Given { range, .. } => range.last,
            other => panic!("{other:?}"),
        }
    }

    async fn holder(&self) -> Option<Timestamp> {
        let get = GetLock { name: name("nightly") };
        let view = self.engine.store(&get, monotonic() + Duration::from_secs(30)).await.unwrap();
        view.holder.map(|holder| holder.lease.expire)
    }
}

fn lease(acquired: Acquisition) -> tollgate_core::lease::Lease {
    match acquired {
        Acquisition::Acquired { lease, .. } => lease.value,
        other => panic!("{other:?}"),
    }
}

/// The system clock is a day behind at the second start.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_back_by_a_day_frees_nothing_early_and_repeats_no_serial() {
    let folder = TempFolder::new();
    let first = Kept::open(&folder, START);
    let held = lease(first.acquire("one", Millis::from_secs(60)).await);
    let stamp = first.stamp().await;
    first.advance(10_000_000);
    assert_eq!(first.holder().await, Some(held.expire));
    drop(first);

    let second = Kept::open(&folder, START - DAY);
    // A little less than the remaining time of the lease.
    second.advance(49_000_000);
    assert_eq!(second.holder().await, Some(held.expire), "the lease has not ended yet");
    second.advance(1_000_000 + AHEAD.micros());
    assert_eq!(second.holder().await, None, "the lease has ended on time, not a day later");
    let next = lease(second.acquire("two", Millis::from_secs(60)).await);
    assert!(next.token > held.token);
    assert!(next.expire.0 - next.grant.0 == 60_000_000, "the lease has its length");
    let later = second.stamp().await;
    assert!(later > stamp, "{later} after {stamp}");
}

/// At each start the system clock is behind the stored time. Tokens and stamps must not repeat.
#[tokio::test(flavor = "multi_thread")]
async fn no_instant_is_used_twice() {
    let folder = TempFolder::new();
    let mut last = (0, 0);
    // The system clock of each start is a second behind the previous start.
    for start in 0..5 {
        let kept = Kept::open(&folder, START - start * 1_000_000);
        for owner in ["one", "two"] {
            let lease = lease(kept.acquire(&format!("{owner}{start}"), Millis(1)).await);
            let stamp = kept.stamp().await;
            assert!(lease.token > last.0 && stamp > last.1, "{start}: {lease:?} after {last:?}");
            last = (lease.token, stamp);
            kept.advance(2_000);
        }
        assert!(kept.stamp().await > last.1);
        last.1 = kept.stamp().await;
    }
}

/// Each process is killed before its tokens are synced. The next one must not return a token that
/// was returned before.
#[tokio::test]
async fn a_returned_token_is_never_returned_again_after_a_loss() {
    let folder = TempFolder::new();
    let (mut last, mut waited) = (0, Vec::new());
    for start in 0..4 {
        // The system clock is behind the previous start, so time continues from the mark.
        let now = Arc::new(AtomicU64::new(START - start * 1_000_000));
        let disk = Disk::directory(folder.path()).unwrap();
        let opened = Embedded::open_unwritten(Clock::Stepped(now), disk, Durability::None, 7);
        let (engine, mut writer) = opened.unwrap();
        let engine = Engine::Embedded(engine);
        let deadline = monotonic() + Duration::from_secs(30);
        for owner in ["one", "two", "three"] {
            let (lock, owner) = (name("nightly"), name(owner));
            let length = Millis::from_secs(60);
            let (name, waiting) = (lock.clone(), None);
            let acquire =
                AcquireLock { name, owner: owner.clone(), lease_duration: length, waiting };
            // An acquisition that waits for the disk is not answered, and is lost.
            if let Some(acquired) = engine.store(&acquire, deadline).now_or_never() {
                let token = lease(acquired.unwrap()).token;
                assert!(token > last, "{start}: {token} after {last}");
                last = token;
            }
            let release = ReleaseLock { name: lock, owner, token: None };
            let _ = engine.store(&release, deadline).now_or_never();
        }
        // A call that waits is answered after one write.
        let (lock, owner, lease_duration) = (&format!("other{start}"), name("four"), Millis(1));
        let other = AcquireLock { name: name(lock), owner, lease_duration, waiting: None };
        let mut giving = std::pin::pin!(engine.store(&other, deadline));
        waited.push((&mut giving).now_or_never().is_none());
        if start == 2 {
            writer.write();
            assert!(giving.now_or_never().is_some_and(|answer| answer.is_ok()));
        }
    }
    assert_eq!(waited, [false, true, true, true], "a start waits only if it could repeat tokens");
}

/// The system clock is a day ahead at the second start, and right at the third.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_set_forward_is_believed_and_never_reversed() {
    let folder = TempFolder::new();
    let first = Kept::open(&folder, START);
    let held = lease(first.acquire("one", Millis::from_secs(60)).await);
    // A running engine ignores steps of the system clock, so only the starts have other clocks.
    drop(first);
    let second = Kept::open(&folder, START + DAY);
    assert_eq!(second.holder().await, None);
    let next = lease(second.acquire("two", Millis::from_secs(60)).await);
    assert!(next.token > held.token && next.grant.0 >= START + DAY);
    drop(second);
    let third = Kept::open(&folder, START);
    assert_eq!(third.holder().await, Some(next.expire), "time does not go back");
    third.advance(61_000_000 + AHEAD.micros());
    assert_eq!(third.holder().await, None, "time continues after the third start");
}

/// Under `none`, with a system clock that is right or set back by up to 1.5 s. A synced lease
/// ends on time by the system clock, and lost tokens and stamps are not returned again.
#[tokio::test]
async fn h20_a_kill_shifts_no_time_and_repeats_no_token_or_timestamp() {
    for back in [0, 500_000, 1_500_000] {
        let folder = TempFolder::new();
        let open = |at: u64| {
            let now = Arc::new(AtomicU64::new(at));
            let disk = Disk::directory(folder.path()).unwrap();
            let source = Clock::Stepped(now.clone());
            let opened = Embedded::open_unwritten(source, disk, Durability::None, 7);
            let (engine, writer) = opened.unwrap();
            (Kept { engine: Engine::Embedded(engine), now }, writer)
        };
        let (kept, mut writer) = open(START);
        let held = lease(kept.acquire("one", Millis::from_secs(4)).await);
        writer.write();
        kept.advance(900_000);
        let (lost, stamp) = (kept.told("lost").await.unwrap(), kept.stamp().await);
        drop((kept, writer));

        // A second passes until the restart. The system clock is set back by `back`.
        let system = START + 1_900_000 - back;
        let (kept, mut writer) = open(system);
        let Engine::Embedded(engine) = &kept.engine else { unreachable!("it is embedded") };
        assert_eq!(engine.now(), Timestamp(system.max(START + 1)), "{back}");
        assert!(kept.told("lost").await.is_none_or(|token| token > lost), "{back}");
        assert!(kept.told("held").await.is_none_or(|token| token > lost), "{back}");
        writer.write();
        let mut later = std::pin::pin!(kept.stamp());
        let early = (&mut later).now_or_never();
        writer.write();
        let later = match early {
            Some(later) => later,
            None => later.await,
        };
        assert!(later > stamp, "{back}: {later} after {stamp}");
        kept.advance(held.expire.0 - engine.now().0 - 1);
        writer.write();
        assert_eq!(kept.holder().await, Some(held.expire), "{back}: not before its end");
        kept.advance(1);
        writer.write();
        assert_eq!(kept.holder().await, None, "{back}: not after it");
    }
}

impl Kept {
    /// Acquires a free lock. Returns the token, or `None` if the answer waits for the disk.
    async fn told(&self, lock: &str) -> Option<u64> {
        let (name, owner) = (name(lock), name("anybody"));
        let acquire = AcquireLock { name, owner, lease_duration: Millis(1), waiting: None };
        let deadline = monotonic() + Duration::from_secs(30);
        let acquired = self.engine.store(&acquire, deadline).now_or_never()?;
        Some(lease(acquired.unwrap()).token)
    }
}
