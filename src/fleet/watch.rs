//! Watching a run: its display goes on until time or a signal ends it.

use std::time::{Duration, Instant};

use tokio::{
    task::JoinSet,
    time::{Interval, MissedTickBehavior, interval, sleep_until},
};

use super::progress::{Progress, Standing};
use crate::signals::Signals;

/// Waits until `end`, or less if a signal comes.
pub(super) async fn until(
    end: Instant,
    progress: &mut Progress,
    signals: &mut Signals,
    standing: impl Fn() -> Standing,
) {
    let mut tick = ticks(progress.period());
    let end = sleep_until(end.into());
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return,
            () = signals.next() => return,
            _ = tick.tick() => progress.show(&standing()),
        }
    }
}

/// Waits until all have ended, or `end`, or less if a signal comes.
pub(super) async fn work(
    tasks: &mut JoinSet<()>,
    end: Instant,
    progress: &mut Progress,
    signals: &mut Signals,
    standing: impl Fn() -> Standing,
) {
    let ended = async { while tasks.join_next().await.is_some() {} };
    tokio::select! {
        () = ended => {}
        () = until(end, progress, signals, standing) => {}
    }
}

/// Waits while those that have something in hand finish it; a signal drops it.
pub(super) async fn finish(
    tasks: &mut JoinSet<()>,
    progress: &mut Progress,
    signals: &mut Signals,
    standing: impl Fn(usize) -> Standing,
) {
    let mut tick = ticks(progress.period());
    loop {
        tokio::select! {
            ended = tasks.join_next() => if ended.is_none() { return },
            () = signals.next() => return tasks.abort_all(),
            _ = tick.tick() => progress.show(&standing(tasks.len())),
        }
    }
}

/// The first comes after one period: there is nothing to show at once.
fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.reset();
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
