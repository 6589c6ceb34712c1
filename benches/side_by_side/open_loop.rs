//! Open loop: calls start at a fixed rate, however long others take.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore},
    time::timeout,
};
use tollgate_core::time::monotonic;

use crate::{
    call::Load,
    closed_loop::Timing,
    connection::Connection,
    row::Row,
    run::Run,
    tally::{Tally, Then},
};

/// Interval in which due calls start together. The latency of a call counts from its start. The
/// timer of tokio has a resolution of 1 ms; a shorter interval would use CPU time that the measured
/// load needs.
const TICK: Duration = Duration::from_micros(250);
/// Maximum number of callers that wait for an answer. A further caller is skipped and counted as
/// wrong.
const WAITING_MAX: u32 = 8192;
/// How long calls in flight may take after the end of a run.
const DRAIN: Duration = Duration::from_secs(10);

/// Results of the callers, and whether calls count now.
#[derive(Default)]
struct Seen {
    counts: AtomicBool,
    tally: Mutex<Tally>,
}

impl Seen {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes `rate` calls a second. Callers start evenly spread; each makes all calls of the load.
pub(crate) async fn run(
    row: &mut Row,
    load: &Arc<Load>,
    rate: f64,
    connections: usize,
    timing: Timing,
) -> Run {
    let mut lines = Vec::new();
    for _ in 0..connections {
        lines.push(Connection::open(row.address).await.expect("the server listens"));
    }
    let rounds = rate / load.calls.len() as f64;
    let (seen, waiting) =
        (Arc::new(Seen::default()), Arc::new(Semaphore::new(WAITING_MAX as usize)));
    let ticks = Ticks::start();
    let (begun, mut came, mut before) = (monotonic(), 0, None);
    while begun.elapsed() < timing.warm_up + timing.time {
        ticks.next().await;
        if before.is_none() && begun.elapsed() >= timing.warm_up {
            before = Some(row.meter.read());
            seen.counts.store(true, Ordering::Relaxed);
        }
        let due = (begun.elapsed().as_secs_f64() * rounds) as usize;
        for turn in came..due {
            let Ok(place) = waiting.clone().try_acquire_owned() else {
                seen.tally().record_wrong("a caller failed to start".to_owned(), 1);
                continue;
            };
            let number = row.numbers_used % load.numbers;
            row.numbers_used += 1;
            let round = call(lines[turn % connections].clone(), load.clone(), number, seen.clone());
            tokio::spawn(async move {
                round.await;
                drop(place);
            });
        }
        came = due;
    }
    seen.counts.store(false, Ordering::Relaxed);
    let after = row.meter.read();
    if timeout(DRAIN, waiting.acquire_many(WAITING_MAX)).await.is_err() {
        let lost = WAITING_MAX as usize - waiting.available_permits();
        seen.tally().record_wrong("no answer after the end".to_owned(), lost as u64);
    }
    lines.iter().for_each(Connection::close);
    let tally = std::mem::take(&mut *seen.tally());
    let before = before.unwrap_or(after);
    Run::new(tally, after.seconds_since(&before), after.since(&before))
}

/// Makes all calls of the load once.
async fn call(mut line: Connection, load: Arc<Load>, number: u64, seen: Arc<Seen>) {
    for call in &load.calls {
        let request = line.request(call);
        let begun = monotonic();
        let answer = line.call(request, call.body(number)).await;
        let counts = seen.counts.load(Ordering::Relaxed);
        if seen.tally().record(call, answer, begun.elapsed(), counts) != Then::GoOn {
            return;
        }
    }
}

/// Ticks from a separate thread, until dropped.
struct Ticks {
    tick: Arc<Notify>,
    over: Arc<AtomicBool>,
}

impl Ticks {
    fn start() -> Ticks {
        let ticks = Ticks { tick: Arc::default(), over: Arc::default() };
        let (tick, over) = (ticks.tick.clone(), ticks.over.clone());
        thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                thread::sleep(TICK);
                tick.notify_one();
            }
        });
        ticks
    }

    /// Waits for the next tick; missed ticks count as one.
    async fn next(&self) {
        self.tick.notified().await;
    }
}

impl Drop for Ticks {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}
