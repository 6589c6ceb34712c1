//! The Redis engine, in which a decision is one item of an EVALSHA and takes one round trip.
//!
//! `Engine` is the only caller. A decision is encoded to KEYS and ARGV (a job) and sent to the node
//! that has its hash slot, by a pipeline of the current thread. Decisions that arrive at the same
//! time are sent together. The reply is parsed into the outcome, after replicas have acknowledged
//! it if the pool or sequence requires that.
//!
//! - `address`, `options`, `source`: the URL, the settings, and where a node is
//! - `topology`, `cluster`, `map`, `slot`: the routing from a key to a node
//! - `node`, `monitor`, `preflight`, `primary_id`, `skew`: a node; its health, preflight, primary
//!   id, and the token lead over its clock
//! - `marker`, `loss`: how a loss of the store's data is recognised, reported and accepted
//! - `job`, `fair`, `pipeline`, `exchange`, `connection`, `socket`, `resp`, `evaluate`, `shared`: the
//!   pipelines, and replica acknowledgement
//! - `index`, `round`, `wake_ups`: the index of partitions for listings and the sweeper,
//!   and wake-ups; `servers` counts the servers by the channels of their wake-ups
//! - `names`: listings of names that are in no index
//! - `quota`, `name_scan`: the limits of namespaces on names, leases and queued tasks
//! - `export`: every key, for exports and imports
//!
//! # Guarantees
//! - [`Error::Unavailable`] and [`Error::Refused`] mean that Redis certainly did not execute the
//!   decision: it was never written to a socket, or the node said so. Once it was written and no
//!   reply arrives, it is unknown whether it was executed ([`Error::DeadlineExceeded`]).
//! - Only a repeatable decision is sent again, and only once, after its connection broke.
//! - While a node is known to be unreachable, its calls fail immediately. A probe every 250 ms
//!   detects when it is back.
//! - At most `calls_max` calls are in flight, and namespaces share them (`in_flight`). Decisions that
//!   free capacity are exempt.
//!
//! # Why routing is written by hand
//! redis-rs has a client for Clusters, `cluster_async`. It cannot keep the first two guarantees. It
//! sends a command again after a dropped connection without knowing whether the command is
//! repeatable. And it counts MOVED, ASK and connection errors against one retry budget, so the
//! final error does not say whether the command was executed. Here each job records whether it was
//! written to a socket, and a redirect counts as not executed.

pub mod address;
mod cluster;
mod connection;
mod declined;
mod evaluate;
mod exchange;
mod export;
mod fair;
pub(super) mod fuzz;
mod in_flight;
pub(super) mod index;
mod job;
mod loss;
mod map;
mod marker;
mod monitor;
pub(super) mod name_scan;
mod names;
mod node;
mod options;
mod pipeline;
mod preflight;
mod primary_id;
mod quota;
mod resp;
mod round;
mod servers;
mod shared;
mod skew;
mod slot;
mod socket;
mod source;
mod topology;
mod wake_ups;

use std::{
    collections::HashMap,
    fmt,
    pin::Pin,
    slice,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ahash::RandomState;
use tokio::sync::watch;

use super::{
    Batch, PartitionCursor, PartitionPage, StoreState,
    hub::Hub,
    stages::{denial_cache::DenialCache, fallback::Fallback},
};
use crate::budget::CallerLimits;
use declined::DeclinedPartitions;
use evaluate::Scripts;
pub use export::{Keyspace, unfinished_import};
use in_flight::CallsInFlight;
use index::{Index, SentRegistration};
use job::{ALONE, Job, JobAnswer, JobDelivery, Pending};
pub use marker::{LossState, OnStoreLoss, StoreLoss, is_store_id};
use node::Plan;
pub use options::RedisOptions;
pub use preflight::Eviction;
use quota::KnownNames;
use servers::ServerChannels;
use shared::{Router, Shared};
use skew::Skew;
use tollgate_core::{
    Arguments, Call, Cost, Decision, Priority,
    error::Error,
    script::Script,
    time::{Clock, monotonic},
};
use topology::Topology;

/// Maximum cost, in µs, of the decisions of a batch on one partition that share a plain script call.
const PLAIN_MAX: u32 = Cost::CALL_MAX / 2;

/// The Redis engine.
pub struct Redis {
    topology: Arc<Topology>,
    /// The state that all pipelines share.
    shared: Arc<Shared>,
    calls: CallsInFlight,
    /// The registrations in the index that this server has sent recently.
    index: Index,
    /// The registry of waiting calls and watchers.
    hub: Arc<Hub>,
    /// The denial cache.
    pub(super) denial_cache: Box<DenialCache>,
    /// The fallback while the store is unreachable.
    pub(super) fallback: Box<Fallback>,
    /// The partitions that plain scripts have declined recently.
    declined: DeclinedPartitions,
    /// The names that this server has seen recently.
    known_names: KnownNames,
    /// The prefix of every key.
    key_prefix: String,
    /// Maximum time that a call waits for Redis, whatever its deadline.
    answer_timeout: Duration,
    /// The options, for the connections of the name scan.
    options: Box<RedisOptions>,
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redis").field("topology", &self.topology).finish_non_exhaustive()
    }
}

impl Redis {
    /// Replaces the clock of the denial cache, for tests that step time.
    pub fn with_clock(mut self, clock: Clock) -> Redis {
        self.denial_cache = Box::new(DenialCache::new(clock));
        self
    }

    /// Sets the limits on the memory and names that callers can occupy.
    pub fn with_limits(self, limits: &CallerLimits) -> Redis {
        self.hub.set_limits(limits);
        self
    }

    /// Creates an engine. Redis need not be reachable yet. The error says which part of the URL or
    /// options is wrong.
    pub fn new(options: &RedisOptions) -> Result<Redis, String> {
        let (address, hub) = (options.address()?, Hub::new(&options.key_prefix));
        let shared = Arc::new(Shared {
            scripts: Scripts::new(options.clock.as_deref()),
            batch_max: options.batch_max,
            queued_max: options.queued_max,
            router: OnceLock::new(),
            losses: AtomicU64::new(0),
            failovers: AtomicU64::new(0),
            skew: Skew::new(),
            batches: AtomicU64::new(ALONE),
            probe_key: format!("{}:probe", options.key_prefix),
            markers: options.markers(),
            marker_key: options.marker_key(),
            servers: ServerChannels::new(hub.channel()),
        });
        let plan = Plan {
            shared: shared.clone(),
            eviction: options.eviction,
            connections: options.connections,
            workers: options.workers,
        };
        let topology = Arc::new(Topology::new(address, plan));
        // Set only once, here, because nodes need the topology, which needs the nodes.
        let router: Weak<Topology> = Arc::downgrade(&topology);
        let _ = shared.router.set(router);
        Ok(Redis {
            shared,
            topology,
            calls: CallsInFlight::new(options.calls_max),
            index: Index::default(),
            hub,
            denial_cache: Box::new(DenialCache::new(Clock::system())),
            fallback: Box::new(Fallback::new(options.replicas)),
            declined: DeclinedPartitions::new(),
            known_names: KnownNames::default(),
            key_prefix: options.key_prefix.clone(),
            options: Box::new(options.clone()),
            answer_timeout: options.answer_timeout,
        })
    }

    /// Runs the preflight at start. Returns why Redis must not be used with its settings, and what
    /// to do. Also returns `None` if Redis does not answer within a second; the monitor then checks
    /// later.
    pub async fn unfit(&self) -> Option<String> {
        self.topology.unfit().await
    }

    /// Creates a job for the node of its first key. All keys of a job share a slot.
    fn job(
        &self,
        script: &'static Script,
        arguments: Arguments,
        delivery: JobDelivery,
        deadline: Instant,
    ) -> (Job, Pending) {
        let slot = self.topology.slot(arguments.keys().next().unwrap_or_default());
        let now = monotonic();
        Job::new(script, arguments, slot, delivery, (now, deadline.min(now + self.answer_timeout)))
    }

    /// Encodes a decision as a job and sends it.
    fn send(
        &self,
        script: &'static Script,
        arguments: Arguments,
        delivery: JobDelivery,
        deadline: Instant,
    ) -> Pending {
        let (job, pending) = self.job(script, arguments, delivery, deadline);
        self.topology.push(job);
        pending
    }

    /// Executes a decision, and registers its partition in the same round trip if necessary.
    pub(super) async fn run<D: Decision>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        let watch = self.denial_cache.watch(slice::from_ref(decision));
        let outcome = self.execute(decision, deadline).await;
        watch.settle([outcome.as_ref()].into_iter());
        outcome
    }

    async fn execute<D: Decision>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        self.check()?;
        let (partition, delivery) = (decision.partition(), JobDelivery::for_decision(decision));
        // Decisions that free capacity are not refused for lack of capacity.
        let is_counted = delivery.priority == Priority::Call;
        let namespace = fair::line_of(partition);
        let _call = is_counted.then(|| self.calls.enter(namespace)).transpose()?;
        let mut quotas = self.quotas(slice::from_ref(decision), deadline).await;
        quotas.check(0)?;
        let epoch = self.epoch();
        let sent = (ALONE, quotas.is_limited(0), namespace);
        let plain = const { D::PROPERTIES.plain }
            .filter(|_| !self.declined.contains(partition))
            .and_then(|form| (form.script)(decision));
        let pending = self.send_decision(decision, plain, delivery, sent, deadline);
        let registration = self
            .index
            .due(partition, (D::PROPERTIES.listing)(decision), epoch)
            .map(|registration| self.register::<D>(partition, registration, deadline));
        let mut answer = pending.wait().await;
        if is_declined(&answer) {
            self.declined.insert(partition);
            let pending = self.send_decision(decision, None, delivery, sent, deadline);
            answer = after_decline(&answer, pending.wait().await);
        }
        if let Some(registration) = registration {
            self.record_registrations([(partition, registration)], epoch).await;
        }
        let answer = answer.map_err(|error| evaluate::named(decision, error))?;
        if answer.repeated || self.epoch() != epoch {
            self.register_again(slice::from_ref(decision), deadline).await;
        }
        let outcome = quotas.settle::<D>(0, settled(decision, answer))?;
        // Granted leases that end before the scheduled visit need a second registration.
        let sooner = (D::PROPERTIES.ends_sooner)(decision, &outcome);
        if let Some(length) = sooner {
            self.register_sooner::<D>(partition, length, deadline).await;
        }
        Ok(outcome)
    }

    /// Executes decisions of one kind, and registers their partitions. Fails as a whole only before
    /// anything is sent.
    pub(super) async fn run_all<D: Decision>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<D::Outcome> {
        let watch = self.denial_cache.watch(decisions);
        let outcomes = self.execute_all(decisions, deadline).await;
        match &outcomes {
            Ok(outcomes) => watch.settle(outcomes.iter().map(Result::as_ref)),
            Err(error) => watch.settle(decisions.iter().map(|_| Err(error))),
        }
        outcomes
    }

    async fn execute_all<D: Decision>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<D::Outcome> {
        self.check()?;
        let deliveries: Vec<JobDelivery> =
            decisions.iter().map(JobDelivery::for_decision).collect();
        let is_counted = deliveries.iter().any(|one| one.priority == Priority::Call);
        let namespace = decisions.first().map_or(0, |first| fair::line_of(first.partition()));
        let _call = is_counted.then(|| self.calls.enter(namespace)).transpose()?;
        let mut quotas = self.quotas(decisions, deadline).await;
        let epoch = self.epoch();
        let admitted = (0..).zip(decisions).filter(|(index, _)| quotas.check(*index).is_ok());
        let unregistered = self.unregistered(admitted.map(|(_, decision)| decision), epoch);
        let in_bulk = Cost::are_bulk(deliveries.iter().map(|one| one.cost));
        // Sent in order, so that an earlier task of a batch is queued before a later one.
        let batch = self.shared.next_batch();
        let send = |index: usize, plain, batch| {
            let (decision, delivery): (&D, JobDelivery) = (&decisions[index], deliveries[index]);
            let delivery = JobDelivery { cost: delivery.cost.apart(in_bulk), ..delivery };
            let namespace = fair::line_of(decision.partition());
            let sent = (batch, quotas.is_limited(index), namespace);
            self.send_decision(decision, plain, delivery, sent, deadline)
        };
        let plain = self.plain_scripts(decisions);
        let pending: Vec<_> = (0..decisions.len())
            .map(|index| quotas.check(index).map(|()| send(index, plain[index], batch)))
            .collect();
        let registrations: Vec<(&[u8], SentRegistration)> = unregistered
            .into_iter()
            .map(|(partition, registration)| {
                (partition, self.register::<D>(partition, registration, deadline))
            })
            .collect();
        let mut answers = Vec::with_capacity(decisions.len());
        for pending in pending {
            answers.push(match pending {
                Ok(pending) => pending.wait().await,
                Err(refused) => Err(refused),
            });
        }
        self.decide_declined(decisions, &mut answers, send).await;
        let (mut outcomes, mut again) = (Vec::with_capacity(decisions.len()), false);
        for (index, (answer, decision)) in answers.into_iter().zip(decisions).enumerate() {
            let answer = answer.map_err(|why| evaluate::named(decision, why));
            let outcome = answer.and_then(|answer| {
                again |= answer.repeated;
                settled(decision, answer)
            });
            outcomes.push(quotas.settle::<D>(index, outcome));
        }
        self.record_registrations(registrations, epoch).await;
        if again || self.epoch() != epoch {
            self.register_again(decisions, deadline).await;
        }
        let epoch = self.epoch();
        let sooner = self.register_all_sooner(decisions, &outcomes, (deadline, epoch));
        self.record_registrations(sooner, epoch).await;
        Ok(outcomes)
    }

    /// Decides the decisions of a batch that their plain script declined. `send(index, plain, batch)`
    /// sends one of them.
    async fn decide_declined<D: Decision>(
        &self,
        decisions: &[D],
        answers: &mut [Result<JobAnswer, Error>],
        send: impl Fn(usize, Option<&'static Script>, u64) -> Pending,
    ) {
        let declined: Vec<usize> =
            (0..answers.len()).filter(|index| is_declined(&answers[*index])).collect();
        if declined.is_empty() {
            return;
        }
        let batch = self.shared.next_batch();
        let again = |index: &usize| {
            self.declined.insert(decisions[*index].partition());
            send(*index, None, batch)
        };
        let pending: Vec<Pending> = declined.iter().map(again).collect();
        for (index, pending) in declined.into_iter().zip(pending) {
            answers[index] = after_decline(&answers[index], pending.wait().await);
        }
    }

    /// Returns the plain script of each decision of a batch; `None` for the verb's own script. Decisions on
    /// one partition are executed in order. They are plain only if they fit into one script call, in which
    /// a declined decision declines those that follow it.
    fn plain_scripts<D: Decision>(&self, decisions: &[D]) -> Vec<Option<&'static Script>> {
        let Some(form) = (const { D::PROPERTIES.plain }) else {
            return vec![None; decisions.len()];
        };
        let scripts = decisions.iter().map(form.script);
        let mut partitions = HashMap::with_hasher(RandomState::new());
        for (decision, script) in decisions.iter().zip(scripts) {
            let (common, cost) = partitions.entry(decision.partition()).or_insert_with(|| {
                (script.filter(|_| !self.declined.contains(decision.partition())), 0)
            });
            *cost += (form.cost)(decision).micros();
            let is_common = common.map(|common| common.index) == script.map(|script| script.index);
            *common = common.filter(|_| is_common && *cost <= PLAIN_MAX);
        }
        decisions.iter().map(|decision| partitions[decision.partition()].0).collect()
    }

    /// Sends a decision in its plain form or in its own script, with the number of its batch or [`ALONE`],
    /// whether it is limited, and the number of its namespace from [`fair::line_of`].
    fn send_decision<D: Decision>(
        &self,
        decision: &D,
        plain: Option<&'static Script>,
        delivery: JobDelivery,
        (batch, is_limited, namespace): (u64, bool, u64),
        deadline: Instant,
    ) -> Pending {
        let (prefix, mut delivery) = (&*self.key_prefix, delivery);
        // The plain form knows no limit of a namespace.
        let plain = plain.filter(|_| !is_limited);
        let (script, call) = match (plain, const { D::PROPERTIES.plain }) {
            (Some(script), Some(form)) => {
                delivery.cost = (form.cost)(decision).apart(delivery.cost.is_bulk());
                (script, Call::encode_for(decision, script, form.encode, prefix))
            }
            _ => (D::SCRIPT, Call::encode_led(decision, prefix, &*self.topology, is_limited)),
        };
        let (mut job, pending) = self.job(script, call.finish(), delivery, deadline);
        job.batch = batch;
        job.namespace = namespace;
        // One decision of several is never refused alone, because the others would be executed.
        job.sheds = batch == ALONE && delivery.priority == Priority::Call;
        if delivery.acknowledgement.is_needed() {
            job.undo_rule = (D::PROPERTIES.undo_rule)(decision, &self.key_prefix);
        }
        self.topology.push(job);
        pending
    }

    /// Fails while no node is usable.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.topology.check()
    }

    /// Subscribes to the state of the store.
    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        self.topology.state()
    }

    /// Returns the number of lost connections. After each, the store may have lost data.
    pub(super) fn epoch(&self) -> u64 {
        self.shared.losses.load(Ordering::Acquire)
    }

    /// Returns the number of failovers seen: a new primary id, or a restarted primary.
    pub fn failovers(&self) -> u64 {
        self.shared.failovers()
    }

    /// Returns the number of servers with this key prefix on this Redis, counted every 5 seconds.
    /// `None` if it is not known.
    pub fn servers(&self) -> Option<u32> {
        self.topology.servers()
    }

    /// Returns the number of calls of a script so far.
    pub(super) fn script_calls(&self, script: &Script) -> u64 {
        self.shared.scripts.calls(script)
    }

    pub(super) fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Probes nodes, follows the topology and receives wake-ups, until dropped.
    pub(super) async fn maintain(&self) {
        // Boxed, because the compiler cannot lay out the nested types of all topologies in an
        // optimized build.
        type Endless<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
        let topology: Endless<'_> = Box::pin(self.topology.maintain());
        let wake_ups: Endless<'_> = Box::pin(wake_ups::listen(&self.topology, &self.hub));
        tokio::join!(topology, wake_ups);
    }
}

/// Whether a plain script declined the decision.
fn is_declined(answer: &Result<JobAnswer, Error>) -> bool {
    answer.as_ref().is_ok_and(|answer| answer.reply.is_declined())
}

/// Returns the answer of the verb's own script, after `declined`, that of the plain script. An earlier
/// attempt of the plain script may have been executed.
fn after_decline(
    declined: &Result<JobAnswer, Error>,
    answer: Result<JobAnswer, Error>,
) -> Result<JobAnswer, Error> {
    if !declined.as_ref().is_ok_and(|declined| declined.repeated) {
        return answer;
    }
    answer.map(|answer| JobAnswer { repeated: true, ..answer }).map_err(job::after_repeat)
}

/// Parses an outcome. After a second attempt, an outcome that leaves the result of the first open
/// becomes [`Error::DeadlineExceeded`].
fn settled<D: Decision>(decision: &D, answer: JobAnswer) -> Result<D::Outcome, Error> {
    let JobAnswer { mut reply, repeated } = answer;
    let outcome = D::parse(&mut reply).map_err(|error| evaluate::named(decision, error))?;
    if repeated && !(D::PROPERTIES.settles)(decision, &outcome) {
        Err(Error::DeadlineExceeded)
    } else {
        Ok(outcome)
    }
}
