//! What the machine does to what is no engine.

use std::{
    hint::black_box,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tollgate::time::monotonic;

use crate::{
    SWEPT_FOR,
    times::{Times, Waited, worked},
};

/// Rounds of arithmetic that take about 100 µs.
const STEP: u64 = 120_000;
/// After so many steps lies a pause.
const STEPS: u64 = 8;

/// What the machine adds by itself: arithmetic, in steps about as long as a sweep's, for as
/// long as a sweep and with its pauses, under a mutex that another thread asks for all the time.
/// What a host that takes a virtual core away, and a system that wakes threads, do to it they do
/// to the engine. It works for more of that time than a sweep, so that what is above 1 ms is to
/// be compared by the second of it; and it has no disk, and no memory that is in no cache.
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
