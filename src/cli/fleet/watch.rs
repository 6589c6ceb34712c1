//! Shows the progress of a run until it ends.

use std::time::{Duration, Instant};

use tokio::{
    task::JoinSet,
    time::{Interval, MissedTickBehavior, interval, sleep_until},
};

use super::progress::{Progress, Standing};
use crate::cli::signals::Signals;

/// Waits until `end` or a signal.
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

/// Waits until all tasks have ended, until `end`, or until a signal.
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

/// Waits until all participants have finished their work; a signal aborts it.
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

/// Creates the update timer. The first tick is after one period, because there is nothing to show
/// before.
fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.reset();
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
