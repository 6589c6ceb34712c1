//! The entry point of the engine: every method of [`Engine`], and the stages of a call in order.
//!
//! | stage | applies to | its part |
//! |---|---|---|
//! | 1. waiting | AdmitTask and AcquireLock with `max_wait` | the call keeps a ticket in the queue |
//! | 2. coalescing | NextSequence; Redis only | merges requests for values of one sequence |
//! | 3. denial cache | AdmitTask, CheckRate, ShouldRateLimit; Redis only | repeats a recent refusal |
//! | 4. store | all | executes the decision, in this process or in Redis; a listing in steps |
//! | 5. fallback | AdmitTask, CompleteTask, RenewTask, CheckRate, ShouldRateLimit; Redis only | answers while the store is unreachable |
//! | 6. ban index | CheckRate, ShouldRateLimit, Ban | adds a ban to the index that ListBans reads |
//!
//! Waiting and coalescing need types of the verb (its heartbeat, its reservation), so such calls
//! have their own methods. The other stages are options in [`Decision::PROPERTIES`]. They are
//! checked in `const` blocks, so an optimized build contains no code of a stage for verbs that do
//! not use it. Futures of stages that few calls enter are boxed: the future of every call would
//! otherwise be as large as theirs.

use std::{borrow::Cow, future::pending, iter, sync::Arc, time::Instant};

use bytes::Bytes;
use tokio::sync::watch;

use super::{
    Answered, AnsweredBy, Batch, Engine, NameCursor, NameQuery, PartitionCursor, PartitionPage,
    ReadEntries, StoreLoss, StoreState,
    budget::{CallerLimits, NamespaceRule},
    counting,
    embedded::{Sharded, Tabled},
    feed::{self, Start, Topic, Watcher},
    hub::Hub,
    redis::Redis,
    stages::{ban_index, coalescing, denial_cache::Recall, steps, waiting},
    upkeep::{counter, sweeper},
};
use tollgate_core::{
    Decision, Footprint, Joined, State, Swept,
    error::Error,
    names::{Name, Namespace},
    time::Millis,
    waiting::Waits,
};

/// Calls.
impl Engine {
    /// Decides a call. Returns by its deadline.
    ///
    /// The outcome may come from an earlier attempt: if a connection to Redis breaks, the engine
    /// sends a repeatable decision a second time.
    pub async fn submit<D>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Decision<State: Sharded>,
    {
        const { assert!(!D::PROPERTIES.is_merged, "calls of this verb go to submit_merged") };
        let answered = if const { D::PROPERTIES.steps.is_some() } {
            Box::pin(steps::read_in_steps(self, decision, deadline)).await
        } else {
            self.decide(decision, deadline).await
        };
        counting::record::<D>(&answered);
        answered
    }

    /// Decides a call that waits for capacity for at most `wait`, which ends before `deadline`.
    pub async fn submit_waiting<D>(
        self: &Arc<Engine>,
        decision: &D,
        wait: Millis,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Waits<State: Sharded, Heartbeat: Decision<State: Sharded>>,
    {
        if wait.0 > 0 {
            let waited = Box::pin(waiting::wait(self, decision.clone(), wait, deadline)).await;
            // If the store is unreachable, a call does not wait, and the fallback decides.
            let falls_back = const { D::PROPERTIES.fallback.is_some() }
                && matches!(waited, Err(Error::Unavailable(_) | Error::Refused(_)));
            if !falls_back {
                let answered = waited.map(Answered::by_store);
                counting::record::<D>(&answered);
                return answered;
            }
        }
        self.submit(decision, deadline).await
    }

    /// Decides a call of a verb whose calls on one partition are merged while another is being
    /// decided. Merging is worthwhile only if it saves round trips, so an embedded engine decides
    /// each call alone.
    pub async fn submit_merged<D>(
        self: &Arc<Engine>,
        decision: &D,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Joined<State: Sharded, Outcome: Clone, Preparation: Decision<State: Sharded>>,
    {
        let outcome = match &**self {
            Engine::Embedded(engine) => engine.decide(decision, deadline).await,
            Engine::Redis(engine) => match engine.check() {
                Ok(()) => Box::pin(coalescing::run(self, decision.clone(), deadline)).await,
                Err(down) => Err(down),
            },
        };
        let answered = outcome.map(Answered::by_store);
        counting::record::<D>(&answered);
        answered
    }

    /// Decides a batch of one kind, in order and in one round trip. Each decision is an atomic
    /// step, but the batch is not. No decision of a batch waits. Returns by `deadline`.
    ///
    /// An error for the whole batch means that no decision was sent. The exception is
    /// [`Error::DeadlineExceeded`]: the data directory did not sync the batch in time. A decision
    /// that was not reached by the deadline fails with [`Error::NotReached`].
    pub async fn submit_all<D>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<Answered<D::Outcome>>
    where
        D: Decision<State: Sharded>,
    {
        let answers = match self {
            Engine::Embedded(engine) => {
                let is_unfinished = D::PROPERTIES.is_unfinished;
                engine.decide_all(decisions, deadline, is_unfinished, Answered::by_store).await
            }
            Engine::Redis(engine) => ask_all(engine, decisions, deadline).await,
        };
        if const { D::PROPERTIES.ban.is_some() }
            && let Ok(answers) = &answers
        {
            let decided = decisions.iter().zip(answers);
            let decided = decided.filter_map(|(decision, it)| Some((decision, it.as_ref().ok()?)));
            if let Some(entering) = ban_index::enter(self, decided, deadline) {
                entering.await;
            }
        }
        counting::record_all::<D>(&answers);
        answers
    }

    /// Runs the stages of a call that is one step.
    async fn decide<D>(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Decision<State: Sharded>,
    {
        let answered = match self {
            Engine::Embedded(engine) => {
                let decide = || engine.decide(decision, deadline);
                Answered::by_store(steps::until_decided::<D, _>(deadline, decide).await?)
            }
            Engine::Redis(engine) => ask(engine, decision, deadline).await?,
        };
        if const { D::PROPERTIES.ban.is_some() }
            && let Some(entering) =
                ban_index::enter(self, iter::once((decision, &answered)), deadline)
        {
            entering.await;
        }
        Ok(answered)
    }

    /// Runs only the store stage: executes a decision once and returns by `deadline`, whatever the
    /// store does. Stages and background work use it, and tests use it to compare engines.
    pub async fn store<D>(&self, decision: &D, deadline: Instant) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Sharded>,
    {
        match self {
            Engine::Embedded(engine) => engine.decide(decision, deadline).await,
            // Boxed, so that calls that wait or decide in this process need no memory for a Redis
            // exchange.
            Engine::Redis(engine) => Box::pin(engine.run(decision, deadline)).await,
        }
    }

    /// Runs the store stage of a batch.
    pub async fn store_all<D>(&self, decisions: &[D], deadline: Instant) -> Batch<D::Outcome>
    where
        D: Decision<State: Sharded>,
    {
        match self {
            Engine::Embedded(engine) => {
                engine.decide_all(decisions, deadline, |_| false, |outcome| outcome).await
            }
            Engine::Redis(engine) => engine.run_all(decisions, deadline).await,
        }
    }

    /// Executes decisions whose outcomes no caller sees, in order. With a data directory they do
    /// not wait for the disk.
    pub(crate) async fn store_unsynced<D>(
        &self,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<D::Outcome>
    where
        D: Decision<State: Sharded>,
    {
        match self {
            Engine::Embedded(engine) => Ok(decisions.iter().map(|one| engine.run(one)).collect()),
            Engine::Redis(engine) => engine.run_all(decisions, deadline).await,
        }
    }
}

/// Runs the stages of a call on Redis: denial cache, store, fallback.
async fn ask<D>(
    engine: &Redis,
    decision: &D,
    deadline: Instant,
) -> Result<Answered<D::Outcome>, Error>
where
    D: Decision<State: Sharded>,
{
    let ticket = match engine.denial_cache.recall(decision, engine.epoch()) {
        Recall::Denied(outcome) => {
            return Ok(Answered { outcome, source: AnsweredBy::DenialCache });
        }
        Recall::Ask(ticket) => ticket,
    };
    // Boxed, as in `store`.
    let decide = || Box::pin(engine.run(decision, deadline));
    let result = steps::until_decided::<D, _>(deadline, decide).await;
    engine.denial_cache.learn(decision, &result, ticket);
    engine.fallback.after_store(decision, result, deadline, || engine.check())
}

/// Runs the stages of a batch on Redis. Decisions with cached refusals are not sent. The store
/// decides all others in one batch; if that was certainly not executed, the fallback decides each.
async fn ask_all<D>(
    engine: &Redis,
    decisions: &[D],
    deadline: Instant,
) -> Batch<Answered<D::Outcome>>
where
    D: Decision<State: Sharded>,
{
    let epoch = engine.epoch();
    let recall = |decision| engine.denial_cache.recall(decision, epoch);
    let recalled: Vec<Recall<D::Outcome>> = decisions.iter().map(recall).collect();
    let open: Cow<'_, [D]> = if const { D::PROPERTIES.cache.is_none() } {
        Cow::Borrowed(decisions)
    } else {
        let open = recalled.iter().zip(decisions);
        let open = open.filter(|(recall, _)| matches!(recall, Recall::Ask(_)));
        open.map(|(_, decision)| decision.clone()).collect()
    };
    let outcomes = if open.is_empty() {
        Vec::new()
    } else {
        match steps::all_until_decided(engine, &open, deadline).await {
            Err(error @ (Error::Unavailable(_) | Error::Refused(_)))
                if const { D::PROPERTIES.fallback.is_some() } =>
            {
                steps::each(&open, Err(error))
            }
            outcomes => outcomes?,
        }
    };
    let mut outcomes = outcomes.into_iter();
    let answers = recalled.into_iter().zip(decisions).map(|(recall, decision)| {
        let ticket = match recall {
            Recall::Denied(outcome) => {
                return Ok(Answered { outcome, source: AnsweredBy::DenialCache });
            }
            Recall::Ask(ticket) => ticket,
        };
        let none = || Err(Error::Corrupt("a batch has fewer outcomes than decisions".to_owned()));
        let result = outcomes.next().unwrap_or_else(none);
        engine.denial_cache.learn(decision, &result, ticket);
        engine.fallback.after_store(decision, result, deadline, || engine.check())
    });
    Ok(answers.collect())
}

/// Listings and watches.
impl Engine {
    /// Lists at most `limit` partitions of a namespace after the cursor `after`. `read` returns the
    /// decision that reads a partition, or `None` to skip it. A page can therefore have fewer than
    /// `limit` entries although more follow. Returns the entries and the cursor of the next page.
    pub async fn list<D>(
        &self,
        namespace: &Namespace,
        limit: u32,
        after: Option<PartitionCursor>,
        deadline: Instant,
        read: impl Fn(Name) -> Option<D>,
    ) -> Result<(ReadEntries<D>, Option<PartitionCursor>), Error>
    where
        D: Decision<State: Tabled>,
    {
        let page = self.partitions::<D::State>(namespace, limit, after, deadline).await?;
        let reads = page.names.into_iter().filter_map(read).collect();
        Ok((self.read_all(reads, deadline).await?, page.next))
    }

    /// Lists a page of the partitions of one kind by their prefix. `read` returns the decision that
    /// reads a partition, or `None` to skip it. Returns the entries, in no particular order, and
    /// the position of the next page. A partition that exists during the whole listing is listed at
    /// least once, unless slots of a Redis Cluster move.
    pub async fn list_names<D>(
        &self,
        query: &NameQuery,
        deadline: Instant,
        read: impl Fn(Bytes) -> Option<D>,
    ) -> Result<(ReadEntries<D>, Option<NameCursor>), Error>
    where
        D: Decision<State: Tabled>,
    {
        const { assert!(D::State::NAME_KEY.is_some(), "the index has the names") };
        let page = match self {
            Engine::Embedded(engine) => engine.names::<D::State>(query),
            Engine::Redis(engine) => Box::pin(engine.names::<D::State>(query, deadline)).await?,
        };
        let reads = page.partitions.into_iter().filter_map(read).collect();
        Ok((self.read_all(reads, deadline).await?, page.next))
    }

    /// Reads the entries of a page in one batch. An unreadable entry does not hide the others. Any
    /// other error of an entry fails the page.
    pub async fn read_all<D>(
        &self,
        reads: Vec<D>,
        deadline: Instant,
    ) -> Result<ReadEntries<D>, Error>
    where
        D: Decision<State: Tabled>,
    {
        let outcomes = self.store_all(&reads, deadline).await?;
        let entries = reads.into_iter().zip(outcomes).map(|(read, outcome)| match outcome {
            Ok(outcome) => Ok((read, Some(outcome))),
            Err(Error::Corrupt(_)) => Ok((read, None)),
            Err(error) => Err(error),
        });
        entries.collect()
    }

    /// Returns the names of a page. On Redis, these are the names in the index (`redis/index.rs`),
    /// which keeps an empty partition for some minutes. On the embedded engine, these are the
    /// partitions with state.
    pub async fn partitions<S: Tabled>(
        &self,
        namespace: &Namespace,
        limit: u32,
        after: Option<PartitionCursor>,
        deadline: Instant,
    ) -> Result<PartitionPage, Error> {
        let after = after.as_ref();
        match self {
            Engine::Embedded(engine) => Ok(engine.partitions::<S>(namespace, limit, after)),
            Engine::Redis(engine) => {
                engine.partitions(S::CAPABILITY, namespace, limit, after, deadline).await
            }
        }
    }

    /// Starts a watcher. Returns by `deadline`, and no event is missed from then on. Fails if the
    /// server has reached its maximum number of watchers.
    pub async fn watch<T: Topic>(
        self: &Arc<Engine>,
        topic: T,
        start: Start,
        deadline: Instant,
    ) -> Result<Watcher<T>, Error> {
        feed::watch(self, topic, start, deadline).await
    }
}

/// Limits and background work.
impl Engine {
    /// Sets the limits of namespaces; `servers` share their calls per second. Must be called before
    /// the first decision; later, use [`NamespaceBudget::set`] if [`Engine::can_limit`] allows it.
    /// Fails if a glob is invalid.
    ///
    /// [`NamespaceBudget::set`]: crate::budget::NamespaceBudget::set
    pub fn limit_namespaces(
        &self,
        rules: &[NamespaceRule],
        servers: u32,
    ) -> Result<(), globset::Error> {
        self.hub().namespaces().set(rules, servers)?;
        if let Engine::Embedded(engine) = self
            && rules.iter().any(|rule| rule.limits.limits_held())
        {
            engine.count_held();
        }
        Ok(())
    }

    /// Whether these limits can be set while calls run. The embedded engine can limit leases and
    /// queued tasks only if it has counted them since its start.
    pub fn can_limit(&self, rules: &[NamespaceRule]) -> bool {
        match self {
            Engine::Embedded(engine) if rules.iter().any(|rule| rule.limits.limits_held()) => {
                engine.counts_held()
            }
            _ => true,
        }
    }

    /// Changes the limits on the resources that callers can use, even while calls run. Anything
    /// that exceeds a lower limit stays until it ends.
    pub fn set_limits(&self, limits: &CallerLimits) {
        match self {
            Engine::Embedded(engine) => engine.set_limits(limits),
            Engine::Redis(engine) => engine.hub().set_limits(limits),
        }
    }

    /// Runs the engine's background work until it is dropped. On the embedded engine, it drops
    /// expired entries and checks memory and disk. On Redis, it probes nodes, follows the topology,
    /// receives wake-ups and cleans up the fallback.
    pub async fn maintain(&self) {
        match self {
            Engine::Embedded(engine) => engine.maintain().await,
            Engine::Redis(engine) => {
                // Boxed, because the compiler limits the depth of nested future types.
                tokio::join!(Box::pin(engine.maintain()), engine.fallback.maintain());
            }
        }
    }

    /// Sweeps forever. `decision` creates the sweep decision for a partition.
    pub async fn sweep<D>(&self, decision: impl Fn(Name) -> D)
    where
        D: Decision<State: Tabled, Outcome = Swept>,
    {
        match self {
            Engine::Embedded(engine) => sweeper::sweep_embedded(engine, decision).await,
            Engine::Redis(engine) => sweeper::sweep_redis(engine, decision).await,
        }
    }

    /// Counts the entries of limited namespaces; never completes. `decision` creates the decision
    /// that counts the leases and queued tasks of a partition. It does nothing on the embedded
    /// engine, whose counts are exact.
    pub async fn count<D>(&self, decision: impl Fn(Name) -> D)
    where
        D: Decision<State: Tabled, Outcome = Footprint>,
    {
        match self {
            Engine::Embedded(_) => pending().await,
            Engine::Redis(engine) => counter::count(engine, decision).await,
        }
    }

    /// Writes all pending changes to the data directory and stops its thread. This is the last step
    /// before the process exits; later changes are lost. Does nothing on Redis.
    pub fn close(&self) {
        if let Engine::Embedded(engine) = self {
            engine.close();
        }
    }
}

/// The state of the engine, for the server, operators and stages.
impl Engine {
    /// Returns the registry of this server's waiting and watching calls.
    pub fn hub(&self) -> &Arc<Hub> {
        match self {
            Engine::Embedded(engine) => engine.hub(),
            Engine::Redis(engine) => engine.hub(),
        }
    }

    /// Subscribes to the state of the store. Without a data directory, the embedded engine is
    /// always [`StoreState::Up`].
    pub fn state(&self) -> watch::Receiver<StoreState> {
        match self {
            Engine::Embedded(engine) => match engine.journal() {
                None => watch::channel(StoreState::Up).1,
                Some(journal) => journal.state(),
            },
            Engine::Redis(engine) => engine.state(),
        }
    }

    /// Fails while the store is known to be unusable: a call would fail with the same error.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Engine::Embedded(engine) => engine.check(),
            Engine::Redis(engine) => engine.check(),
        }
    }

    /// Admits a call. Fails as [`Engine::check`] does, and counts the refusal.
    pub(crate) fn admit(&self) -> Result<(), Error> {
        match self {
            Engine::Embedded(engine) => engine.admit(),
            Engine::Redis(engine) => engine.check(),
        }
    }

    /// Whether other servers share the store, and a decision costs a round trip.
    pub fn is_remote(&self) -> bool {
        matches!(self, Engine::Redis(_))
    }

    /// Counts lost connections to the store; 0 on the embedded engine. If two readings differ, the
    /// store may have failed over and lost data in between.
    pub fn epoch(&self) -> u64 {
        match self {
            Engine::Embedded(_) => 0,
            Engine::Redis(engine) => engine.epoch(),
        }
    }

    /// Returns the engine, `embedded` or `redis`, and where its state is: `memory` or `data_dir`,
    /// or the kind of Redis: `single`, `sentinel` or `cluster`.
    pub fn kind(&self) -> (&'static str, &'static str) {
        match self {
            Engine::Embedded(engine) if engine.journal().is_some() => ("embedded", "data_dir"),
            Engine::Embedded(_) => ("embedded", "memory"),
            Engine::Redis(engine) => ("redis", engine.topology()),
        }
    }

    /// Returns `memory_max` of the embedded engine, in bytes.
    pub fn memory_max(&self) -> Option<u64> {
        match self {
            Engine::Embedded(engine) => engine.memory_max(),
            Engine::Redis(_) => None,
        }
    }

    /// Returns the size of the data directory's file, in bytes, and the number of changes that wait
    /// for the disk; `None` without a data directory.
    pub fn data_usage(&self) -> Option<(u64, u64)> {
        match self {
            Engine::Embedded(engine) => engine.journal().map(|journal| journal.usage()),
            Engine::Redis(_) => None,
        }
    }

    /// Returns the number of script calls for decisions of this kind and their preparations; 0 on
    /// the embedded engine.
    pub fn script_calls<D: Joined>(&self) -> u64 {
        match self {
            Engine::Embedded(_) => 0,
            Engine::Redis(engine) => {
                engine.script_calls(D::SCRIPT) + engine.script_calls(D::Preparation::SCRIPT)
            }
        }
    }

    /// Returns the number of servers on the same Redis with the same key prefix, including this
    /// one. They are counted every 5 seconds. `None` on the embedded engine, while the store is
    /// down, and if the number is not known.
    pub fn servers(&self) -> Option<u32> {
        match self {
            Engine::Embedded(_) => None,
            Engine::Redis(engine) => engine.servers(),
        }
    }

    /// Returns the id of the store, by which servers recognise a loss of its data. `None` on the
    /// embedded engine, and before the id was read.
    pub fn store_id(&self) -> Option<String> {
        match self {
            Engine::Embedded(_) => None,
            Engine::Redis(engine) => engine.store_id(),
        }
    }

    /// Returns the losses of the store's data that servers have recognised. Empty on the embedded
    /// engine.
    pub fn store_losses(&self) -> Vec<StoreLoss> {
        match self {
            Engine::Embedded(_) => Vec::new(),
            Engine::Redis(engine) => engine.store_losses(),
        }
    }

    /// Accepts all losses of the store's data, so that calls are answered as on a new store.
    /// Returns the losses that were not accepted before.
    pub async fn accept_store_loss(&self) -> Result<Vec<StoreLoss>, Error> {
        match self {
            Engine::Embedded(_) => Ok(Vec::new()),
            Engine::Redis(engine) => engine.accept_store_loss().await,
        }
    }
}
