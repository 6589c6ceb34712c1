//! The one entry to the engine: the stages of a call, in order.
//!
//! | stage | applies to | its part |
//! |---|---|---|
//! | 1. denial cache | AdmitTask without `max_wait`, CheckRate, ShouldRateLimit; Redis only | repeats a recent refusal |
//! | 2. waiters | AdmitTask and AcquireLock with `max_wait` | the call keeps a ticket in the queue |
//! | 3. coalescer | NextSequence; Redis only | combines requests for values of one sequence |
//! | 4. store | all | executes the decision, in this process or in Redis |
//! | 5. fallback | AdmitTask, CompleteTask, RenewTask, CheckRate, ShouldRateLimit; Redis only | answers while the store is unreachable |
//! | 6. index | CheckRate, Ban | enters a ban into the index that ListBans reads |
//!
//! [`Decision::Stages`] selects the stages at compile time, so a stage that does not apply costs
//! nothing. Futures of stages that few calls enter are boxed: the future of every call would
//! otherwise be as large as theirs.

use std::{iter, sync::Arc, time::Instant};

use tokio::task::yield_now;

use super::{
    Answered, AnsweredBy, Batch, Engine, counting,
    denial_cache::{Recall, RecallTicket},
    embedded::Sharded,
    waiters,
};
use tollgate_core::{
    Decision, IndexEntry, Indexing, Joined, Paged, Stepwise,
    denial::Deniable,
    error::Error,
    fallback::Degradable,
    stages::{
        Cached, CachedAndIndexed, Coalesced, Direct, InSteps, Indexed, UntilDecided, Waiting,
        WaitingOrCached, WithFallback,
    },
    time::{Millis, monotonic},
    waiting::{Proceed, Waits},
};

/// How a call is submitted.
#[derive(Debug, Clone, Copy)]
pub struct Submit {
    /// The longest that the call waits for capacity; 0 if the decision cannot wait.
    pub wait: Millis,
    /// The call returns by this time, whatever the store does.
    pub deadline: Instant,
}

impl From<Instant> for Submit {
    /// Without waiting.
    fn from(deadline: Instant) -> Submit {
        Submit { wait: Millis(0), deadline }
    }
}

/// The stages of a decision.
pub trait Stages<D: Decision> {
    /// Passes a decision through the stages.
    fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> impl Future<Output = Result<Answered<D::Outcome>, Error>> + Send;

    /// Passes a batch through the stages.
    fn submit_all(
        engine: &Arc<Engine>,
        decisions: &[D],
        deadline: Instant,
    ) -> impl Future<Output = Batch<Answered<D::Outcome>>> + Send
    where
        D: Decision<State: Sharded>,
    {
        async move {
            let outcomes = engine.store_all(decisions, deadline).await?;
            Ok(outcomes.into_iter().map(|outcome| outcome.map(Answered::by_store)).collect())
        }
    }
}

impl Engine {
    /// Decides a call. Returns by its deadline.
    ///
    /// The outcome may be of an earlier try: if a connection to Redis breaks, the engine sends a
    /// repeatable decision a second time.
    pub async fn submit<D>(
        self: &Arc<Engine>,
        decision: &D,
        submit: impl Into<Submit>,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Decision<Stages: Stages<D>>,
    {
        let answered = D::Stages::submit(self, decision, submit.into()).await;
        counting::note::<D>(&answered);
        answered
    }

    /// Decides a batch of one kind, in order and in one round trip. Each decision is an atomic step;
    /// the batch is not. Returns by `deadline`.
    ///
    /// An error of the whole batch means that no decision was sent. The exception is
    /// [`Error::DeadlineExceeded`]: the data directory did not sync the batch in time. A decision
    /// that was not reached by the deadline fails with [`Error::NotReached`].
    pub async fn submit_all<D>(
        self: &Arc<Engine>,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<Answered<D::Outcome>>
    where
        D: Decision<State: Sharded, Stages: Stages<D>>,
    {
        let answers = D::Stages::submit_all(self, decisions, deadline).await;
        counting::note_all::<D>(&answers);
        answers
    }

    /// Looks for a cached refusal. A decision on the embedded engine is as fast as a look into a
    /// cache, so that engine has none.
    pub(super) fn recall<D: Deniable>(&self, decision: &D) -> Recall<D::Outcome> {
        match self {
            Engine::Embedded(_) => Recall::Ask(None),
            Engine::Redis(engine) => engine.denial_cache.recall(decision, engine.epoch()),
        }
    }

    /// Adds a refusal of the store to the denial cache, if it may be repeated.
    pub(super) fn learn<D: Deniable>(
        &self,
        decision: &D,
        result: &Result<D::Outcome, Error>,
        ticket: Option<RecallTicket>,
    ) {
        if let (Engine::Redis(engine), Ok(outcome), Some(ticket)) = (self, result, ticket) {
            engine.denial_cache.learn(decision, outcome, ticket);
        }
    }

    /// Executes a decision, and repeats it while a step only removes expired entries.
    async fn store_until<D>(
        &self,
        decision: &D,
        deadline: Instant,
        is_unfinished: impl Fn(&D::Outcome) -> bool + Send,
    ) -> Result<D::Outcome, Error>
    where
        D: Decision<State: Sharded>,
    {
        loop {
            let outcome = self.store(decision, deadline).await?;
            if !is_unfinished(&outcome) || monotonic() >= deadline {
                return Ok(outcome);
            }
            // Other calls of this thread go first.
            yield_now().await;
        }
    }
}

impl<D: Decision<State: Sharded>> Stages<D> for Direct {
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        engine.store(decision, submit.deadline).await.map(Answered::by_store)
    }
}

impl<D: Stepwise<State: Sharded>> Stages<D> for UntilDecided {
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        let outcome = engine.store_until(decision, submit.deadline, D::is_unfinished).await;
        outcome.map(Answered::by_store)
    }
}

impl<D: Paged<State: Sharded>> Stages<D> for InSteps {
    /// Reads a page in atomic steps of at most `D::STEP` entries, so that no step holds the
    /// partition or Redis for long. Fails if the first step fails. If a later step fails, the page
    /// is shorter, and the caller continues after its last entry.
    async fn submit(
        engine: &Arc<Engine>,
        listing: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        let mut size = listing.limit().min(D::STEP);
        let mut left = listing.limit() - size;
        let mut page = engine.store(&listing.limited(size), submit.deadline).await?;
        while left > 0
            && let Some(next) = listing.behind(&page)
        {
            // A step on the embedded engine would keep other calls off this thread.
            yield_now().await;
            size = left.min(D::STEP);
            left -= size;
            match engine.store(&next.limited(size), submit.deadline).await {
                Ok(next) => D::append(&mut page, next),
                Err(_) => break,
            }
        }
        Ok(Answered::by_store(page))
    }
}

impl<D: Degradable<State: Sharded>> Stages<D> for WithFallback {
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        let result = engine.store(decision, submit.deadline).await;
        engine.fallback(decision, result, submit.deadline)
    }

    async fn submit_all(
        engine: &Arc<Engine>,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<Answered<D::Outcome>> {
        engine.store_or_fall_back(decisions, deadline).await
    }
}

/// Whether the step of a waiter only removed expired entries.
fn asks_again<D: Waits>(outcome: &D::Outcome) -> bool {
    D::proceed(outcome) == Proceed::Again
}

/// The denial cache, the store and the fallback.
async fn cached<D>(
    engine: &Arc<Engine>,
    decision: &D,
    submit: Submit,
    is_unfinished: impl Fn(&D::Outcome) -> bool + Send,
) -> Result<Answered<D::Outcome>, Error>
where
    D: Deniable<State: Sharded> + Degradable,
{
    let ticket = match engine.recall(decision) {
        Recall::Denied(outcome) => {
            return Ok(Answered { outcome, source: AnsweredBy::DenialCache });
        }
        Recall::Ask(ticket) => ticket,
    };
    let result = engine.store_until(decision, submit.deadline, is_unfinished).await;
    engine.learn(decision, &result, ticket);
    engine.fallback(decision, result, submit.deadline)
}

impl<D> Stages<D> for Cached
where
    D: Deniable<State: Sharded> + Degradable,
{
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        cached(engine, decision, submit, |_| false).await
    }
}

impl<D> Stages<D> for Indexed
where
    D: Indexing<State: Sharded, Entry: IndexEntry<State: Sharded>>,
{
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        let outcome = engine.store(decision, submit.deadline).await?;
        let answered = Answered::by_store(outcome);
        if let Some(entering) = engine.enter(iter::once((decision, &answered)), submit.deadline) {
            entering.await;
        }
        Ok(answered)
    }
}

impl<D> Stages<D> for CachedAndIndexed
where
    D: Deniable<State: Sharded> + Degradable + Clone,
    D: Indexing<Entry: IndexEntry<State: Sharded>>,
{
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        let answered = cached(engine, decision, submit, |_| false).await?;
        if let Some(entering) = engine.enter(iter::once((decision, &answered)), submit.deadline) {
            entering.await;
        }
        Ok(answered)
    }

    async fn submit_all(
        engine: &Arc<Engine>,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<Answered<D::Outcome>> {
        let answers = engine.recall_or_store(decisions, deadline, |_| false).await?;
        let decided = decisions.iter().zip(&answers);
        let decided =
            decided.filter_map(|(decision, answer)| Some((decision, answer.as_ref().ok()?)));
        if let Some(entering) = engine.enter(decided, deadline) {
            entering.await;
        }
        Ok(answers)
    }
}

impl<D> Stages<D> for Waiting
where
    D: Waits<State: Sharded, Heartbeat: Decision<State: Sharded>>,
{
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        let outcome = match submit.wait.0 {
            0 => engine.store_until(decision, submit.deadline, asks_again::<D>).await,
            _ => {
                Box::pin(waiters::wait(engine, decision.clone(), submit.wait, submit.deadline))
                    .await
            }
        };
        outcome.map(Answered::by_store)
    }
}

impl<D> Stages<D> for WaitingOrCached
where
    D: Waits<State: Sharded, Heartbeat: Decision<State: Sharded>> + Deniable + Degradable,
{
    /// Without a reachable store a call does not wait: the other stages decide.
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        if submit.wait.0 > 0 {
            match Box::pin(waiters::wait(engine, decision.clone(), submit.wait, submit.deadline))
                .await
            {
                Err(Error::Unavailable(_) | Error::Refused(_)) => {}
                outcome => return outcome.map(Answered::by_store),
            }
        }
        cached(engine, decision, submit, asks_again::<D>).await
    }

    /// Decisions of a batch do not wait.
    async fn submit_all(
        engine: &Arc<Engine>,
        decisions: &[D],
        deadline: Instant,
    ) -> Batch<Answered<D::Outcome>> {
        engine.recall_or_store(decisions, deadline, asks_again::<D>).await
    }
}

impl<D> Stages<D> for Coalesced
where
    D: Joined<State: Sharded, Outcome: Clone, Preparation: Decision<State: Sharded>>,
{
    /// Only a round trip is worth combining requests for.
    async fn submit(
        engine: &Arc<Engine>,
        decision: &D,
        submit: Submit,
    ) -> Result<Answered<D::Outcome>, Error> {
        let outcome = match &**engine {
            Engine::Embedded(_) => engine.store(decision, submit.deadline).await,
            Engine::Redis(_) => {
                engine.admit()?;
                Box::pin(engine.coalescer().run(engine.clone(), decision.clone(), submit.deadline))
                    .await
            }
        };
        outcome.map(Answered::by_store)
    }
}
