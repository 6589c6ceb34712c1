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
    sync::{Semaphore, oneshot},
    time::timeout_at,
};

use crate::{
    decision::{Decision, Joined},
    error::Error,
    time::monotonic,
};

/// Decisions that wait at most, in all lanes; further ones are refused at once.
const WAITING_MAX: usize = 4096;
/// Decisions that a lane takes in one go.
const TAKE_MAX: usize = 512;

/// What each of several decisions was answered, if they could be taken at all.
pub type Outcomes<D> = Result<Vec<Result<<D as Decision>::Outcome, Error>>, Error>;

/// Takes decisions on one partition, in order.
pub trait Take<D: Decision>: Send + Sync + 'static {
    /// Returns an outcome for each, by `deadline`.
    fn take(
        &self,
        decisions: Vec<D>,
        deadline: Instant,
    ) -> impl Future<Output = Outcomes<D>> + Send;
}

/// The lanes of one kind of decision.
#[derive(Debug)]
pub struct Lanes<D: Joined, T> {
    take: T,
    /// What waits, by partition; an entry is a lane that runs.
    waiting: Mutex<Queues<D>>,
    places: Semaphore,
}

type Queues<D> = HashMap<Box<[u8]>, Vec<Waiting<D>>>;

#[derive(Debug)]
struct Waiting<D: Decision> {
    decision: D,
    deadline: Instant,
    reply: oneshot::Sender<Result<D::Outcome, Error>>,
}

impl<D: Joined<Outcome: Clone>, T: Take<D>> Lanes<D, T> {
    /// No lanes yet.
    pub fn new(take: T) -> Arc<Lanes<D, T>> {
        let places = Semaphore::new(WAITING_MAX);
        Arc::new(Lanes { take, waiting: Mutex::default(), places })
    }

    /// Takes a decision, together with those that wait beside it.
    pub async fn run(
        self: &Arc<Self>,
        decision: D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        let _place = self.places.try_acquire().map_err(|_| Error::Overloaded)?;
        let partition: Box<[u8]> = decision.partition().into();
        let (reply, answer) = oneshot::channel();
        let waiting = Waiting { decision, deadline, reply };
        let first = {
            let mut lanes = self.lock();
            let lane = lanes.get_mut(&partition);
            match lane {
                Some(lane) => {
                    lane.push(waiting);
                    false
                }
                None => {
                    lanes.insert(partition.clone(), vec![waiting]);
                    true
                }
            }
        };
        if first {
            // A task of its own: the caller may go away, those behind it wait on.
            tokio::spawn(Lane { lanes: self.clone(), partition }.drive());
        }
        match timeout_at(deadline.into(), answer).await {
            Ok(Ok(outcome)) => outcome,
            // It may be on its way.
            Ok(Err(_)) | Err(_) => Err(Error::DeadlineExceeded),
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
        let alone = self.take.take(heads, until).await;
        let shared = share::<D>(alone, &sizes, &decisions);
        // Refused together, they are decided each by itself.
        let again: Vec<D> = shared
            .iter()
            .zip(&decisions)
            .filter(|(one, _)| one.is_none())
            .map(|(_, d)| d.clone())
            .collect();
        let again = match again.is_empty() {
            true => Vec::new(),
            false => {
                let number = again.len();
                all(self.take.take(again, until).await, number)
            }
        };
        let mut again = again.into_iter();
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
    let (mut heads, mut sizes): (Vec<D>, Vec<usize>) = (Vec::new(), Vec::new());
    for decision in decisions {
        if heads.last_mut().is_some_and(|head| head.join(decision)) {
            *sizes.last_mut().unwrap_or(&mut 0) += 1;
        } else {
            heads.push(decision.clone());
            sizes.push(1);
        }
    }
    (heads, sizes)
}

/// The outcome of each decision, none where it has to be decided by itself.
fn share<D: Joined<Outcome: Clone>>(
    outcomes: Outcomes<D>,
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
fn all<T: Clone>(
    outcomes: Result<Vec<Result<T, Error>>, Error>,
    number: usize,
) -> Vec<Result<T, Error>> {
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
