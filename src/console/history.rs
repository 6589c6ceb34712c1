//! The last 15 minutes: calls of this server, and usage of pools that pages showed.

use std::{
    collections::{HashMap, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::sleep;

use super::sessions::RightsId;
use crate::{
    admin::metrics::ProcessTotals,
    decision::time::{coarse, monotonic},
};

/// The length of a step of a chart, seconds.
pub(super) const STEP: u64 = 5;
/// The number of steps: 15 minutes.
pub(super) const STEPS: usize = 180;
/// The most pools with a history.
const POOLS_MAX: usize = 1_000;

/// The calls of the last 15 minutes.
#[derive(Debug, Default)]
pub(super) struct CallHistory(Mutex<VecDeque<CallStep>>);

/// Calls a second in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CallStep {
    pub(super) calls: f64,
    pub(super) refusals: f64,
}

impl CallHistory {
    /// Takes a sample at each step. Never completes.
    pub(super) async fn sample(&self) {
        let (mut last, mut at) = (ProcessTotals::now(), monotonic());
        loop {
            sleep(Duration::from_secs(STEP)).await;
            let (totals, now) = (ProcessTotals::now(), monotonic());
            let seconds = now.saturating_duration_since(at).as_secs_f64().max(1e-3);
            let a_second = |newer: u64, older: u64| newer.saturating_sub(older) as f64 / seconds;
            let step = CallStep {
                calls: a_second(totals.calls, last.calls),
                refusals: a_second(totals.refusals, last.refusals),
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

    /// The steps, the oldest first.
    pub(super) fn steps(&self) -> Vec<CallStep> {
        self.0.lock().iter().copied().collect()
    }
}

/// The usage of a pool in a step: the largest numbers seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PoolStep {
    /// The number of the step since the start of the machine.
    at: u64,
    pub(super) in_use: u32,
    pub(super) capacity: u32,
    pub(super) waiters: u32,
}

/// The usage of the pools that pages have shown, by the rights of their visitors and by name. One
/// name means different pools in different namespaces.
#[derive(Debug, Default)]
pub(super) struct PoolHistory(Mutex<HashMap<(RightsId, String), VecDeque<PoolStep>>>);

impl PoolHistory {
    /// Notes the usage that a page shows.
    pub(super) fn note(&self, rights: RightsId, pool: &str, usage: PoolStep) {
        self.note_at(rights, pool, usage, coarse().as_secs() / STEP);
    }

    fn note_at(&self, rights: RightsId, pool: &str, usage: PoolStep, at: u64) {
        let mut pools = self.0.lock();
        let id = (rights, pool.to_owned());
        if pools.len() >= POOLS_MAX && !pools.contains_key(&id) {
            pools.retain(|_, steps| steps.back().is_some_and(|last| last.at + STEPS as u64 > at));
            if pools.len() >= POOLS_MAX {
                return;
            }
        }
        let steps = pools.entry(id).or_default();
        match steps.back_mut().filter(|last| last.at == at) {
            Some(last) => {
                last.in_use = last.in_use.max(usage.in_use);
                last.waiters = last.waiters.max(usage.waiters);
                last.capacity = usage.capacity;
            }
            None => steps.push_back(PoolStep { at, ..usage }),
        }
        while steps.front().is_some_and(|first| first.at + STEPS as u64 <= at) {
            steps.pop_front();
        }
    }

    /// The complete steps of a pool, the oldest first; `None` for steps in which no page showed it.
    pub(super) fn steps(&self, rights: RightsId, pool: &str) -> Vec<Option<PoolStep>> {
        self.steps_at(rights, pool, coarse().as_secs() / STEP)
    }

    fn steps_at(&self, rights: RightsId, pool: &str, now: u64) -> Vec<Option<PoolStep>> {
        let pools = self.0.lock();
        let known = pools.get(&(rights, pool.to_owned()));
        let first = now.saturating_sub(STEPS as u64);
        let step = |at: u64| known?.iter().find(|step| step.at == at).copied();
        (first..now).map(step).collect()
    }
}

impl PoolStep {
    /// The usage that a page shows.
    pub(super) fn new(in_use: u32, capacity: u32, waiters: u32) -> PoolStep {
        PoolStep { at: 0, in_use, capacity, waiters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_remembered_for_15_minutes() {
        let history = PoolHistory::default();
        let (open, acme) = (RightsId::new(None, ""), RightsId::new(None, "acme"));
        let start = 1_000;
        history.note_at(open, "p", PoolStep::new(3, 5, 1), start);
        history.note_at(open, "p", PoolStep::new(2, 6, 0), start);
        history.note_at(open, "p", PoolStep::new(1, 6, 0), start + 2);
        let steps = history.steps_at(open, "p", start + 3);
        assert_eq!(steps.len(), STEPS);
        let seen = |step: &Option<PoolStep>| step.map(|it| (it.in_use, it.capacity, it.waiters));
        let last: Vec<_> = steps[STEPS - 3..].iter().map(seen).collect();
        assert_eq!(last, [Some((3, 6, 1)), None, Some((1, 6, 0))]);
        assert!(history.steps_at(acme, "p", start + 3).iter().all(Option::is_none));
        let later = start + 2 * STEPS as u64;
        history.note_at(open, "p", PoolStep::new(9, 9, 9), later);
        assert_eq!(history.0.lock()[&(open, "p".to_owned())].len(), 1);
    }

    #[test]
    fn the_number_of_pools_is_bounded() {
        let (history, open) = (PoolHistory::default(), RightsId::new(None, ""));
        for number in 0..2 * POOLS_MAX {
            history.note_at(open, &number.to_string(), PoolStep::default(), 1_000);
        }
        assert_eq!(history.0.lock().len(), POOLS_MAX);
        history.note_at(open, "new", PoolStep::default(), 1_000 + STEPS as u64);
        assert_eq!(history.0.lock().len(), 1);
    }
}
