//! The calls of this server in the last 15 minutes, in steps.

use std::{array, collections::VecDeque, time::Duration};

use parking_lot::Mutex;
use tokio::time::sleep;

use tollgate_core::time::monotonic;
use tollgate_status::RunningServer;
use tollgate_telemetry::coarse;
use tollgate_telemetry::metrics::CODES;

/// The length of a step of a chart, seconds.
pub(super) const STEP: u64 = 5;
/// The number of steps: 15 minutes.
pub(super) const STEPS: usize = 180;

/// Returns the number of the current step since the machine started.
pub(super) fn step_now() -> u32 {
    (coarse().as_secs() / STEP) as u32
}

/// Returns the time until the middle of the next step, so that a task that sleeps this long each
/// time misses no step.
pub(super) fn next_step() -> Duration {
    let step = Duration::from_secs(STEP);
    let passed = Duration::from_nanos((coarse().as_nanos() % step.as_nanos()) as u64);
    step + step / 2 - passed
}

/// The calls of the last 15 minutes.
#[derive(Debug, Default)]
pub(super) struct CallHistory(Mutex<VecDeque<CallStep>>);

/// Calls per second in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CallStep {
    pub(super) calls: f64,
    /// Decisions that refused what the caller asked for. These calls end with OK.
    pub(super) refusals: f64,
    /// Finished calls by status code.
    pub(super) codes: [f64; CODES],
}

impl CallHistory {
    /// Takes a sample in each step. Never completes.
    pub(super) async fn sample(&self, server: &RunningServer) {
        let (mut last, mut at) = (server.totals(), monotonic());
        loop {
            sleep(Duration::from_secs(STEP)).await;
            let (totals, now) = (server.totals(), monotonic());
            let seconds = now.saturating_duration_since(at).as_secs_f64().max(1e-3);
            let a_second = |newer: u64, older: u64| newer.saturating_sub(older) as f64 / seconds;
            let step = CallStep {
                calls: a_second(totals.calls, last.calls),
                refusals: a_second(totals.refusals, last.refusals),
                codes: array::from_fn(|code| a_second(totals.codes[code], last.codes[code])),
            };
            let mut steps = self.0.lock();
            if steps.len() == STEPS {
                steps.pop_front();
            }
            steps.push_back(step);
            drop(steps);
            (last, at) = (totals, now);
        }
    }

    /// Returns the steps, the oldest first.
    pub(super) fn steps(&self) -> Vec<CallStep> {
        self.0.lock().iter().copied().collect()
    }
}
