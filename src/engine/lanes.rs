//! Joins decisions on one partition that arrive while another one is on its way.
//!
//! Each partition that is being asked for has a lane: a task that takes what has
//! arrived, in order, and decides it in one go, until nothing more is there. There
//! is no timer: a decision that finds no lane is on its way at once.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::timeout_at,
};

use crate::{
    budget::{self, Limit},
    decision::{Decision, Joined},
    error::Error,
    time::monotonic,
};

/// Decisions that wait at most, in all lanes; further ones are refused at once.
const WAITING_MAX: usize = 4096;
/// Decisions that wait at most in one lane: a partition that is held up leaves room
/// for the others.
const LANE_MAX: usize = 1024;
/// Decisions that a lane takes in one go.
const TAKE_MAX: usize = 512;

/// What each of several decisions was answered, if they could be taken at all.
pub type Outcomes<T> = Result<Vec<Result<T, Error>>, Error>;

/// Takes decisions on one partition, in order.
pub trait Take<D: Decision>: Send + Sync + 'static {
    /// Returns an outcome for each, by `deadline`.
    fn take(
        &self,
        decisions: Vec<D>,
        deadline: Instant,
    ) -> impl Future<Output = Outcomes<D::Outcome>> + Send;
}

/// The lanes of one kind of decision.
#[derive(Debug)]
pub struct Lanes<D: Joined, T> {
    take: T,
    /// What waits, by partition; an entry is a lane that runs.
    waiting: Mutex<Queues<D>>,
    places: Arc<Semaphore>,
}

type Queues<D> = HashMap<Box<[u8]>, Vec<Waiting<D>>>;

#[derive(Debug)]
struct Waiting<D: Decision> {
    decision: D,
    deadline: Instant,
    reply: oneshot::Sender<Result<D::Outcome, Error>>,
    /// Held until it is taken, though its caller may be gone.
    _place: OwnedSemaphorePermit,
}

impl<D: Joined<Outcome: Clone>, T: Take<D>> Lanes<D, T> {
    /// No lanes yet.
    pub fn new(take: T) -> Arc<Lanes<D, T>> {
        let places = Arc::new(Semaphore::new(WAITING_MAX));
        Arc::new(Lanes { take, waiting: Mutex::default(), places })
    }

    /// Takes a decision, together with those that wait beside it.
    pub async fn run(
        self: &Arc<Self>,
        decision: D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| refused())?;
        let partition: Box<[u8]> = decision.partition().into();
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { decision, deadline, reply, _place: place };
        if self.push(&partition, waiting)? {
            // A task of its own: the caller may go away, those behind it wait on.
            tokio::spawn(Lane { lanes: self.clone(), partition }.drive());
        }
        match timeout_at(deadline.into(), answer).await {
            Ok(Ok(outcome)) => outcome,
            // It may be on its way.
            Ok(Err(_)) | Err(_) => Err(Error::DeadlineExceeded),
        }
    }

    /// Whether it is the first of its partition: no lane runs yet.
    fn push(&self, partition: &[u8], waiting: Waiting<D>) -> Result<bool, Error> {
        let mut lanes = self.lock();
        match lanes.get_mut(partition) {
            Some(lane) if lane.len() >= LANE_MAX => Err(refused()),
            Some(lane) => {
                lane.push(waiting);
                Ok(false)
            }
            None => {
                lanes.insert(partition.into(), vec![waiting]);
                Ok(true)
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queues<D>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides what was taken from a lane.
    async fn decide(&self, taken: Vec<Waiting<D>>) {
        let now = monotonic();
        let (mut decisions, mut replies) = (Vec::new(), Vec::new());
        let mut until = now;
        // Nobody waits for the others any more.
        for one in taken.into_iter().filter(|one| one.deadline > now && !one.reply.is_closed()) {
            until = until.max(one.deadline);
            decisions.push(one.decision);
            replies.push(one.reply);
        }
        let (heads, sizes) = join(&decisions);
        let shared = share(self.take.take(heads, until).await, &sizes, &decisions);
        // Those that were refused together are decided each by itself.
        let open = shared.iter().zip(decisions).filter(|(outcome, _)| outcome.is_none());
        let open: Vec<D> = open.map(|(_, decision)| decision).collect();
        let mut again = match open.len() {
            0 => Vec::new().into_iter(),
            number => all(self.take.take(open, until).await, number).into_iter(),
        };
        for (reply, outcome) in replies.into_iter().zip(shared) {
            if let Some(outcome) = outcome.or_else(|| again.next()) {
                // A caller that has gone away has chosen not to know.
                let _ = reply.send(outcome);
            }
        }
    }
}

/// Decisions that follow each other and can be joined, joined; and how many each
/// one stands for.
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

/// The outcome of each decision, none where it has to be decided by itself.
fn share<D: Joined<Outcome: Clone>>(
    outcomes: Outcomes<D::Outcome>,
    sizes: &[usize],
    decisions: &[D],
) -> Vec<Option<Result<D::Outcome, Error>>> {
    let (mut shared, mut rest) = (Vec::with_capacity(decisions.len()), decisions);
    for (outcome, size) in all(outcomes, sizes.len()).into_iter().zip(sizes) {
        let (joined, behind) = rest.split_at(*size);
        rest = behind;
        match outcome {
            Ok(outcome) if *size > 1 => match D::share(&outcome, joined) {
                Some(parts) => shared.extend(parts.into_iter().map(|part| Some(Ok(part)))),
                None => shared.extend(joined.iter().map(|_| None)),
            },
            outcome => shared.extend(joined.iter().map(|_| Some(outcome.clone()))),
        }
    }
    shared
}

/// An outcome for each of so many decisions.
fn all<T: Clone>(outcomes: Outcomes<T>, number: usize) -> Vec<Result<T, Error>> {
    outcomes.unwrap_or_else(|error| vec![Err(error); number])
}

/// A lane that runs.
struct Lane<D: Joined<Outcome: Clone>, T: Take<D>> {
    lanes: Arc<Lanes<D, T>>,
    partition: Box<[u8]>,
}

impl<D: Joined<Outcome: Clone>, T: Take<D>> Lane<D, T> {
    async fn drive(self) {
        while let Some(taken) = self.next() {
            self.lanes.decide(taken).await;
        }
    }

    /// What has arrived; with nothing there the lane is no more.
    fn next(&self) -> Option<Vec<Waiting<D>>> {
        let mut lanes = self.lanes.lock();
        let lane = lanes.get_mut(&self.partition)?;
        if lane.is_empty() {
            lanes.remove(&self.partition);
            return None;
        }
        let number = lane.len().min(TAKE_MAX);
        Some(lane.drain(..number).collect())
    }
}

impl<D: Joined<Outcome: Clone>, T: Take<D>> Drop for Lane<D, T> {
    fn drop(&mut self) {
        // Ended in mid-way, those that wait must not wait for it, and the next to
        // come must start another.
        if std::thread::panicking() {
            self.lanes.lock().remove(&self.partition);
        }
    }
}

/// The refusal of a decision that has no place, counted.
fn refused() -> Error {
    budget::note(Limit::Waiters);
    Error::Overloaded
}

#[cfg(test)]
mod tests;
