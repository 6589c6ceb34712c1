//! Calls that wait for the journal.
//!
//! A thread of the journal wakes one call of each worker thread, the *leader*. The leader wakes the
//! other calls of its thread, because waking a task from another thread costs several times as
//! much.

use std::{
    mem,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

use super::super::super::worker;

/// The number of groups. Worker threads beyond it share them.
const GROUPS: usize = 16;

/// All calls that wait.
#[derive(Debug, Default)]
pub(super) struct Waiters {
    groups: [Mutex<Group>; GROUPS],
    /// The number of the last leader.
    leaders: AtomicU64,
}

/// The calls of a worker thread.
#[derive(Debug, Default)]
struct Group {
    /// The leader, by its number.
    leader: Option<(u64, Waker)>,
    others: Vec<Waker>,
}

/// A call that leads: its group and its number.
#[derive(Debug, Clone, Copy)]
struct Lead {
    group: usize,
    number: u64,
}

impl Waiters {
    /// Wakes all calls.
    pub(super) fn wake(&self) {
        for group in &self.groups {
            let leader = group.lock().leader.take();
            if let Some((_, waker)) = leader {
                waker.wake();
            }
        }
    }

    /// Adds a call to the group of this thread. Returns its lead if it is the first one.
    fn join(&self, waker: &Waker) -> Option<Lead> {
        let index = worker::number() % GROUPS;
        let mut group = self.groups[index].lock();
        if group.leader.is_some() {
            group.others.push(waker.clone());
            return None;
        }
        let number = self.leaders.fetch_add(1, Ordering::Relaxed);
        group.leader = Some((number, waker.clone()));
        Some(Lead { group: index, number })
    }

    /// Ends a lead, and wakes the other calls of the group so that they check again.
    fn end(&self, Lead { group, number }: Lead) {
        let mut group = self.groups[group].lock();
        if group.leader.as_ref().is_some_and(|(leader, _)| *leader == number) {
            group.leader = None;
        }
        let others = mem::take(&mut group.others);
        drop(group);
        others.into_iter().for_each(Waker::wake);
    }
}

/// Waits until a condition holds whose changes [`Waiters::wake`] announces.
#[derive(Debug)]
pub(super) struct SyncWait<'a, F> {
    waiters: &'a Waiters,
    is_over: F,
    lead: Option<Lead>,
}

impl<'a, F: Fn() -> bool + Unpin> SyncWait<'a, F> {
    pub(super) fn new(waiters: &'a Waiters, is_over: F) -> SyncWait<'a, F> {
        SyncWait { waiters, is_over, lead: None }
    }
}

impl<F: Fn() -> bool + Unpin> Future for SyncWait<'_, F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        if let Some(lead) = this.lead.take() {
            this.waiters.end(lead);
        }
        if (this.is_over)() {
            return Poll::Ready(());
        }
        this.lead = this.waiters.join(cx.waker());
        // It may have become true in between, without this call being woken.
        if (this.is_over)() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl<F> Drop for SyncWait<'_, F> {
    fn drop(&mut self) {
        if let Some(lead) = self.lead.take() {
            self.waiters.end(lead);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize},
    };

    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn each_call_is_woken_even_if_its_leader_is_dropped() {
        let (waiters, is_over) = (Waiters::default(), AtomicBool::new(false));
        let wait = || SyncWait::new(&waiters, || is_over.load(Ordering::SeqCst));
        let count = Arc::new(AtomicUsize::new(0));
        let waker = Waker::from(Arc::new(Counting(count.clone())));
        let mut leader = wait();
        assert!(leader.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending());
        let mut others = [wait(), wait()];
        for other in &mut others {
            assert!(other.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        }
        drop(leader);
        assert_eq!(count.load(Ordering::SeqCst), 2, "they are woken to choose another leader");
        for other in &mut others {
            assert!(other.poll_unpin(&mut Context::from_waker(&waker)).is_pending());
        }
        is_over.store(true, Ordering::SeqCst);
        waiters.wake();
        assert_eq!(count.load(Ordering::SeqCst), 3, "only the leader is woken");
        for other in &mut others {
            assert!(other.poll_unpin(&mut Context::from_waker(&waker)).is_ready());
        }
        assert_eq!(count.load(Ordering::SeqCst), 4, "the leader has woken the other one");
        assert!(wait().now_or_never().is_some());
    }

    struct Counting(Arc<AtomicUsize>);

    impl std::task::Wake for Counting {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}
