//! Calls during a sweep, as a caller sees them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

use tokio::runtime::Builder;
use tollgate_core::{
    Decision, admission::AdmitTask, error::Error, rate::CheckRate, time::monotonic,
};
use tollgate_engine::{Engine, embedded::Sharded};

use crate::{
    PATIENCE, check, rule,
    times::{Times, Waited},
};

/// Makes calls about a task of a pool and about keys of all shards, in turn, until `end` is set.
pub(crate) fn ask(engine: Arc<Engine>, task: AdmitTask, end: Arc<AtomicBool>) -> JoinHandle<()> {
    // The rule never refuses, so that each check is a change.
    let rule = rule(1_000_000_000);
    let keys: Vec<CheckRate> = (0..8000).map(|number| check(&rule, number)).collect();
    thread::spawn(move || {
        let mut tasks = Times::of("AdmitTask beside it, by the clock");
        let mut checks = Times::of("CheckRate beside it, by the clock");
        let waited = Waited::of_this_thread();
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            for key in keys.iter().cycle() {
                if end.load(Ordering::Relaxed) {
                    break;
                }
                asked(&engine, &task, &waited, &mut tasks).await;
                asked(&engine, key, &waited, &mut checks).await;
            }
        });
    })
}

/// Measures a decision that may wait for another thread, in wall-clock time.
async fn asked<D>(engine: &Engine, decision: &D, waited: &Waited, times: &mut Times)
where
    D: Decision<State: Sharded>,
{
    let began = waited.begin();
    let outcome = engine.store(decision, monotonic() + PATIENCE).await;
    let took = waited.but_for(began);
    if !matches!(outcome, Err(Error::Overloaded)) {
        outcome.unwrap();
        times.note_nanos(took);
    }
}
