//! Decides in Redis: one decision is one item of an EVALSHA, one round trip.
//!
//! A decision goes to the node that has its hash slot, by a lane of the thread that its
//! call is on: what has arrived there goes together. While a node is known to be down
//! calls fail at once; a probe finds out when it is back.
//!
//! - `address`, `source`: one URL, and where that leads
//! - `topology`, `cluster`, `map`, `slot`: which node has what
//! - `node`, `monitor`, `fitness`, `leader`: a node, whether it answers, whether it is fit,
//!   and whether it is the one that led before
//! - `lane`, `job`, `batch`, `connection`, `evaluate`, `confirm`: the way there and back
//! - `index`, `listing`, `round`, `hints`: what is done beside the calls
//! - `archive`: every key, for exports and imports

pub mod address;
mod archive;
mod batch;
mod cluster;
mod confirm;
mod connection;
mod evaluate;
mod fitness;
mod hints;
mod index;
mod job;
mod lane;
mod leader;
mod listing;
mod map;
mod monitor;
mod node;
mod options;
mod round;
mod slot;
mod source;
mod topology;

use std::{
    fmt,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Semaphore, SemaphorePermit, watch};

use super::{
    PartitionCursor, PartitionPage, StoreState, denials::Denials, hub::Hub, stand_in::StandIn,
};
use crate::{
    confirmation::Confirmation,
    decision::{Arguments, Call, Decision, Listing},
    error::Error,
    script::Script,
    time::{Clock, monotonic},
};
pub use archive::{Keyspace, unfinished_import};
use evaluate::Scripts;
use index::Index;
use job::{Answer, Job, Pending, Sending};
use lane::Shared;
use node::Plan;
pub use options::{Eviction, RedisOptions};
use topology::Topology;

/// The longest that a call waits for Redis, whatever its deadline: a peer that
/// vanished without a word must not keep connections for longer.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
/// What the sweeper sends.
const UPKEEP: Sending =
    Sending { repeatable: true, confirmation: Confirmation::NONE, is_upkeep: true };
/// What is sent for listings.
const LISTING: Sending = Sending { is_upkeep: false, ..UPKEEP };

/// The Redis engine.
pub struct Redis {
    topology: Arc<Topology>,
    shared: Arc<Shared>,
    calls: Semaphore,
    index: Index,
    hub: Arc<Hub>,
    pub(super) denials: Box<Denials>,
    pub(super) stand_in: Box<StandIn>,
    key_prefix: String,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("topology", &self.topology).finish_non_exhaustive()
    }
}

impl Redis {
    /// An engine on this Redis, which need not answer yet. The error says what
    /// is wrong with the URL.
    pub fn new(options: &RedisOptions) -> Result<Redis, String> {
        let address = options.address()?;
        let shared = Arc::new(Shared {
            scripts: Scripts::new(options.clock.as_deref()),
            batch_max: options.batch_max,
            topology: OnceLock::new(),
            losses: AtomicU64::new(0),
            failovers: AtomicU64::new(0),
        });
        let plan = Plan {
            shared: shared.clone(),
            eviction: options.eviction,
            connections: options.connections,
            workers: options.workers,
        };
        let topology = Arc::new(Topology::new(address, plan));
        // It is set once, here.
        let _ = shared.topology.set(Arc::downgrade(&topology));
        Ok(Redis {
            shared,
            topology,
            calls: Semaphore::new(options.calls_max),
            index: Index::default(),
            hub: Hub::new(&options.key_prefix),
            denials: Box::new(Denials::new(Clock::system())),
            stand_in: Box::new(StandIn::new(options.replicas)),
            key_prefix: options.key_prefix.clone(),
        })
    }

    /// Why this Redis must not be used as it is set up, and what to do about it; none
    /// where it does not answer soon: it is found out later.
    pub async fn unfit(&self) -> Option<String> {
        self.topology.unfit().await
    }

    fn job(
        &self,
        script: &'static Script,
        arguments: Arguments,
        sending: Sending,
        deadline: Instant,
    ) -> (Job, Pending) {
        let slot = self.topology.slot(arguments.keys().next().unwrap_or_default());
        let deadline = deadline.min(monotonic() + ATTEMPT_MAX);
        Job::new(script, arguments, slot, sending, deadline)
    }

    /// Sends a decision on its way.
    fn send(
        &self,
        script: &'static Script,
        arguments: Arguments,
        sending: Sending,
        deadline: Instant,
    ) -> Pending {
        let (job, pending) = self.job(script, arguments, sending, deadline);
        self.topology.push(job);
        pending
    }

    pub(super) async fn run<D: Decision>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        self.check()?;
        let is_upkeep = decision.is_upkeep();
        let _permit = if is_upkeep { None } else { Some(self.permit()?) };
        let (partition, listing) = (decision.partition(), decision.listing());
        let epoch = self.epoch();
        let pending = self.send_decision(decision, false, deadline);
        let note = self
            .index
            .is_due(partition, listing, epoch)
            .then(|| self.note::<D>(partition, listing, deadline));
        let answer = pending.wait().await;
        if let Some(note) = note {
            self.noted(note, partition, epoch).await;
        }
        let answer = answer?;
        if answer.repeated {
            self.note_again::<D>(&[(partition, listing)], deadline).await;
        }
        settled(decision, answer)
    }

    pub(super) async fn run_all<D: Decision>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Result<Vec<Result<D::Outcome, Error>>, Error> {
        self.check()?;
        let is_upkeep = decisions.iter().all(D::is_upkeep);
        let _permit = if is_upkeep { None } else { Some(self.permit()?) };
        let epoch = self.epoch();
        let unnoted = self.unnoted(decisions, epoch);
        // In order: what was enqueued first is the older one.
        let send = |(number, decision)| self.send_decision(decision, number > 0, deadline);
        let pending: Vec<Pending> = decisions.iter().enumerate().map(send).collect();
        let note =
            |(partition, listing): &(&[u8], Listing)| self.note::<D>(partition, *listing, deadline);
        let notes: Vec<Pending> = unnoted.iter().map(note).collect();
        let (mut outcomes, mut again) = (Vec::with_capacity(decisions.len()), false);
        for (pending, decision) in pending.into_iter().zip(decisions) {
            outcomes.push(match pending.wait().await {
                Ok(answer) => {
                    again |= answer.repeated;
                    settled(decision, answer)
                }
                Err(error) => Err(error),
            });
        }
        for (note, (partition, _)) in notes.into_iter().zip(&unnoted) {
            self.noted(note, partition, epoch).await;
        }
        if again {
            self.note_again::<D>(&self.unnoted(decisions, self.epoch()), deadline).await;
        }
        Ok(outcomes)
    }

    /// Room for a call in flight.
    fn permit(&self) -> Result<SemaphorePermit<'_>, Error> {
        self.calls.try_acquire().map_err(|_| Error::Overloaded)
    }

    fn send_decision<D: Decision>(
        &self,
        decision: &D,
        follows: bool,
        deadline: Instant,
    ) -> Pending {
        let sending = Sending {
            repeatable: decision.is_repeatable(),
            confirmation: decision.confirmation(),
            is_upkeep: decision.is_upkeep(),
        };
        let arguments = Call::led(decision, &self.key_prefix, &*self.topology).finish();
        let (mut job, pending) = self.job(D::SCRIPT, arguments, sending, deadline);
        job.follows = follows;
        if sending.confirmation.is_needed() {
            job.judge = decision.judge(&self.key_prefix);
        }
        self.topology.push(job);
        pending
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.topology.check()
    }

    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        self.topology.state()
    }

    /// Grows when a connection is lost: the store may have lost something, too.
    pub(super) fn epoch(&self) -> u64 {
        self.shared.losses.load(Ordering::Acquire)
    }

    /// How often another primary was found than the one before, or one that had begun anew.
    pub fn failovers(&self) -> u64 {
        self.shared.failovers()
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    pub(super) async fn maintain(&self) {
        // Types as deep as the clients of all topologies: too deep for the compiler to lay
        // out within each other, in an optimized build.
        type Endless<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
        let topology: Endless<'_> = Box::pin(self.topology.maintain());
        let hints: Endless<'_> = Box::pin(hints::listen(&self.topology, &self.hub));
        tokio::join!(topology, hints);
    }
}

/// An outcome, if it says what became of the call.
fn settled<D: Decision>(decision: &D, answer: Answer) -> Result<D::Outcome, Error> {
    let Answer { mut reply, repeated } = answer;
    let outcome = D::parse(&mut reply)?;
    match repeated && !decision.settles(&outcome) {
        true => Err(Error::DeadlineExceeded),
        false => Ok(outcome),
    }
}
