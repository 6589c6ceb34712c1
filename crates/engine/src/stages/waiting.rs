//! The waiting stage keeps calls in the queues of pools and locks until they may proceed.
//!
//! AdmitTask and AcquireLock use it when the caller is willing to wait. A call asks the store. If
//! it has to wait, the store gives its waiter a ticket, and the call sleeps until a wake-up. Then
//! it asks again. The store alone decides the order: a wake-up grants nothing.
//!
//! # Heartbeats
//! A wake-up can be lost, and a lease can end while nobody calls. Therefore, one task for each kind
//! of call sends heartbeats for each queue that has calls of this server. They are sent every 300
//! ms (less often above 3,000 queues) and at the next lease end; see `register`. A heartbeat renews
//! the tickets of this server and returns the waiters that may proceed. The task runs only while
//! calls wait.
//!
//! # Guarantees
//! - A waiting call occupies memory and a ticket, but no connection and no thread.
//! - A call that is cancelled leaves its queue with the next heartbeat. If the store is about to
//!   grant it something, the grant is revoked (`unreceived`). A server that dies loses its tickets
//!   after five heartbeat intervals, so its waiters do not block anyone for long.
//! - A call whose last attempt has an unknown outcome fails with [`Error::DeadlineExceeded`], never
//!   with a refusal, because it may have been granted.
//! - At shutdown, a call fails with [`Error::Ending`]. On Redis, its ticket is kept for 10 s, so
//!   that a repeat on another server continues at its old place in the queue.

mod register;
mod tries;
mod unreceived;

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Handle,
    task::yield_now,
    time::{sleep, timeout_at},
};

use crate::{Engine, embedded::Sharded, hub::Registration};
use register::{Due, Register};
use tollgate_core::{
    Decision,
    error::Error,
    time::{Millis, monotonic},
    waiting::{Heartbeat, HeartbeatAnswer, Proceed, WaitingCall, Waits},
};
use tollgate_telemetry::metrics;
use tries::Tries;
pub use unreceived::Unreceived;

/// Maximum time that a call reserves for its last attempt, which is otherwise a quarter of its
/// time.
const LAST_TRY_MAX: Duration = Duration::from_millis(250);
/// Time limit for a heartbeat.
const HEARTBEAT_MAX: Duration = Duration::from_secs(1);
/// Maximum number of queues in one round trip of heartbeats.
const HEARTBEATS_MAX: usize = 128;
/// The time that a heartbeat is valid on the embedded engine. It is long because there are no calls
/// of other servers, and a delay on this server must not cost its calls their tickets.
const KEEP_ALONE: Millis = Millis::from_secs(3600);
/// The pause before a waiting call or the heartbeat task tries again after an error.
const CROWDED: Duration = Duration::from_millis(50);
/// The time for which Redis keeps the ticket of a call whose server shuts down. The kept ticket
/// blocks no other waiter.
const TICKET_KEPT: Millis = Millis::from_secs(10);
/// The time that such a call has to leave its queue with its ticket kept.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// The time after which a call asks again without a wake-up: [`ASK_EVERY`], plus up to
/// [`ASK_PER_CALL`] for each waiting call, so that calls do not all ask simultaneously. A call
/// whose ticket was lost gets a new one.
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_PER_CALL: Duration = Duration::from_millis(1);

/// The queues of one kind that have waiting calls of this server.
#[derive(Debug)]
struct WaitingCalls<D: Waits> {
    engine: Arc<Engine>,
    register: Arc<Register<D>>,
}

impl<D: Waits> Clone for WaitingCalls<D> {
    fn clone(&self) -> WaitingCalls<D> {
        WaitingCalls { engine: self.engine.clone(), register: self.register.clone() }
    }
}

/// A waiting call, which leaves its queue when dropped.
struct WaiterCall<D>
where
    D: Waits<State: Sharded, Heartbeat: Decision<State: Sharded>>,
{
    waiters: WaitingCalls<D>,
    decision: D,
    registration: Registration,
    /// The ticket number; 0 before the first ticket.
    ticket: u64,
    /// Whether the queue may contain a ticket of this call.
    may_be_queued: bool,
    /// The attempt that the store is deciding, if it was not answered yet.
    in_flight: Option<Try<D::Outcome>>,
}

/// An attempt that outlives its call, so that its grant can be revoked.
type Try<O> = Pin<Box<dyn Future<Output = Result<O, Error>> + Send>>;

/// Runs the waiting stage, which executes a decision and waits until it may proceed. Returns by the
/// deadline. The outcome is the last refusal if the time is over. Fails with [`Error::Ending`] if
/// the server shuts down before that.
pub(crate) async fn wait<D>(
    engine: &Arc<Engine>,
    decision: D,
    wait: Millis,
    deadline: Instant,
) -> Result<D::Outcome, Error>
where
    D: Waits<State: Sharded, Heartbeat: Decision<State: Sharded>>,
{
    let start = monotonic();
    let _timed = TimedWait(start);
    let last_try = (deadline.saturating_duration_since(start) / 4).min(LAST_TRY_MAX);
    let until = (start + wait.duration()).min(deadline - last_try);
    let registration = engine.hub().register(decision.partition())?;
    let register = engine.hub().by_type(Arc::<Register<D>>::default).clone();
    let waiters = WaitingCalls { engine: engine.clone(), register };
    let (ticket, may_be_queued, in_flight) = (0, false, None);
    let mut call = WaiterCall { waiters, decision, registration, ticket, may_be_queued, in_flight };
    call.run(until, deadline).await
}

/// Measures a wait until its call ends, even if its caller cancels it.
struct TimedWait(Instant);

impl Drop for TimedWait {
    fn drop(&mut self) {
        let waited = monotonic().saturating_duration_since(self.0);
        metrics::count(|cells| cells.waits.observe(waited));
    }
}

/// Applies the rules of the last reload to a waiting call, if there was one.
fn follow<D: Waits>(engine: &Engine, decision: &mut D) {
    if let Some(rules) = &*engine.hub().followed::<D::Rules>().load() {
        decision.follow(rules);
    }
}

impl<D> WaitingCalls<D>
where
    D: Waits<State: Sharded, Heartbeat: Decision<State: Sharded>>,
{
    /// Returns the time for which a heartbeat of this server is valid.
    fn keep(&self) -> Millis {
        if self.engine.is_remote() { self.register.keep() } else { KEEP_ALONE }
    }

    /// Starts the heartbeat task if `is_due`.
    fn begin(&self, is_due: bool) {
        // Without a runtime, the process is ending, and the tickets expire.
        if is_due && let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.clone().heartbeat());
        }
    }

    /// Sends heartbeats until no call is waiting.
    async fn heartbeat(self) {
        while let Some(mut dues) = self.register.next(HEARTBEATS_MAX).await {
            dues.iter_mut().for_each(|due| follow(&self.engine, &mut due.asked));
            let heartbeat = |due: &Due<D>| {
                due.asked.heartbeat(Heartbeat {
                    channel: self.engine.hub().channel().clone(),
                    keep: self.keep(),
                    gone: due.gone.clone(),
                })
            };
            let heartbeats: Vec<D::Heartbeat> = dues.iter().map(heartbeat).collect();
            // A waiter that it wakes decides again, and that answer waits for the disk.
            let deadline = monotonic() + HEARTBEAT_MAX;
            let answers = self.engine.store_unsynced(&heartbeats, deadline).await;
            let answers = answers.unwrap_or_else(|error| vec![Err(error); dues.len()]);
            let has_failed = answers.iter().any(Result::is_err);
            for (due, answer) in dues.into_iter().zip(answers) {
                self.learn(due, answer);
            }
            if has_failed {
                sleep(CROWDED).await;
            }
            // On the embedded engine, nothing above awaits, so let calls of this thread run.
            yield_now().await;
        }
    }

    /// Waits for an attempt whose call has ended. Revokes its grant, or leaves the queue that the
    /// attempt has entered.
    async fn abandon(self, decision: D, number: u64, in_flight: Try<D::Outcome>) {
        let Ok(outcome) = in_flight.await else { return };
        if let Some(revocation) = decision.revoke(&outcome) {
            unreceived::revoke_grant(self.engine.clone(), revocation).await;
        } else if let Proceed::Waits(_) = D::proceed(&outcome) {
            let waiter = decision.waiter().into();
            self.begin(self.register.leave(decision, waiter, number));
        }
    }

    /// Processes the answer to a heartbeat: wakes the calls that may proceed, and schedules the
    /// next heartbeat of the queue.
    fn learn(&self, due: Due<D>, answer: Result<HeartbeatAnswer, Error>) {
        let (hub, asked) = (self.engine.hub(), due.asked);
        let (ask_all, frees_in) = match answer {
            Ok(HeartbeatAnswer { frees_in, again, proceeding }) => {
                for (number, waiter) in proceeding {
                    if !hub.wake(number) {
                        // The call has ended, and its request to leave was lost, so send it again.
                        // The task is already running.
                        self.register.leave(asked.clone(), waiter, number);
                    }
                }
                (again, frees_in.map(Millis::duration))
            }
            // If the store is unreachable or the queue unreadable, each call asks and gets that
            // error.
            Err(error) => {
                tracing::debug!(%error, "a heartbeat of a queue failed");
                let ask_all = matches!(error, Error::Corrupt(_)) || self.engine.check().is_err();
                if let (Some((waiter, number)), false) = (due.gone, ask_all) {
                    self.register.leave(asked.clone(), waiter, number);
                }
                (ask_all, None)
            }
        };
        if ask_all {
            self.register.calls(asked.partition()).into_iter().for_each(|number| {
                hub.wake(number);
            });
        }
        self.register.answered(asked.partition(), frees_in);
    }
}

impl<D> WaiterCall<D>
where
    D: Waits<State: Sharded, Heartbeat: Decision<State: Sharded>>,
{
    /// Asks, sleeps and asks again until the call may proceed or `until` has passed. `until` leaves
    /// time for a last attempt before `deadline`.
    async fn run(&mut self, until: Instant, deadline: Instant) -> Result<D::Outcome, Error> {
        let mut tries = Tries::default();
        loop {
            let was_queued = self.may_be_queued;
            let wait = self.begin_try(&mut tries, until);
            let outcome = match self.ask(deadline).await {
                Ok(outcome) => outcome,
                // Certainly not executed, so it left nothing in the queue.
                Err(error) if !error.is_unsure() && tries.refusal.is_none() => {
                    self.may_be_queued = was_queued;
                    return Err(error);
                }
                Err(error) => match tries.failed(error, wait, deadline, &self.waiters.engine) {
                    Some(ended) => return ended,
                    None => {
                        sleep(CROWDED).await;
                        continue;
                    }
                },
            };
            tries.is_unsure = false;
            if let Some(frees_in) = D::frees_in(&outcome) {
                self.waiters.register.frees(self.decision.partition(), frees_in.duration());
            }
            let ticket = match D::proceed(&outcome) {
                Proceed::Waits(ticket) => ticket,
                Proceed::Again if monotonic() < deadline => {
                    yield_now().await;
                    continue;
                }
                proceed => {
                    self.may_be_queued = false;
                    return match tries.leaves_by {
                        Some(_) if proceed != Proceed::Now => Err(Error::Ending),
                        _ => Ok(outcome),
                    };
                }
            };
            if self.ticket == 0 {
                let number = self.registration.number();
                self.waiters.begin(self.waiters.register.enter(&self.decision, number));
            }
            self.ticket = ticket;
            tries.refusal = Some(outcome);
            self.sleep(until).await;
        }
    }

    /// Executes the decision. If the call ends before the answer, a grant is revoked.
    async fn ask(&mut self, deadline: Instant) -> Result<D::Outcome, Error> {
        let (engine, decision) = (self.waiters.engine.clone(), self.decision.clone());
        let asked = Box::pin(async move { engine.store(&decision, deadline).await });
        let answer = self.in_flight.insert(asked).as_mut().await;
        self.in_flight = None;
        answer
    }

    /// Prepares the decision for the next attempt. Returns how long the call will still wait; 0 for
    /// its last attempt.
    fn begin_try(&mut self, tries: &mut Tries<D::Outcome>, until: Instant) -> Millis {
        let (engine, now) = (&self.waiters.engine, monotonic());
        if engine.hub().is_closed() && now < until {
            tries.leaves_by.get_or_insert(now + LEAVE_MAX);
        }
        let left = until.saturating_duration_since(now).as_millis() as u64;
        let (wait, ticket_kept) = match tries.leaves_by {
            None => (Millis(left), Millis(0)),
            // The queue of an embedded engine ends with the process.
            Some(_) if engine.is_remote() => (Millis(0), TICKET_KEPT),
            Some(_) => (Millis(0), Millis(0)),
        };
        *self.decision.waiting() = Some(WaitingCall {
            number: self.registration.number(),
            ticket: self.ticket,
            wait,
            ticket_kept,
            keep: self.waiters.keep(),
            channel: engine.hub().channel().clone(),
        });
        follow(engine, &mut self.decision);
        self.may_be_queued |= wait.0 > 0;
        wait
    }

    /// Sleeps until a wake-up, at most until `until` or until the call asks again without one.
    async fn sleep(&mut self, until: Instant) {
        // The spread keeps calls from asking together.
        let calls = self.waiters.engine.hub().calls().max(1) as u64;
        let spread = self.registration.number() % calls;
        let again = monotonic() + ASK_EVERY + ASK_PER_CALL * spread as u32;
        let _ = timeout_at(again.min(until).into(), self.registration.woken()).await;
        // Lets a cancelled call end before it takes a slot.
        yield_now().await;
    }
}

impl<D> Drop for WaiterCall<D>
where
    D: Waits<State: Sharded, Heartbeat: Decision<State: Sharded>>,
{
    fn drop(&mut self) {
        let number = self.registration.number();
        if let Some(in_flight) = self.in_flight.take() {
            let abandoned = self.waiters.clone().abandon(self.decision.clone(), number, in_flight);
            unreceived::spawn_bounded(&self.waiters.engine, abandoned);
        }
        if self.ticket > 0 {
            self.waiters.register.exit(self.decision.partition(), number);
        }
        if self.may_be_queued {
            let waiter = self.decision.waiter().into();
            self.waiters.begin(self.waiters.register.leave(self.decision.clone(), waiter, number));
        }
    }
}

#[cfg(test)]
mod tests;
