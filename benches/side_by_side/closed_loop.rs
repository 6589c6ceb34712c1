//! Closed loop: each caller sends its next call after the answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tollgate_core::time::monotonic;

use crate::{
    call::Load,
    connection::Connection,
    row::Row,
    run::Run,
    tally::{Tally, Then},
};

/// How long calls in flight may take after the end of a run.
const DRAIN: Duration = Duration::from_secs(10);
/// Pause of a refused caller; the delay in Tollgate's RetryInfo.
const AFTER_REFUSAL: Duration = Duration::from_millis(100);

/// Number of callers and connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Callers {
    pub(crate) connections: usize,
    /// Callers of each connection.
    pub(crate) streams: usize,
}

impl Callers {
    /// Spreads `calls` in flight over connections; at most as many connections as callers on each.
    pub(crate) fn in_flight(calls: usize) -> Callers {
        let connections = (1..=calls.isqrt()).rev().find(|number| calls.is_multiple_of(*number));
        let connections = connections.unwrap_or(1);
        Callers { connections, streams: calls / connections }
    }
}

/// Durations of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// Before calls are counted.
    pub(crate) warm_up: Duration,
    /// While calls are counted.
    pub(crate) time: Duration,
}

const WARM_UP: u8 = 0;
const COUNTED: u8 = 1;
const OVER: u8 = 2;

/// Phase of a run, and the next call number.
struct Stage {
    phase: AtomicU8,
    next: AtomicU64,
}

/// Runs a load against a row.
pub(crate) async fn run(row: &mut Row, load: &Arc<Load>, callers: Callers, timing: Timing) -> Run {
    let stage =
        Arc::new(Stage { phase: AtomicU8::new(WARM_UP), next: AtomicU64::new(row.numbers_used) });
    let (mut running, mut connections) = (JoinSet::new(), Vec::new());
    for _ in 0..callers.connections {
        let connection = Connection::open(row.address).await.expect("the server listens");
        for _ in 0..callers.streams {
            running.spawn(call_again(connection.clone(), load.clone(), stage.clone()));
        }
        connections.push(connection);
    }
    sleep(timing.warm_up).await;
    let before = row.meter.read();
    stage.phase.store(COUNTED, Ordering::Relaxed);
    sleep(timing.time).await;
    stage.phase.store(OVER, Ordering::Relaxed);
    let after = row.meter.read();
    let mut tally = Tally::default();
    let drained = timeout(DRAIN, async {
        while let Some(one) = running.join_next().await {
            tally.join(one.expect("a caller does not panic"));
        }
    });
    if drained.await.is_err() {
        tally.record_wrong("no answer after the end".to_owned(), running.len() as u64);
    }
    connections.iter().for_each(Connection::close);
    // A later run must not repeat these tasks.
    row.numbers_used = stage.next.load(Ordering::Relaxed);
    Run::new(tally, after.seconds_since(&before), after.since(&before))
}

async fn call_again(mut connection: Connection, load: Arc<Load>, stage: Arc<Stage>) -> Tally {
    let mut tally = Tally::default();
    let requests: Vec<_> = load.calls.iter().map(|call| connection.request(call)).collect();
    while stage.phase.load(Ordering::Relaxed) != OVER {
        let number = stage.next.fetch_add(1, Ordering::Relaxed) % load.numbers;
        for (call, request) in load.calls.iter().zip(&requests) {
            let begun = monotonic();
            let answer = connection.call(request.clone(), call.body(number)).await;
            let took = begun.elapsed();
            let counts = stage.phase.load(Ordering::Relaxed) == COUNTED;
            match tally.record(call, answer, took, counts) {
                Then::GoOn => {}
                Then::Anew => break,
                Then::Later => {
                    sleep(AFTER_REFUSAL).await;
                    break;
                }
                Then::End => return tally,
            }
        }
    }
    tally
}
