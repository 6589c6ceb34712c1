//! The accounting of permits and quotas while their number changes.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::thread;

use futures_util::FutureExt;
use proptest::{collection::vec, prelude::*};

use super::*;

const MOST: usize = 20;

#[derive(Debug, Clone)]
enum Step {
    /// Changes the number of permits.
    Set(usize),
    /// Acquires permits immediately, or not at all.
    Take(u32),
    /// Waits for permits.
    Wait(u32),
    /// Returns acquired permits, or a part of them.
    Return(usize, usize),
    /// Cancels a waiter.
    Cancel(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..=MOST).prop_map(Step::Set),
        3 => (1..=5_u32).prop_map(Step::Take),
        1 => (1..=5_u32).prop_map(Step::Wait),
        3 => (0..MOST, 1..=5_usize).prop_map(|(which, part)| Step::Return(which, part)),
        1 => (0..MOST).prop_map(Step::Cancel),
    ]
}

/// Permits and their users.
struct Model {
    permits: AdjustablePermits,
    max: usize,
    acquired: Vec<OwnedSemaphorePermit>,
    waiting: Vec<Withdrawal>,
}

impl Model {
    fn in_use(&self) -> usize {
        self.acquired.iter().map(OwnedSemaphorePermit::num_permits).sum()
    }

    fn apply(&mut self, step: &Step) {
        let semaphore = self.permits.semaphore().clone();
        match *step {
            Step::Set(max) => {
                self.permits.set(max);
                self.max = max;
            }
            Step::Take(number) => {
                let fits = self.in_use() + number as usize <= self.max;
                let is_alone = self.waiting.is_empty();
                let taken = semaphore.try_acquire_many_owned(number);
                assert!(taken.is_err() || fits, "more permits than the limit were granted");
                assert!(taken.is_ok() || !fits || !is_alone, "a free permit was not granted");
                self.acquired.extend(taken);
            }
            Step::Wait(number) => {
                self.waiting.push(Box::pin(semaphore.acquire_many_owned(number)));
            }
            Step::Return(which, part) if !self.acquired.is_empty() => {
                let index = which % self.acquired.len();
                if self.acquired[index].split(part).is_none() {
                    drop(self.acquired.swap_remove(index));
                }
            }
            Step::Cancel(which) if !self.waiting.is_empty() => {
                drop(self.waiting.remove(which % self.waiting.len()));
            }
            Step::Return(..) | Step::Cancel(_) => {}
        }
        // Polls the waiter as its task would.
        let (acquired, waiting) = (&mut self.acquired, &mut self.waiting);
        waiting.retain_mut(|waiter| match waiter.now_or_never() {
            Some(permit) => {
                acquired.push(permit.unwrap());
                false
            }
            None => true,
        });
        if self.waiting.is_empty() {
            let free = self.max.saturating_sub(self.in_use());
            assert_eq!(self.permits.semaphore().available_permits(), free);
        }
    }
}

proptest! {
    /// Without waiters, exactly the limit minus the usage is free; nothing beyond it is granted,
    /// and nothing in use is revoked. At the end, every permit has been returned exactly once.
    #[test]
    fn no_permit_is_lost_or_doubled(max in 0..=MOST, steps in vec(step(), 0..200)) {
        let permits = AdjustablePermits::new(max);
        let mut model = Model { permits, max, acquired: Vec::new(), waiting: Vec::new() };
        for step in &steps {
            model.apply(step);
        }
        let Model { permits, max, acquired, waiting } = model;
        drop((acquired, waiting));
        prop_assert_eq!(permits.semaphore().available_permits(), max);
        permits.set(MOST);
        prop_assert_eq!(permits.semaphore().available_permits(), MOST);
        prop_assert!(permits.state.lock().waiting.is_empty());
    }
}

/// A lower limit is respected while other threads change it, acquire permits and return them.
#[test]
fn concurrent_changes_and_callers_leave_the_right_number_of_permits() {
    let permits = AdjustablePermits::new(MOST);
    let quota = AdjustableQuota::new(MOST);
    thread::scope(|scope| {
        for number in 1..=3 {
            let (permits, quota) = (&permits, &quota);
            scope.spawn(move || {
                for _ in 0..20_000 {
                    let acquired = permits.semaphore().clone().try_acquire_many_owned(number);
                    if quota.try_use(number as usize) {
                        quota.release(number as usize);
                    }
                    drop(acquired);
                }
            });
        }
        for round in 0..20_000 {
            permits.set(round % MOST);
            quota.set(round % MOST);
        }
    });
    for max in [3, MOST] {
        permits.set(max);
        assert_eq!(permits.semaphore().available_permits(), max);
    }
    assert_eq!(quota.used(), 0);
}

/// There are only as many waiting withdrawals as the permits in use require.
#[test]
fn many_changes_while_a_permit_is_in_use_do_not_accumulate_withdrawals() {
    let permits = AdjustablePermits::new(MOST);
    let acquired = permits.semaphore().clone().try_acquire_many_owned(MOST as u32).unwrap();
    for _ in 0..1_000 {
        permits.set(4);
        permits.set(MOST);
        assert!(permits.state.lock().waiting.is_empty());
    }
    permits.set(0);
    assert_eq!(permits.state.lock().waiting.len(), 1);
    drop(acquired);
    assert_eq!(permits.semaphore().available_permits(), 0);
}

#[test]
fn use_above_a_lower_maximum_stays_until_it_is_released() {
    let quota = AdjustableQuota::new(3);
    assert!(quota.try_use(3) && !quota.try_use(1));
    quota.set(1);
    for left in [2, 1] {
        quota.release(1);
        assert_eq!(quota.used(), left);
        assert!(!quota.try_use(1));
    }
    quota.release(1);
    quota.set(2);
    assert!(!quota.try_use(3) && quota.try_use(2) && !quota.try_use(1));
}
