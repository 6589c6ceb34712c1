//! The waiting room: calls that wait for their turn, and a server's attendance to the
//! queues they wait in.
//!
//! A call asks, and if it has to wait it sleeps until it is told, then asks again. A
//! hint may be lost and a lease ends without a word, so one task for all queues asks
//! now and then, and when a lease is about to end, whose turn it is. It runs only while
//! calls wait; they hold no connection meanwhile.

mod register;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    runtime::Handle,
    task::yield_now,
    time::{sleep, timeout_at},
};

use super::{Answered, Engine, Shelved, embedded::Kept, hub::Seat};
use crate::{
    decision::Decision,
    error::Error,
    time::{Millis, monotonic},
    waiting::{Attend, Attendance, Place, Turn, Waits},
};
use register::{Due, Register};

/// Kept back of a call's time for its last try: a fourth of it, or this.
const LAST_TRY_MAX: Duration = Duration::from_millis(250);
/// By when the store has to answer an attendance.
const ATTEND_MAX: Duration = Duration::from_secs(1);
/// Queues that are attended to in one round trip.
const ATTENDED_MAX: usize = 128;
/// How long the only server there is is known to a queue.
const KEEP_ALONE: Millis = Millis::from_secs(3600);
/// When a call that waits asks again that could not, and when a server attends again.
const CROWDED: Duration = Duration::from_millis(50);
/// How long the ticket of a call is kept, in Redis, that waits on a server that ends: time to
/// call another server. Nobody waits for it meanwhile.
const TICKET_KEPT: Millis = Millis::from_secs(10);
/// How long such a call tries to have its ticket kept.
const LEAVE_MAX: Duration = Duration::from_secs(1);
/// How often a call asks again that is told nothing: whatever became of its place, it
/// takes it again. And what each call that waits adds to that.
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_PER_CALL: Duration = Duration::from_millis(1);

/// The calls of one kind that wait.
#[derive(Debug)]
pub struct Room<D: Waits> {
    engine: Arc<Engine>,
    register: Register<D>,
}

/// A call that waits; gives its place up when dropped.
struct Waiting<'a, D>
where
    D: Waits<State: Kept, Attend: Decision<State: Kept>>,
{
    room: &'a Arc<Room<D>>,
    decision: D,
    seat: Seat,
    ticket: u64,
    /// Whether the queue may hold its place.
    is_placed: bool,
}

impl<D> Room<D>
where
    D: Waits<State: Kept, Attend: Decision<State: Kept>>,
{
    /// An empty room.
    pub fn new(engine: Arc<Engine>) -> Arc<Room<D>> {
        Arc::new(Room { engine, register: Register::default() })
    }

    /// Takes a decision without waiting.
    pub async fn run_at_once(&self, decision: &D, deadline: Instant) -> Result<D::Outcome, Error> {
        loop {
            let outcome = self.engine.run(decision, deadline).await?;
            if D::turn(&outcome) != Turn::Again || monotonic() >= deadline {
                return Ok(outcome);
            }
            yield_now().await;
        }
    }

    /// Takes a decision as [`Engine::answer`] does, waiting for its turn at most `wait`; boxed,
    /// so that others do not pay for it. Nobody waits for a store that cannot be asked.
    pub async fn answer(
        self: &Arc<Room<D>>,
        decision: &D,
        wait: Millis,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Shelved,
    {
        if wait.0 > 0 {
            match Box::pin(self.run(decision.clone(), wait, deadline)).await {
                Err(Error::Unavailable(_) | Error::Refused(_)) => {}
                outcome => return outcome.map(Answered::by_store),
            }
        }
        self.answer_at_once(decision, deadline).await
    }

    async fn answer_at_once(
        &self,
        decision: &D,
        deadline: Instant,
    ) -> Result<Answered<D::Outcome>, Error>
    where
        D: Shelved,
    {
        loop {
            let answered = self.engine.answer(decision, deadline).await?;
            if D::turn(&answered.outcome) != Turn::Again || monotonic() >= deadline {
                return Ok(answered);
            }
            yield_now().await;
        }
    }

    /// Takes a decision, waiting for its turn at most `wait`. Returns by `deadline`. Fails with
    /// `Ending` when the server ends before its turn and before its time is over.
    pub async fn run(
        self: &Arc<Room<D>>,
        decision: D,
        wait: Millis,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        let start = monotonic();
        let last_try = (deadline.saturating_duration_since(start) / 4).min(LAST_TRY_MAX);
        let until = (start + wait.duration()).min(deadline - last_try);
        let seat = self.engine.hub().seat()?;
        let mut call = Waiting { room: self, decision, seat, ticket: 0, is_placed: false };
        call.run(until, deadline).await
    }

    /// How long this server is known to a queue without a word. Where nobody else can be
    /// there it is known, whatever holds it up.
    fn keep(&self) -> Millis {
        if self.engine.is_remote() { self.register.keep() } else { KEEP_ALONE }
    }

    /// Begins to attend to the queues, if nobody does.
    fn begin(self: &Arc<Room<D>>, is_due: bool) {
        // A call that is dropped with its runtime needs nobody to tell so.
        if is_due && let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.clone().attend());
        }
    }

    /// Attends to the queues until nobody waits.
    async fn attend(self: Arc<Room<D>>) {
        while let Some(dues) = self.register.next(ATTENDED_MAX).await {
            let attend = |due: &Due<D>| {
                due.asked.attend(Attend {
                    channel: self.engine.hub().channel().clone(),
                    keep: self.keep(),
                    gone: due.gone.clone(),
                })
            };
            let attends: Vec<D::Attend> = dues.iter().map(attend).collect();
            let attended = self.engine.run_all(&attends, monotonic() + ATTEND_MAX).await;
            let attended = attended.unwrap_or_else(|error| vec![Err(error); dues.len()]);
            let has_failed = attended.iter().any(Result::is_err);
            for (due, attended) in dues.into_iter().zip(attended) {
                self.learn(due, attended);
            }
            if has_failed {
                sleep(CROWDED).await;
            }
            // Where the store needs no waiting for, calls go first.
            yield_now().await;
        }
    }

    fn learn(&self, due: Due<D>, attended: Result<Attendance, Error>) {
        let (hub, asked) = (self.engine.hub(), due.asked);
        let (ask_all, frees_in) = match attended {
            Ok(Attendance { frees_in, again, turns }) => {
                for (number, waiter) in turns {
                    if !hub.tell(number) {
                        // Its word that it waits no longer was lost. Somebody attends: we.
                        self.register.leave(asked.clone(), waiter, number);
                    }
                }
                (again, frees_in.map(Millis::duration))
            }
            // What keeps the server from attending is what calls are answered, too.
            Err(error) => {
                tracing::debug!(%error, "could not attend to a queue");
                let ask_all = matches!(error, Error::Corrupt(_)) || self.engine.check().is_err();
                if let (Some((waiter, number)), false) = (due.gone, ask_all) {
                    self.register.leave(asked.clone(), waiter, number);
                }
                (ask_all, None)
            }
        };
        if ask_all {
            self.register.calls(asked.partition()).into_iter().for_each(|number| {
                hub.tell(number);
            });
        }
        self.register.attended(asked.partition(), frees_in);
    }
}

impl<D> Waiting<'_, D>
where
    D: Waits<State: Kept, Attend: Decision<State: Kept>>,
{
    async fn run(&mut self, until: Instant, deadline: Instant) -> Result<D::Outcome, Error> {
        let engine = &self.room.engine;
        let mut refusal = None;
        // A try whose reply was lost may have been granted.
        let mut is_unsure = false;
        // Until when a call tries to leave whose server ends.
        let mut leaves_by = None;
        loop {
            let now = monotonic();
            if engine.hub().is_closed() && now < until {
                leaves_by.get_or_insert(now + LEAVE_MAX);
            }
            let (wait, ticket_kept) = match leaves_by {
                None => {
                    (Millis(until.saturating_duration_since(now).as_millis() as u64), Millis(0))
                }
                // The embedded engine's queue ends with the server.
                Some(_) if engine.is_remote() => (Millis(0), TICKET_KEPT),
                Some(_) => (Millis(0), Millis(0)),
            };
            *self.decision.place() = Some(Place {
                number: self.seat.number(),
                ticket: self.ticket,
                wait,
                ticket_kept,
                keep: self.room.keep(),
                channel: engine.hub().channel().clone(),
            });
            self.is_placed |= wait.0 > 0;
            let outcome = match engine.run(&self.decision, deadline).await {
                Ok(outcome) => {
                    is_unsure = false;
                    outcome
                }
                // It goes on waiting where the store goes on answering, and has been
                // refused where there is no room for its last try.
                Err(Error::Overloaded)
                    if refusal.is_some() && leaves_by.is_some_and(|by| monotonic() < by) =>
                {
                    sleep(CROWDED).await;
                    continue;
                }
                Err(error) => match (error, refusal.take()) {
                    (Error::Overloaded | Error::Unavailable(_) | Error::Refused(_), Some(_))
                        if leaves_by.is_some() && !is_unsure =>
                    {
                        return Err(Error::Ending);
                    }
                    (
                        Error::Overloaded | Error::Unavailable(_) | Error::Refused(_),
                        Some(refused),
                    ) if wait.0 == 0 && !is_unsure && engine.check().is_ok() => {
                        return Ok(refused);
                    }
                    (error @ Error::Corrupt(_), _) => return Err(error),
                    (error, refused @ Some(_)) if wait.0 > 0 && engine.check().is_ok() => {
                        is_unsure |= error.is_unsure();
                        refusal = refused;
                        sleep(CROWDED).await;
                        continue;
                    }
                    // A try before this one may have been granted.
                    (_, _) if is_unsure => return Err(Error::DeadlineExceeded),
                    (error, _) => return Err(error),
                },
            };
            if let Some(frees_in) = D::frees_in(&outcome) {
                self.room.register.frees(self.decision.partition(), frees_in.duration());
            }
            let ticket = match D::turn(&outcome) {
                Turn::Waits(ticket) => ticket,
                Turn::Again if monotonic() < deadline => {
                    yield_now().await;
                    continue;
                }
                turn => {
                    self.is_placed = false;
                    return match leaves_by {
                        Some(_) if turn != Turn::Now => Err(Error::Ending),
                        _ => Ok(outcome),
                    };
                }
            };
            if self.ticket == 0 {
                self.room.begin(self.room.register.enter(&self.decision, self.seat.number()));
            }
            self.ticket = ticket;
            refusal = Some(outcome);
            // Told or not, it asks again then; not all at once that came at once.
            let spread = self.seat.number() % engine.hub().seats().max(1) as u64;
            let again = monotonic() + ASK_EVERY + ASK_PER_CALL * spread as u32;
            let _ = timeout_at(again.min(until).into(), self.seat.told()).await;
            // Lets a client that went away meanwhile end the call before its turn.
            yield_now().await;
        }
    }
}

impl<D> Drop for Waiting<'_, D>
where
    D: Waits<State: Kept, Attend: Decision<State: Kept>>,
{
    fn drop(&mut self) {
        let number = self.seat.number();
        if self.ticket > 0 {
            self.room.register.exit(self.decision.partition(), number);
        }
        if self.is_placed {
            let waiter = self.decision.waiter().into();
            self.room.begin(self.room.register.leave(self.decision.clone(), waiter, number));
        }
    }
}
