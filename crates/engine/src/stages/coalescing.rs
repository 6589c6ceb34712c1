//! The coalescer combines decisions on one partition that arrive while another is being decided.
//!
//! NextSequence uses it on Redis, where a round trip is expensive and all callers of a sequence
//! need the same key. A task per busy partition dequeues the waiting decisions in order of arrival,
//! merges adjacent ones where [`Joined::join`] allows it, decides them in one batch and distributes
//! the outcomes. The task ends when its partition has no waiting decisions.
//!
//! There is no timer: a decision on an idle partition is decided immediately, and the batch size
//! follows the load. The outcomes are the same as if the decisions were made one by one in order of
//! arrival. If a merged decision is refused, its parts are decided one by one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::{sync::oneshot, time::timeout_at};

use crate::{
    Batch, Engine,
    budget::{self, Place, Places, ReachedLimit},
    embedded::Sharded,
    hub::Hub,
};
use tollgate_core::{Decision, Joined, error::Error, time::monotonic};
use tollgate_telemetry::spans::{self, CallSpan, Calls, Within};

/// Maximum number of preparations of a batch. More than one is needed if other servers use up the
/// result in between.
const PREPARATIONS_MAX: usize = 4;
/// One partition may use a quarter of the places for waiting decisions, so that a slow partition
/// leaves room for others.
const PARTITION_DIVISOR: usize = 4;
/// Maximum number of decisions of a partition in one batch.
const DECISIONS_MAX: usize = 512;

/// Decides batches for the coalescer. A clone decides for the same store.
pub(crate) trait DecideBatch<D: Decision>: Clone + Send + Sync + 'static {
    /// Returns one result for each decision, in order, by `deadline`.
    fn decide_batch(
        &self,
        decisions: Vec<D>,
        deadline: Instant,
    ) -> impl Future<Output = Batch<D::Outcome>> + Send;
}

/// The coalescer of one kind of decision.
#[derive(Debug)]
pub(crate) struct Coalescer<D: Decision> {
    /// The waiting decisions by partition. An entry exists while a task decides for its partition.
    waiting: Mutex<CoalescerQueues<D>>,
    /// The places of waiting decisions.
    places: Arc<Places>,
}

/// The decisions that wait.
#[derive(Debug)]
struct CoalescerQueues<D: Decision> {
    /// The lines by partition, each in order of arrival; an entry exists while its task runs.
    lines: HashMap<Box<[u8]>, Vec<CoalescedCall<D>>>,
    /// The number of the next decision.
    next: u64,
}

#[derive(Debug)]
struct CoalescedCall<D: Decision> {
    number: u64,
    decision: D,
    deadline: Instant,
    reply: oneshot::Sender<Result<D::Outcome, Error>>,
    /// The sampled call. It is passed on because another task decides.
    calls: Option<Calls>,
    /// Released when the batch is formed, even if the call was cancelled.
    _place: Place,
}

/// Runs the coalescing stage, which decides together with other calls of the partition, as
/// [`Coalescer::run`] describes.
pub(crate) async fn run<D>(
    engine: &Arc<Engine>,
    decision: D,
    deadline: Instant,
) -> Result<D::Outcome, Error>
where
    D: Joined<State: Sharded, Outcome: Clone, Preparation: Decision<State: Sharded>>,
{
    Coalescer::lookup(engine.hub()).run(engine.clone(), decision, deadline).await
}

impl<D: Decision> Coalescer<D> {
    /// Returns the coalescer of this kind of decision.
    pub(crate) fn lookup(hub: &Hub) -> &Arc<Coalescer<D>> {
        hub.by_type(|| Arc::new(Coalescer::new(hub.coalesced().clone())))
    }

    /// Creates a coalescer with these places for the waiting decisions of all partitions. Further
    /// decisions fail with [`Error::Overloaded`].
    pub(crate) fn new(places: Arc<Places>) -> Coalescer<D> {
        Coalescer {
            waiting: Mutex::new(CoalescerQueues { lines: HashMap::new(), next: 0 }),
            places,
        }
    }
}

impl<D: Joined<Outcome: Clone>> Coalescer<D> {
    /// Decides `decision` together with others of its partition. Fails with [`Error::Overloaded`]
    /// if `deadline` passes before the decision is in a batch, in which case it is not executed.
    /// Fails with [`Error::DeadlineExceeded`] if it passes later, in which case the decision may
    /// have been executed.
    pub(crate) async fn run(
        self: &Arc<Self>,
        decider: impl DecideBatch<D>,
        decision: D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        let full = || budget::overloaded(ReachedLimit::Waiters);
        let place = self.places.take().ok_or_else(full)?;
        let partition: Box<[u8]> = decision.partition().into();
        let (reply, answer) = oneshot::channel();
        let calls = spans::current();
        let waiting = CoalescedCall { number: 0, decision, deadline, reply, calls, _place: place };
        let (number, is_first) = self.push(&partition, waiting)?;
        if is_first {
            // Runs as a task, since the caller may be cancelled while others of the partition wait.
            let partition = partition.clone();
            tokio::spawn(PartitionDriver { coalescer: self.clone(), decider, partition }.drive());
        }
        match timeout_at(deadline.into(), answer).await {
            Ok(Ok(outcome)) => outcome,
            Err(_) if self.withdraw(&partition, number) => Err(late()),
            // It may have been executed.
            Ok(Err(_)) | Err(_) => Err(Error::DeadlineExceeded),
        }
    }

    /// Appends a decision to its partition's queue. Returns its number, and whether a task must be
    /// started.
    fn push(&self, partition: &[u8], mut waiting: CoalescedCall<D>) -> Result<(u64, bool), Error> {
        let mut queues = self.lock();
        let number = queues.next;
        waiting.number = number;
        let is_first = match queues.lines.get_mut(partition) {
            Some(line) if line.len() >= self.places.max() / PARTITION_DIVISOR => {
                return Err(budget::overloaded(ReachedLimit::Waiters));
            }
            Some(line) => {
                line.push(waiting);
                false
            }
            None => {
                queues.lines.insert(partition.into(), vec![waiting]);
                true
            }
        };
        queues.next += 1;
        Ok((number, is_first))
    }

    /// Removes a decision from its line. Returns false if it is already in a batch.
    fn withdraw(&self, partition: &[u8], number: u64) -> bool {
        let mut queues = self.lock();
        let Some(line) = queues.lines.get_mut(partition) else { return false };
        let found = line.binary_search_by_key(&number, |waiting| waiting.number);
        found.map(|place| drop(line.remove(place))).is_ok()
    }

    fn lock(&self) -> MutexGuard<'_, CoalescerQueues<D>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<D: Joined<Outcome: Clone>, T: DecideBatch<D>> PartitionDriver<D, T> {
    /// Decides a batch and sends each caller its outcome.
    async fn decide(&self, taken: Vec<CoalescedCall<D>>) {
        let now = monotonic();
        let (mut decisions, mut replies) = (Vec::new(), Vec::new());
        // The batch runs until the last deadline of its calls.
        let mut until = now;
        let mut calls: Vec<CallSpan> = Vec::new();
        for one in taken {
            // The call was cancelled.
            if one.reply.is_closed() {
                continue;
            }
            if one.deadline <= now {
                let _ = one.reply.send(Err(late()));
                continue;
            }
            until = until.max(one.deadline);
            calls.extend(one.calls.iter().flat_map(|calls| calls.iter().cloned()));
            decisions.push(one.decision);
            replies.push(one.reply);
        }
        let calls = (!calls.is_empty()).then(|| Calls::from(calls));
        let (heads, sizes) = join(&decisions);
        let outcomes = split(self.decide_within(heads, until, &calls).await, &sizes, &decisions);
        // Refused as a group, so decide each alone, since some may be granted.
        let open = outcomes.iter().zip(decisions).filter(|(outcome, _)| outcome.is_none());
        let open: Vec<D> = open.map(|(_, decision)| decision).collect();
        let mut again = match open.len() {
            0 => Vec::new().into_iter(),
            number => all(self.decide_within(open, until, &calls).await, number).into_iter(),
        };
        for (reply, outcome) in replies.into_iter().zip(outcomes) {
            if let Some(outcome) = outcome.or_else(|| again.next()) {
                // A cancelled caller has dropped its receiver.
                let _ = reply.send(outcome);
            }
        }
    }
}

/// Merges adjacent decisions that can be joined. Returns the merged decisions, and how many
/// decisions each contains.
fn join<D: Joined>(decisions: &[D]) -> (Vec<D>, Vec<usize>) {
    let mut heads: Vec<(D, usize)> = Vec::new();
    for decision in decisions {
        if let Some((head, size)) = heads.last_mut()
            && head.join(decision)
        {
            *size += 1;
        } else {
            heads.push((decision.clone(), 1));
        }
    }
    heads.into_iter().unzip()
}

/// Splits the outcomes of merged decisions. Returns `None` for decisions that must be decided
/// alone.
fn split<D: Joined<Outcome: Clone>>(
    outcomes: Batch<D::Outcome>,
    sizes: &[usize],
    decisions: &[D],
) -> Vec<Option<Result<D::Outcome, Error>>> {
    let (mut split, mut rest) = (Vec::with_capacity(decisions.len()), decisions);
    for (outcome, size) in all(outcomes, sizes.len()).into_iter().zip(sizes) {
        let (joined, behind) = rest.split_at(*size);
        rest = behind;
        match outcome {
            Ok(outcome) if *size > 1 => match D::split(&outcome, joined) {
                Some(parts) => split.extend(parts.into_iter().map(|part| Some(Ok(part)))),
                None => split.extend(joined.iter().map(|_| None)),
            },
            outcome => split.extend(joined.iter().map(|_| Some(outcome.clone()))),
        }
    }
    split
}

/// Returns one result for each of `number` decisions: an error of the batch becomes the error of
/// each.
fn all<T: Clone>(outcomes: Batch<T>, number: usize) -> Vec<Result<T, Error>> {
    outcomes.unwrap_or_else(|error| vec![Err(error); number])
}

/// The task that decides for one partition.
struct PartitionDriver<D: Joined<Outcome: Clone>, T: DecideBatch<D>> {
    coalescer: Arc<Coalescer<D>>,
    decider: T,
    partition: Box<[u8]>,
}

impl<D: Joined<Outcome: Clone>, T: DecideBatch<D>> PartitionDriver<D, T> {
    /// Decides batches until no decision is waiting.
    async fn drive(self) {
        while let Some(taken) = self.next() {
            self.decide(taken).await;
        }
    }

    /// Decides a batch, within the spans of these sampled calls.
    async fn decide_within(
        &self,
        decisions: Vec<D>,
        until: Instant,
        calls: &Option<Calls>,
    ) -> Batch<D::Outcome> {
        Within::new(calls.clone(), self.decider.decide_batch(decisions, until)).await
    }

    /// Dequeues the next batch. If no decision is waiting, removes the partition's entry and ends
    /// the task.
    fn next(&self) -> Option<Vec<CoalescedCall<D>>> {
        let mut queues = self.coalescer.lock();
        let line = queues.lines.get_mut(&self.partition)?;
        if line.is_empty() {
            queues.lines.remove(&self.partition);
            return None;
        }
        let number = line.len().min(DECISIONS_MAX);
        Some(line.drain(..number).collect())
    }
}

impl<D: Joined<Outcome: Clone>, T: DecideBatch<D>> Drop for PartitionDriver<D, T> {
    fn drop(&mut self) {
        // After a panic, waiting callers must not hang, and the next decision must start a new
        // task. Dropping the queue drops their senders.
        if std::thread::panicking() {
            self.coalescer.lock().lines.remove(&self.partition);
        }
    }
}

/// Returns the error of a decision that was in no batch by its deadline, and counts the refusal.
fn late() -> Error {
    budget::overloaded(ReachedLimit::Overload)
}

impl<D> DecideBatch<D> for Arc<Engine>
where
    D: Joined<State: Sharded, Outcome: Clone, Preparation: Decision<State: Sharded>>,
{
    /// Decides a batch. Decisions that lack a preparation are decided again after it, up to
    /// [`PREPARATIONS_MAX`] times.
    async fn decide_batch(&self, decisions: Vec<D>, deadline: Instant) -> Batch<D::Outcome> {
        let mut outcomes = self.store_all(&decisions, deadline).await?;
        for _ in 0..PREPARATIONS_MAX {
            let lacking =
                outcomes.iter().zip(&decisions).enumerate().filter_map(|(index, pair)| {
                    let (outcome, decision) = pair;
                    let outcome =
                        outcome.as_ref().ok().filter(|outcome| D::is_unprepared(outcome))?;
                    Some((index, (decision.clone(), outcome.clone())))
                });
            let (places, lacking): (Vec<usize>, Vec<_>) = lacking.unzip();
            let Some(preparation) = D::preparation(&lacking) else { break };
            let decided = match self.store(&preparation, deadline).await {
                Ok(prepared) => {
                    let again = lacking.iter().map(|(decision, _)| decision.prepared(&prepared));
                    let again: Vec<D> = again.collect();
                    self.store_all(&again, deadline).await
                }
                Err(error) => Err(error),
            };
            let decided = all(decided, places.len());
            for (place, outcome) in places.into_iter().zip(decided) {
                outcomes[place] = outcome;
            }
        }
        Ok(outcomes)
    }
}

#[cfg(test)]
mod tests;
