use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc};

use super::*;
use tollgate_core::{
    names::Name,
    sequence::{Allocation, Counter, NextSequence, Range, Sequence},
    time::Timestamp,
};

/// Decides with the Rust rule, one batch for each permit, and reports the size of each batch.
struct Gate {
    counter: Mutex<Counter>,
    open: Semaphore,
    taken: mpsc::UnboundedSender<usize>,
}

impl DecideBatch<NextSequence> for Arc<Gate> {
    async fn decide_batch(&self, asked: Vec<NextSequence>, _: Instant) -> Batch<Allocation> {
        let _ = self.taken.send(asked.len());
        self.open.acquire().await.expect("never closed").forget();
        let mut counter = self.counter.lock().expect("no test panics in it");
        Ok(asked.iter().map(|one| Ok(one.decide(&mut counter, Timestamp(0)))).collect())
    }
}

const WAITING_MAX: usize = 512;

fn coalescer() -> Arc<Coalescer<NextSequence>> {
    Arc::new(Coalescer::new(Arc::new(Places::new(WAITING_MAX))))
}

fn one(step: u64, floor: Option<u64>) -> NextSequence {
    let name = Name::parse(Bytes::from_static(b"order")).expect("a name");
    NextSequence {
        sequence: Sequence::new(&name, None),
        count: 1,
        step,
        floor,
        request: None,
        reserve: None,
        confirmed: None,
    }
}

/// Starts a first decision alone, then the others while it is blocked. Returns all last values and
/// the sizes of the batches.
async fn together(others: Vec<NextSequence>) -> (Vec<Option<u64>>, Vec<usize>) {
    let (taken, mut sizes) = mpsc::unbounded_channel();
    let gate = Gate { counter: Mutex::default(), open: Semaphore::new(0), taken };
    let (gate, coalescer) = (Arc::new(gate), coalescer());
    let deadline = monotonic() + Duration::from_secs(60);
    let mut calls = Vec::new();
    for (index, asked) in [one(1, None)].into_iter().chain(others).enumerate() {
        let (own, gate) = (coalescer.clone(), gate.clone());
        calls.push(tokio::spawn(async move { own.run(gate, asked, deadline).await }));
        while coalescer.places.taken() < index && index > 0 {
            tokio::task::yield_now().await;
        }
        if index == 0 {
            assert_eq!(sizes.recv().await, Some(1));
        }
    }
    gate.open.add_permits(100);
    let mut lasts = Vec::new();
    for call in calls {
        lasts.push(match call.await.expect("no panic") {
            Ok(Allocation::Given { range, .. }) => Some(range.last),
            _ => None,
        });
    }
    assert!(coalescer.lock().lines.is_empty(), "no line is left");
    drop((coalescer, gate));
    let mut batches = vec![1];
    while let Some(size) = sizes.recv().await {
        batches.push(size);
    }
    (lasts, batches)
}

#[tokio::test]
async fn waiting_decisions_are_joined_in_order_of_arrival() {
    let (lasts, batches) = together((0..100).map(|_| one(1, None)).collect()).await;
    assert_eq!(lasts, (1..=101).map(Some).collect::<Vec<_>>());
    assert_eq!(batches, [1, 1]);
    // A different step or a higher floor is not merged, but decided in the same batch.
    let others = vec![one(1, None), one(5, None), one(5, None), one(1, Some(50)), one(1, None)];
    let (lasts, batches) = together(others).await;
    assert_eq!(lasts, [1, 2, 7, 12, 50, 51].map(Some));
    assert_eq!(batches, [1, 3]);
}

#[tokio::test]
async fn a_refused_batch_is_decided_call_by_call() {
    const MOST: u64 = i64::MAX as u64;
    let others = vec![one(1, Some(MOST - 1)), one(1, None), one(1, None), one(1, None)];
    let (lasts, batches) = together(others).await;
    assert_eq!(lasts, [Some(1), Some(MOST - 1), Some(MOST), None, None]);
    assert_eq!(batches, [1, 1, 4]);
}

/// Panics at the first batch.
struct Stumble(Mutex<bool>);

impl DecideBatch<NextSequence> for Arc<Stumble> {
    async fn decide_batch(&self, asked: Vec<NextSequence>, _: Instant) -> Batch<Allocation> {
        let first = !std::mem::replace(&mut *self.0.lock().expect("not held"), true);
        assert!(!first, "the first one panics");
        Ok(asked.iter().map(|_| Ok(Allocation::OutOfRange)).collect())
    }
}

#[tokio::test]
async fn a_task_that_panics_is_followed_by_another() {
    let (stumble, coalescer) = (Arc::new(Stumble(Mutex::default())), coalescer());
    let deadline = monotonic() + Duration::from_secs(60);
    // No mutex was locked at the panic.
    assert_eq!(
        coalescer.run(stumble.clone(), one(1, None), deadline).await,
        Err(Error::DeadlineExceeded)
    );
    assert_eq!(
        coalescer.run(stumble.clone(), one(1, None), deadline).await,
        Ok(Allocation::OutOfRange)
    );
}

#[tokio::test]
async fn a_cancelled_call_keeps_its_place_until_the_next_batch() {
    let (taken, mut sizes) = mpsc::unbounded_channel();
    let gate = Gate { counter: Mutex::default(), open: Semaphore::new(0), taken };
    let (gate, coalescer) = (Arc::new(gate), coalescer());
    let deadline = monotonic() + Duration::from_secs(60);
    let (first, own) = (coalescer.clone(), gate.clone());
    let first = tokio::spawn(async move { first.run(own, one(1, None), deadline).await });
    assert_eq!(sizes.recv().await, Some(1));
    for number in 1..=3 {
        let (gone, own) = (coalescer.clone(), gate.clone());
        let gone = tokio::spawn(async move { gone.run(own, one(1, None), deadline).await });
        while coalescer.places.taken() < number {
            tokio::task::yield_now().await;
        }
        gone.abort();
        assert!(gone.await.is_err());
    }
    assert_eq!(coalescer.places.taken(), 3);
    let taken: Vec<Place> = (3..WAITING_MAX).map_while(|_| coalescer.places.take()).collect();
    assert_eq!(taken.len(), WAITING_MAX - 3);
    assert_eq!(coalescer.run(gate.clone(), one(1, None), deadline).await, Err(Error::Overloaded));
    drop(taken);
    gate.open.add_permits(100);
    assert!(first.await.expect("no panic").is_ok());
    // The cancelled decisions took no value, so the next value is the second.
    let second = coalescer.run(gate.clone(), one(1, None), deadline).await;
    let range = Range { last: 2, step: 1, count: 1 };
    let given = Allocation::Given { range, floor_applied: false, replayed: false };
    assert_eq!(second, Ok(given));
    assert_eq!(coalescer.places.taken(), 0);
}

#[tokio::test]
async fn a_partition_that_is_blocked_leaves_room_for_others() {
    let (taken, mut sizes) = mpsc::unbounded_channel();
    let gate = Gate { counter: Mutex::default(), open: Semaphore::new(0), taken };
    let (gate, coalescer) = (Arc::new(gate), coalescer());
    let deadline = monotonic() + Duration::from_secs(60);
    let mut calls = Vec::new();
    for number in 0..=WAITING_MAX / 4 {
        let (own, gate) = (coalescer.clone(), gate.clone());
        calls.push(tokio::spawn(async move { own.run(gate, one(1, None), deadline).await }));
        if number == 0 {
            assert_eq!(sizes.recv().await, Some(1));
        }
    }
    while coalescer.places.taken() < WAITING_MAX / 4 {
        tokio::task::yield_now().await;
    }
    assert_eq!(coalescer.run(gate.clone(), one(1, None), deadline).await, Err(Error::Overloaded));
    gate.open.add_permits(100);
    for call in calls {
        assert!(call.await.expect("no panic").is_ok());
    }
}

#[tokio::test]
async fn a_call_that_waits_past_its_deadline_is_rejected_counted_and_never_decided() {
    let (taken, mut sizes) = mpsc::unbounded_channel();
    let gate = Gate { counter: Mutex::default(), open: Semaphore::new(0), taken };
    let (gate, coalescer) = (Arc::new(gate), coalescer());
    let later = monotonic() + Duration::from_secs(60);
    let (first, own) = (coalescer.clone(), gate.clone());
    let first = tokio::spawn(async move { first.run(own, one(1, None), later).await });
    assert_eq!(sizes.recv().await, Some(1));
    let before = ReachedLimit::Overload.times();
    for _ in 0..3 {
        let soon = monotonic() + Duration::from_millis(5);
        assert_eq!(coalescer.run(gate.clone(), one(1, None), soon).await, Err(Error::Overloaded));
    }
    assert!(ReachedLimit::Overload.times() >= before + 3);
    assert_eq!(coalescer.places.taken(), 0, "they have released their places");
    gate.open.add_permits(1);
    assert!(first.await.expect("no panic").is_ok());
    // A decision that is in a batch may still be executed.
    let soon = monotonic() + Duration::from_secs(1);
    assert_eq!(coalescer.run(gate.clone(), one(1, None), soon).await, Err(Error::DeadlineExceeded));
    gate.open.add_permits(100);
    let third = coalescer.run(gate.clone(), one(1, None), later).await;
    let range = Range { last: 3, step: 1, count: 1 };
    assert_eq!(third, Ok(Allocation::Given { range, floor_applied: false, replayed: false }));
}
