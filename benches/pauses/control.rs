//! Control: the pauses that the machine adds to code without an engine.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tollgate_core::time::monotonic;

use crate::{
    SWEPT_FOR,
    times::{Times, Waited, worked},
};

/// Rounds of arithmetic in a step of about 100 µs.
const STEP: u64 = 120_000;
/// Steps between two pauses.
const STEPS: u64 = 8;

/// Measures arithmetic under a mutex that another thread repeatedly acquires. Steps, pauses and
/// duration are like those of a sweep. A host that takes a virtual core away, or a system that
/// wakes threads, delays this loop as it delays the engine. The control works for a larger part of
/// the time than a sweep, so compare the number of times above 1 ms per second of work. It uses no
/// disk, and only memory that is in the cache.
pub(crate) fn control() {
    let mut steps = Times::of("no engine, only arithmetic, a step");
    let mutex = Mutex::new(0u64);
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut times = Times::of("its mutex beside it, by the clock");
            let waited = Waited::of_this_thread();
            while !end.load(Ordering::Relaxed) {
                let began = waited.begin();
                drop(black_box(mutex.lock()));
                times.note_nanos(waited.but_for(began));
            }
        });
        let began = monotonic();
        for number in 1u64.. {
            let before = worked();
            let mut held = mutex.lock();
            for step in 0..STEP {
                *held = black_box(*held ^ step).rotate_left(7);
            }
            MutexGuard::unlock_fair(held);
            steps.note(before);
            if began.elapsed() > SWEPT_FOR {
                break;
            }
            if number % STEPS == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        end.store(true, Ordering::Relaxed);
    });
}
