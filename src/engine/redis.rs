//! Decides in Redis: one decision is one item of an EVALSHA, one round trip.
//!
//! A decision goes to the node that has its hash slot, by a lane of the thread that its
//! call is on: what has arrived there goes together. While a node is known to be down
//! calls fail at once; a probe finds out when it is back.
//!
//! - `address`, `source`: one URL, and where that leads
//! - `topology`, `cluster`, `map`, `slot`: which node has what
//! - `node`, `monitor`, `fitness`, `leader`: a node, whether it answers and takes writes, whether
//!   it is fit, and whether it is the one that led before
//! - `skew`: how far fencing tokens run ahead of a primary's clock
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
pub(super) mod index;
mod job;
mod lane;
mod leader;
mod listing;
mod map;
mod monitor;
mod node;
mod options;
mod round;
mod skew;
mod slot;
mod source;
mod topology;

use std::{
    fmt,
    pin::Pin,
    slice,
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
    budget::{self, Limit},
    confirmation::Confirmation,
    decision::{Arguments, Call, Cost, Decision},
    error::Error,
    script::Script,
    time::{Clock, Millis, monotonic},
};
pub use archive::{Keyspace, unfinished_import};
use evaluate::Scripts;
use index::{Index, Note};
use job::{Answer, Job, Pending, Sending};
use lane::Shared;
use listing::Noting;
use node::Plan;
pub use options::{Eviction, RedisOptions};
use skew::Skew;
use topology::Topology;

/// The longest that a call waits for Redis, whatever its deadline: a peer that
/// vanished without a word must not keep connections for longer.
const ATTEMPT_MAX: Duration = Duration::from_secs(5);
/// What the sweeper sends.
const UPKEEP: Sending = Sending {
    repeatable: true,
    confirmation: Confirmation::NONE,
    is_upkeep: true,
    goes_first: false,
    cost: Cost::of(20),
};
/// What is sent for listings.
const LISTING: Sending = Sending { is_upkeep: false, ..UPKEEP };

/// What a decision is of its call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    All,
    First,
    Next,
}

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
            skew: Skew::new(),
            probe_key: format!("{}:probe", options.key_prefix),
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
        let now = monotonic();
        Job::new(script, arguments, slot, sending, (now, deadline.min(now + ATTEMPT_MAX)))
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
        // Those that free capacity go on where it is used up.
        let is_exempt = is_upkeep || decision.frees_capacity();
        let _permit = if is_exempt { None } else { Some(self.permit()?) };
        let (partition, listing) = (decision.partition(), decision.listing());
        let epoch = self.epoch();
        let pending = self.send_decision(decision, decision.cost(), Part::All, deadline);
        let note = self
            .index
            .due(partition, listing, epoch)
            .map(|note| self.note::<D>(partition, note, deadline));
        let answer = pending.wait().await;
        if let Some(note) = note {
            self.noted(note, partition, epoch).await;
        }
        let answer = answer?;
        if answer.repeated {
            self.note_again(slice::from_ref(decision), deadline).await;
        }
        let outcome = settled(decision, answer)?;
        let sooner = decision.ends_sooner(&outcome);
        if let Some(length) = sooner {
            self.note_sooner::<D>(partition, length, deadline).await;
        }
        Ok(outcome)
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
        let in_bulk = Cost::are_bulk(decisions.iter().map(D::cost));
        // In order: what was enqueued first is the older one.
        let send = |(number, decision): (usize, &D)| {
            let part = if number > 0 { Part::Next } else { Part::First };
            self.send_decision(decision, decision.cost().apart(in_bulk), part, deadline)
        };
        let pending: Vec<Pending> = decisions.iter().enumerate().map(send).collect();
        let note = |(partition, note): &(&[u8], Note)| self.note::<D>(partition, *note, deadline);
        let notes: Vec<Noting> = unnoted.iter().map(note).collect();
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
            self.note_again(decisions, deadline).await;
        }
        // As a rule it is empty.
        let sooner: Vec<(&[u8], Millis)> = decisions
            .iter()
            .zip(&outcomes)
            .filter_map(|(decision, outcome)| {
                let length = decision.ends_sooner(outcome.as_ref().ok()?)?;
                Some((decision.partition(), length))
            })
            .collect();
        for (partition, length) in sooner {
            self.note_sooner::<D>(partition, length, deadline).await;
        }
        Ok(outcomes)
    }

    /// Room for a call in flight.
    fn permit(&self) -> Result<SemaphorePermit<'_>, Error> {
        self.calls.try_acquire().map_err(|_| {
            budget::note(Limit::CallsInFlight);
            Error::Overloaded
        })
    }

    fn send_decision<D: Decision>(
        &self,
        decision: &D,
        cost: Cost,
        part: Part,
        deadline: Instant,
    ) -> Pending {
        let sending = Sending {
            repeatable: decision.is_repeatable(),
            confirmation: decision.confirmation(),
            is_upkeep: decision.is_upkeep(),
            goes_first: decision.frees_capacity(),
            cost,
        };
        let arguments = Call::led(decision, &self.key_prefix, &*self.topology).finish();
        let (mut job, pending) = self.job(D::SCRIPT, arguments, sending, deadline);
        job.follows = part == Part::Next;
        // Of several none is refused alone: the others would be executed.
        job.sheds = part == Part::All && !sending.is_upkeep && !sending.goes_first;
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
