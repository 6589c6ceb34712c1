//! The queues that have waiting calls of this server, and the schedule of their heartbeats.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::Notify, time::timeout_at};

use tollgate_core::{
    time::{Millis, monotonic},
    waiting::Waits,
};

/// Maximum time between two heartbeats of a queue, which is the delay that a lost wake-up costs.
const TICK: Duration = Duration::from_millis(300);
/// Added to the interval for each queue, so that many queues cost the store no more than a few do.
const TICK_PER_QUEUE: Duration = Duration::from_micros(100);
/// Minimum time between two heartbeats of a queue. Slots that become free within it are passed on
/// together.
const REST: Duration = Duration::from_millis(5);
/// Maximum number of calls that have left their queue and are not reported to the store yet. The
/// queue drops the tickets of further calls when they reach the front.
pub(super) const LEFT_MAX: usize = 10_000;
/// A heartbeat is valid for this number of intervals.
const KEEP_TICKS: u32 = 5;

/// The queues with waiting calls, and their schedule.
#[derive(Debug)]
pub(super) struct Register<D> {
    queues: Mutex<WaiterQueues<D>>,
    /// Wakes the heartbeat task when the schedule changes.
    changed: Notify,
}

#[derive(Debug)]
struct WaiterQueues<D> {
    /// The queues by partition.
    by_partition: HashMap<Arc<[u8]>, WaiterQueue<D>>,
    /// The queues by the time of their next heartbeat.
    schedule: BTreeSet<(Instant, Arc<[u8]>)>,
    /// Calls that have left their queue and are not reported to the store yet, one for each waiter.
    left: HashMap<Waiter, Due<D>>,
    /// Their waiters, in order.
    leaving: VecDeque<Waiter>,
    /// Whether a heartbeat task runs.
    has_heartbeats: bool,
}

/// The partition of a queue, and a waiter in it.
type Waiter = (Arc<[u8]>, Box<[u8]>);

/// The waiting calls of this server in one queue.
#[derive(Debug)]
struct WaiterQueue<D> {
    /// A decision of one of the calls, from which heartbeats are built.
    asked: D,
    /// The numbers of the calls.
    calls: HashSet<u64>,
    /// The time of the next heartbeat.
    next: Instant,
    /// The time of the last heartbeat.
    heartbeat: Option<Instant>,
    /// The earliest lease end that a call has learned of since the last heartbeat was sent.
    frees_at: Option<Instant>,
}

/// A heartbeat to send.
#[derive(Debug)]
pub(super) struct Due<D> {
    /// The decision of a call that is or was waiting in the queue.
    pub(super) asked: D,
    /// The waiter and the number of a call that leaves the queue, if any.
    pub(super) gone: Option<(Box<[u8]>, u64)>,
}

impl<D> Default for Register<D> {
    fn default() -> Register<D> {
        let queues = WaiterQueues {
            by_partition: HashMap::new(),
            schedule: BTreeSet::new(),
            left: HashMap::new(),
            leaving: VecDeque::new(),
            has_heartbeats: false,
        };
        Register { queues: Mutex::new(queues), changed: Notify::new() }
    }
}

impl<D: Waits> Register<D> {
    /// Adds a waiting call. Returns whether the caller must start the heartbeat task.
    pub(super) fn enter(&self, asked: &D, number: u64) -> bool {
        let mut queues = self.lock();
        let now = monotonic();
        if let Some(line) = queues.by_partition.get_mut(asked.partition()) {
            line.calls.insert(number);
        } else {
            let partition: Arc<[u8]> = asked.partition().into();
            let (asked, calls) = (asked.clone(), HashSet::from([number]));
            let line = WaiterQueue { asked, calls, next: now, heartbeat: None, frees_at: None };
            queues.by_partition.insert(partition.clone(), line);
            queues.schedule.insert((now, partition));
            self.changed.notify_one();
        }
        !std::mem::replace(&mut queues.has_heartbeats, true)
    }

    /// Removes a call. The heartbeats of a queue end with its last call.
    pub(super) fn exit(&self, partition: &[u8], number: u64) {
        let mut queues = self.lock();
        let Some(line) = queues.by_partition.get_mut(partition) else { return };
        line.calls.remove(&number);
        if line.calls.is_empty()
            && let Some((partition, line)) = queues.by_partition.remove_entry(partition)
        {
            queues.schedule.remove(&(line.next, partition));
        }
    }

    /// Schedules a heartbeat that removes a call's ticket. All calls of a waiter share one ticket,
    /// so the last call counts. Returns whether the caller must start the heartbeat task.
    pub(super) fn leave(&self, asked: D, waiter: Box<[u8]>, number: u64) -> bool {
        let key: Waiter = (asked.partition().into(), waiter.clone());
        let mut queues = self.lock();
        let is_full = queues.left.len() >= LEFT_MAX;
        if let Some(due) = queues.left.get_mut(&key) {
            let latest = due.gone.as_ref().map_or(number, |(_, before)| number.max(*before));
            due.gone = Some((waiter, latest));
        } else if !is_full {
            queues.left.insert(key.clone(), Due { asked, gone: Some((waiter, number)) });
            queues.leaving.push_back(key);
        }
        self.changed.notify_one();
        !std::mem::replace(&mut queues.has_heartbeats, true)
    }

    /// Returns the number of calls that have left and are not reported yet.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.lock().left.len()
    }

    /// Returns the numbers of the calls that wait in a queue.
    pub(super) fn calls(&self, partition: &[u8]) -> Vec<u64> {
        let queues = self.lock();
        let line = queues.by_partition.get(partition);
        line.map(|line| line.calls.iter().copied().collect()).unwrap_or_default()
    }

    /// Waits for the next scheduled heartbeats, and returns at most `limit`. Returns `None` once no
    /// call is waiting; the heartbeat task must then end.
    pub(super) async fn next(&self, limit: usize) -> Option<Vec<Due<D>>> {
        loop {
            let next = {
                let mut queues = self.lock();
                let due = queues.due(limit);
                if !due.is_empty() {
                    return Some(due);
                }
                match queues.schedule.first() {
                    Some((next, _)) => *next,
                    None => {
                        queues.has_heartbeats = false;
                        return None;
                    }
                }
            };
            let _ = timeout_at(next.into(), self.changed.notified()).await;
        }
    }

    /// Records that a heartbeat was answered, and schedules the next one: at the next lease end
    /// `frees_in`, or after the interval at the latest.
    pub(super) fn answered(&self, partition: &[u8], frees_in: Option<Duration>) {
        let mut queues = self.lock();
        let (now, tick) = (monotonic(), queues.tick());
        let Some(line) = queues.by_partition.get_mut(partition) else { return };
        line.heartbeat = Some(now);
        let next = now + frees_in.map_or(tick, |due| due.min(tick));
        // A call may know of an earlier lease end, from a grant after the heartbeat was answered.
        let next = line.frees_at.map_or(next, |at| at.min(next)).max(now + REST);
        queues.reschedule(partition, next);
    }

    /// Schedules a heartbeat no later than the end of a lease, `frees_in` from now.
    pub(super) fn frees(&self, partition: &[u8], frees_in: Duration) {
        let mut queues = self.lock();
        let Some(line) = queues.by_partition.get_mut(partition) else { return };
        let at = monotonic() + frees_in;
        let at = line.heartbeat.map_or(at, |last| at.max(last + REST));
        line.frees_at = Some(line.frees_at.map_or(at, |first| first.min(at)));
        if at < line.next {
            queues.reschedule(partition, at);
            self.changed.notify_one();
        }
    }

    /// Returns the time for which a heartbeat is valid.
    pub(super) fn keep(&self) -> Millis {
        Millis((self.lock().tick() * KEEP_TICKS).as_millis() as u64)
    }

    fn lock(&self) -> MutexGuard<'_, WaiterQueues<D>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Waits> WaiterQueues<D> {
    fn tick(&self) -> Duration {
        TICK.max(TICK_PER_QUEUE * self.by_partition.len() as u32)
    }

    /// Removes and returns the heartbeats that are due, at most `limit`.
    fn due(&mut self, limit: usize) -> Vec<Due<D>> {
        // Requests to leave use at most half of a batch, so that renewals are not delayed.
        let left = self.leaving.len().min(limit / 2);
        let leaving = self.leaving.drain(..left);
        let mut due: Vec<Due<D>> = leaving.filter_map(|waiter| self.left.remove(&waiter)).collect();
        let now = monotonic();
        while due.len() < limit {
            let Some((at, partition)) = self.schedule.first().cloned() else { break };
            if at > now {
                break;
            }
            // This is in case no answer arrives; an answer schedules it again.
            let later = now + self.tick();
            self.reschedule(&partition, later);
            if let Some(line) = self.by_partition.get_mut(&partition) {
                line.frees_at = None;
                due.push(Due { asked: line.asked.clone(), gone: None });
            }
        }
        due
    }

    fn reschedule(&mut self, partition: &[u8], next: Instant) {
        let Some((key, _)) = self.by_partition.get_key_value(partition) else { return };
        let key = key.clone();
        if let Some(line) = self.by_partition.get_mut(partition) {
            self.schedule.remove(&(line.next, key.clone()));
            line.next = next;
            self.schedule.insert((next, key));
        }
    }
}
