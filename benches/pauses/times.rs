//! Measured times, and their clocks.

use std::{fs::File, os::unix::fs::FileExt, time::Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};
use tollgate_core::time::monotonic;

/// Shortest time that counts as a pause, in ns.
const LONG: u64 = 1_000_000;

/// CPU time of this thread, in ns.
pub(crate) fn worked() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Time that a thread has waited for a core, as Linux reports it.
pub(crate) struct Waited(File);

impl Waited {
    pub(crate) fn of_this_thread() -> Waited {
        Waited(File::open("/proc/thread-self/schedstat").expect("Linux"))
    }

    /// In ns.
    fn so_far(&self) -> u64 {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0).unwrap();
        let text = str::from_utf8(&text[..length]).unwrap();
        text.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    /// Starts a measurement.
    pub(crate) fn begin(&self) -> (u64, Instant) {
        (self.so_far(), monotonic())
    }

    /// Wall-clock time since `begin`, minus the time waiting for a core, in ns.
    pub(crate) fn but_for(&self, (off, began): (u64, Instant)) -> u64 {
        let took = began.elapsed().as_nanos() as u64;
        // Part of the waiting may lie outside of the measurement. It can then exceed the time
        // taken, and is not subtracted.
        took.checked_sub(self.so_far() - off).unwrap_or(took)
    }
}

pub(crate) fn resident() -> usize {
    memory_stats::memory_stats().unwrap().physical_mem
}

/// Times of one kind of work; printed when dropped.
pub(crate) struct Times(&'static str, Histogram<u64>);

impl Times {
    pub(crate) fn of(what: &'static str) -> Times {
        Times(what, Histogram::new(3).unwrap())
    }

    /// Records the CPU time since `since`, a result of `worked()`.
    pub(crate) fn note(&mut self, since: u64) {
        self.note_nanos(worked() - since);
    }

    pub(crate) fn note_nanos(&mut self, took: u64) {
        self.1.record(took).unwrap();
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        let Times(what, times) = self;
        let micros = |nanos: u64| nanos as f64 / 1000.0;
        println!(
            "| {what} | {} | {:.1} | {:.1} | {:.1} | {} | {:.2} |",
            times.len(),
            times.mean() / 1000.0,
            micros(times.value_at_quantile(0.9999)),
            micros(times.max()),
            // `count_between` would include values in the same bucket as the longest.
            if times.max() < LONG { 0 } else { times.count_between(LONG, u64::MAX) },
            times.mean() * times.len() as f64 / 1e9,
        );
    }
}
