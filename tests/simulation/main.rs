//! A simulation of the embedded engine with its journal. Clock, disk and network are simulated, and
//! callers keep models of all five capabilities.
//!
//! The network drops, repeats and reorders requests. The process is killed, loses power (also
//! within a write), closes, and starts again. The disk is full for a time. The system clock is set
//! forward and back by up to three days. The machine sleeps.
//!
//! Every answer is checked against the models, and after each start the whole state is read. A
//! stock, the *mark*, is incremented before each write, including writes to the log: its value
//! shows which state a process has found. That state must be an earlier state. It includes every
//! acknowledged change, except the changes of one second: after a power loss under `interval`,
//! after any end under `none`. Fencing tokens and values of sequences never repeat.
//!
//! The engine's time is compared with the system clock. After a start it is neither behind that
//! clock nor ahead of it, unless the clock was set back. It runs at its rate, and synced leases end
//! at their `expire_time`.
//!
//! There are no threads, no real time and no real disk: a seed determines the history. The seed is
//! printed. `TOLLGATE_TEST_SEED` plays it again, and `TOLLGATE_TEST_STEPS` sets the number of
//! steps. In `tests/run.sh all` the tests together play more than a million.

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
#[path = "../support/tier.rs"]
mod tier;
mod world;

use std::hash::DefaultHasher;

use tollgate_engine::embedded::Durability;
use world::{Ends, World};

/// Returns the number of steps of a test.
fn steps() -> u64 {
    let usual = if tier::is_full() { 125_000 } else { 50_000 };
    setting("TOLLGATE_TEST_STEPS").unwrap_or(usual)
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Plays a seed. Returns a digest of the history if it is requested, else 0.
fn play(seed: u64, durability: Durability, ends: Ends, steps: u64, is_digested: bool) -> u64 {
    // Calls have deadlines, which need the timers of a runtime. No deadline is reached.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let _context = runtime.enter();
    let mut world = World::new(seed, durability, ends);
    world.history.digest = is_digested.then(DefaultHasher::new);
    world.play(steps);
    println!("seed {seed}, {durability:?}: {steps} steps, killed {} times", world.ends);
    world.digest()
}

fn simulate(durability: Durability, ends: Ends, number: u64) {
    let given = setting("TOLLGATE_TEST_SEED");
    if given.is_some() && number > 1 {
        return;
    }
    let seed = given.unwrap_or_else(rand::random);
    println!("TOLLGATE_TEST_SEED={seed}");
    play(seed, durability, ends, steps(), false);
}

macro_rules! simulations {
    ($(fn $name:ident($durability:ident, $ends:ident, $number:literal);)*) => {
        $(#[test] fn $name() { simulate(Durability::$durability, Ends::$ends, $number) })*
    };
}

simulations! {
    fn always_1(Always, Any, 1);
    fn always_2(Always, Any, 2);
    fn always_3(Always, Any, 3);
    fn interval_1(Interval, Any, 1);
    fn interval_2(Interval, Any, 2);
    fn interval_3(Interval, Any, 3);
    fn none_1(None, Any, 1);
    fn j1_kills_lose_nothing_under_always(Always, Kills, 1);
    fn j1_power_cuts_lose_nothing_under_always(Always, PowerCuts, 1);
    fn j1_kills_lose_nothing_under_interval(Interval, Kills, 1);
    fn j1_power_cuts_lose_a_second_and_repeat_no_number_under_interval(Interval, PowerCuts, 1);
    fn j1_kills_lose_a_second_and_repeat_no_number_under_none(None, Kills, 1);
    fn j1_power_cuts_lose_a_second_and_repeat_no_number_under_none(None, PowerCuts, 1);
}

#[test]
fn a_seed_determines_the_history() {
    for durability in [Durability::Always, Durability::Interval, Durability::None] {
        let seed = setting("TOLLGATE_TEST_SEED").unwrap_or_else(rand::random);
        println!("TOLLGATE_TEST_SEED={seed}");
        let [one, other] = [(); 2].map(|()| play(seed, durability, Ends::Any, 10_000, true));
        assert_eq!(one, other, "seed {seed} has two different histories");
        let another = play(seed.wrapping_add(1), durability, Ends::Any, 10_000, true);
        assert_ne!(one, another, "two seeds have the same history");
    }
}
