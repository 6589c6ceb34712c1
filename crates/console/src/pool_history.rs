//! The usage of pools in the last 15 minutes.
//!
//! It has two sources. Once a visitor has opened the console, the server samples the pools with
//! time series (`[metrics] pools`) in each step. Pages record every other pool that they show.

use std::{
    collections::{HashMap, VecDeque},
    mem,
};

use parking_lot::Mutex;

use super::{
    history::{STEPS, step_now},
    quota::{Holder, Permit, Quota},
};
use tollgate_core::names::Name;

/// Maximum number of pools with a history.
const POOLS_MAX: usize = 1_000;
/// The number of steps of a history.
const AGE_MAX: u32 = STEPS as u32;

/// The usage of a pool in a step, as the maximum of each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PoolStep {
    /// The number of the step since the machine started.
    at: u32,
    pub(super) in_use: u32,
    pub(super) capacity: u32,
    pub(super) waiters: u32,
}

/// Who has read the usage of a pool.
#[derive(Debug, Clone, Copy)]
enum UsageSource<'a> {
    /// A page for this caller.
    Page(&'a Holder),
    /// The server, which reads it in each step.
    Sample,
}

/// The usage of pools, by their names with namespaces.
#[derive(Debug)]
pub(super) struct PoolHistory {
    pools: Mutex<KnownPools>,
    quota: Quota,
}

#[derive(Debug, Default)]
struct KnownPools {
    by_name: HashMap<Name, KnownPool>,
    /// The step in which old entries were last removed.
    cleaned: u32,
}

#[derive(Debug)]
struct KnownPool {
    /// The oldest first.
    steps: VecDeque<PoolStep>,
    is_sampled: bool,
    _permit: Permit,
}

impl Default for PoolHistory {
    fn default() -> PoolHistory {
        PoolHistory { pools: Mutex::default(), quota: Quota::new(POOLS_MAX, "pools") }
    }
}

impl PoolHistory {
    /// Records the usage that a page shows. Does nothing if the maximum number of pools or the
    /// quota of the caller is reached.
    pub(super) fn record(&self, holder: &Holder, pool: &Name, usage: PoolStep) {
        self.record_at(UsageSource::Page(holder), pool, usage, step_now());
    }

    /// Records a sample. If no space is left, it replaces a pool that only pages have recorded.
    pub(super) fn sample(&self, pool: &Name, usage: PoolStep) {
        self.record_at(UsageSource::Sample, pool, usage, step_now());
    }

    fn record_at(&self, source: UsageSource<'_>, pool: &Name, usage: PoolStep, at: u32) {
        let mut pools = self.pools.lock();
        if !pools.by_name.contains_key(pool) {
            let Some(permit) = self.place(&mut pools, source, at) else { return };
            let known = KnownPool { steps: VecDeque::new(), is_sampled: false, _permit: permit };
            pools.by_name.insert(pool.detached(), known);
        }
        let Some(known) = pools.by_name.get_mut(pool) else { return };
        known.is_sampled |= matches!(source, UsageSource::Sample);
        match known.steps.back_mut().filter(|last| last.at == at) {
            Some(last) => {
                last.in_use = last.in_use.max(usage.in_use);
                last.waiters = last.waiters.max(usage.waiters);
                last.capacity = usage.capacity;
            }
            None => known.steps.push_back(PoolStep { at, ..usage }),
        }
        while known.steps.front().is_some_and(|first| first.at + AGE_MAX <= at) {
            known.steps.pop_front();
        }
    }

    /// Makes space for another pool. Removes pools without a recent step, at most once per step.
    fn place(&self, pools: &mut KnownPools, source: UsageSource<'_>, at: u32) -> Option<Permit> {
        let holder = match source {
            UsageSource::Page(holder) => holder,
            UsageSource::Sample => &None,
        };
        if let Ok(permit) = self.quota.acquire(holder) {
            return Some(permit);
        }
        if mem::replace(&mut pools.cleaned, at) != at {
            pools.by_name.retain(|_, pool| pool.last() + AGE_MAX > at);
        }
        if matches!(source, UsageSource::Sample) && pools.by_name.len() >= POOLS_MAX {
            let shown = pools.by_name.iter().filter(|(_, pool)| !pool.is_sampled);
            let oldest = shown.min_by_key(|(_, pool)| pool.last()).map(|(name, _)| name.clone());
            pools.by_name.remove(&oldest?);
        }
        self.quota.acquire(holder).ok()
    }

    /// Returns the complete steps of a pool, the oldest first; `None` for steps without a value.
    pub(super) fn steps(&self, pool: &Name) -> Vec<Option<PoolStep>> {
        self.steps_at(pool, step_now())
    }

    fn steps_at(&self, pool: &Name, now: u32) -> Vec<Option<PoolStep>> {
        let mut steps = vec![None; STEPS];
        let pools = self.pools.lock();
        let known = pools.by_name.get(pool).into_iter().flat_map(|known| &known.steps);
        for step in known.filter(|step| step.at < now) {
            let index = (step.at + AGE_MAX).checked_sub(now);
            let place = index.and_then(|index| steps.get_mut(index as usize));
            place.into_iter().for_each(|place| *place = Some(*step));
        }
        steps
    }

    /// Whether the server samples a pool.
    pub(super) fn samples(&self, pool: &Name) -> bool {
        self.pools.lock().by_name.get(pool).is_some_and(|known| known.is_sampled)
    }
}

impl KnownPool {
    /// Returns the number of the last step.
    fn last(&self) -> u32 {
        self.steps.back().map_or(0, |last| last.at)
    }
}

impl PoolStep {
    /// Creates a step with the current usage of a pool.
    pub(super) fn new(in_use: u32, capacity: u32, waiters: u32) -> PoolStep {
        PoolStep { at: 0, in_use, capacity, waiters }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const OPEN: UsageSource<'static> = UsageSource::Page(&None);

    fn pool(name: &str) -> Name {
        Name::parse(Bytes::copy_from_slice(name.as_bytes())).unwrap()
    }

    fn fill(history: &PoolHistory, source: UsageSource<'_>, prefix: &str) {
        for number in 0..2 * POOLS_MAX {
            let name = pool(&format!("{prefix}{number}"));
            history.record_at(source, &name, PoolStep::default(), 1_000);
        }
    }

    fn count(history: &PoolHistory, is_sampled: bool) -> usize {
        let pools = history.pools.lock();
        pools.by_name.values().filter(|pool| pool.is_sampled == is_sampled).count()
    }

    #[test]
    fn pools_are_remembered_for_15_minutes() {
        assert_eq!(size_of::<PoolStep>(), 16);
        let (history, name, start) = (PoolHistory::default(), pool("p"), 1_000);
        history.record_at(OPEN, &name, PoolStep::new(3, 5, 1), start);
        history.record_at(UsageSource::Sample, &name, PoolStep::new(2, 6, 0), start);
        history.record_at(OPEN, &name, PoolStep::new(1, 6, 0), start + 2);
        let steps = history.steps_at(&name, start + 3);
        assert_eq!(steps.len(), STEPS);
        let seen = |step: &Option<PoolStep>| step.map(|it| (it.in_use, it.capacity, it.waiters));
        let last: Vec<_> = steps[STEPS - 3..].iter().map(seen).collect();
        assert_eq!(last, [Some((3, 6, 1)), None, Some((1, 6, 0))]);
        assert_eq!(history.steps_at(&name, start + 2).iter().flatten().count(), 1);
        assert!(history.steps_at(&pool("q"), start + 3).iter().all(Option::is_none));
        let later = start + 2 * AGE_MAX;
        history.record_at(OPEN, &name, PoolStep::new(9, 9, 9), later);
        assert_eq!(history.pools.lock().by_name[&name].steps.len(), 1);
        // A machine that has just started has only a few steps.
        history.record_at(OPEN, &pool("early"), PoolStep::new(1, 1, 0), 0);
        assert_eq!(history.steps_at(&pool("early"), 1)[STEPS - 1].unwrap().in_use, 1);
    }

    #[test]
    fn the_number_of_pools_is_bounded_in_total_and_by_caller() {
        let history = PoolHistory::default();
        let [greedy, other] = ["greedy", "other"].map(|name| Some(name.into()));
        fill(&history, UsageSource::Page(&greedy), "greedy");
        assert_eq!(count(&history, false), POOLS_MAX / 2);
        fill(&history, UsageSource::Page(&other), "other");
        assert_eq!(count(&history, false), POOLS_MAX * 3 / 4);
        fill(&history, OPEN, "open");
        assert_eq!(count(&history, false), POOLS_MAX);
        history.record_at(OPEN, &pool("new"), PoolStep::default(), 1_000 + AGE_MAX);
        assert_eq!(count(&history, false), 1);
    }

    #[test]
    fn sampled_pools_replace_others() {
        let history = PoolHistory::default();
        fill(&history, OPEN, "shown");
        fill(&history, UsageSource::Sample, "sampled");
        assert_eq!([count(&history, true), count(&history, false)], [POOLS_MAX, 0]);
        assert!(history.samples(&pool("sampled0")) && !history.samples(&pool("sampled1000")));
        fill(&history, OPEN, "shown");
        assert_eq!([count(&history, true), count(&history, false)], [POOLS_MAX, 0]);
    }
}
