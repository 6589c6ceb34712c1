//! A simulation of the embedded engine with its journal. Clock, disk and network are simulated, and
//! callers keep models of all five capabilities.
//!
//! The network drops, repeats and reorders requests. The process is killed, loses power (also
//! within a write), closes, and starts again. The disk is full for a time. The system clock is set
//! forward and back by up to three days. The machine sleeps.
//!
//! Every answer is checked against the models, and after each start the whole state is read. A
//! sequence, the *mark*, is counted up before each write: its value shows which state a process has
//! found. That state must be an earlier state. Under `always` it has every acknowledged change,
//! under `interval` all except those of one second.
//!
//! The engine's time is compared with the system clock. After a start it is neither behind that
//! clock nor ahead of it, unless the clock was set back. It runs at its rate, and synced leases end
//! at their `expire_time`.
//!
//! There are no threads, no real time and no real disk: a seed determines the history. The seed is
//! printed. `TOLLGATE_TEST_SEED` plays it again, and `TOLLGATE_TEST_STEPS` sets the number of
//! steps.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    reason = "tests; what is shown of a history only Debug reads"
)]

mod callers;
mod capability;
mod disk;
mod history;
mod lock;
mod mark;
mod pool;
mod rate;
mod sequence;
mod stock;
mod world;

use std::hash::DefaultHasher;

use tollgate::engine::embedded::Durability;
use world::World;

/// Number of steps of a test; the eight tests together have a million.
const STEPS: u64 = 125_000;

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Plays a seed. Returns a digest of the history if it is requested, else 0.
fn play(seed: u64, durability: Durability, steps: u64, is_digested: bool) -> u64 {
    // Calls have deadlines, which need the timers of a runtime. No deadline is reached.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    let mut world = World::new(seed, durability);
    world.history.digest = is_digested.then(DefaultHasher::new);
    world.play(steps);
    println!("seed {seed}, {durability:?}: {steps} steps, killed {} times", world.ends);
    world.digest()
}

fn simulate(durability: Durability, number: u64) {
    let given = setting("TOLLGATE_TEST_SEED");
    if given.is_some() && number > 1 {
        return;
    }
    let seed = given.unwrap_or_else(rand::random);
    println!("TOLLGATE_TEST_SEED={seed}");
    play(seed, durability, setting("TOLLGATE_TEST_STEPS").unwrap_or(STEPS), false);
}

macro_rules! simulations {
    ($($name:ident: $durability:ident $number:literal),* $(,)?) => {
        $(#[test] fn $name() { simulate(Durability::$durability, $number) })*
    };
}

simulations! {
    always_1: Always 1, always_2: Always 2, always_3: Always 3, always_4: Always 4,
    interval_1: Interval 1, interval_2: Interval 2, interval_3: Interval 3, interval_4: Interval 4,
}

#[test]
fn a_seed_determines_the_history() {
    for durability in [Durability::Always, Durability::Interval] {
        let seed = setting("TOLLGATE_TEST_SEED").unwrap_or_else(rand::random);
        println!("TOLLGATE_TEST_SEED={seed}");
        let [one, other] = [(); 2].map(|()| play(seed, durability, 10_000, true));
        assert_eq!(one, other, "seed {seed} has two different histories");
        let another = play(seed.wrapping_add(1), durability, 10_000, true);
        assert_ne!(one, another, "two seeds have the same history");
    }
}
