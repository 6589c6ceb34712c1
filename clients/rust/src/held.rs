//! A held lease: its expiry on the local clock, its renewals and its lost signal.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

use crate::{
    Connection, Error,
    clock::Moment,
    keeper::Key,
    pb, random,
    time::{self, wire},
};

/// The fraction of a lease, and its bounds, by which it expires earlier here than on the server.
const MARGIN: u32 = 50;
const MARGIN_MIN: Duration = Duration::from_millis(10);
const MARGIN_MAX: Duration = Duration::from_secs(1);
/// Bounds of the pause after a failed renewal.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const ATTEMPT_MIN: Duration = Duration::from_millis(50);

/// A held lease of a task or a lock: token, validity and lost signal. Clones share it.
#[derive(Clone)]
pub struct Held(pub(crate) Arc<Inner>);

/// What the lease is for.
#[derive(Debug)]
pub(crate) enum Subject {
    Task { pool: Arc<str>, device: Box<str>, task: Box<str> },
    Lock { name: Box<str>, owner: Box<str> },
}

pub(crate) struct Inner {
    pub(crate) connection: Connection,
    pub(crate) subject: Subject,
    token: u64,
    /// The requested duration; `None` for the default of the server.
    lease: Option<Duration>,
    keeps: bool,
    state: Mutex<State>,
    lost: Notify,
}

#[derive(Debug)]
struct State {
    expiry: Moment,
    /// Duration of the lease, as the server last granted it.
    length: Duration,
    phase: Phase,
    /// Time of the next renewal; `None` while one is running and without a keeper.
    renew_at: Option<Moment>,
    /// The place in the keeper's queue.
    key: Option<Key>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Held,
    /// A result is being reported, so an answer COMPLETED does not mean that the lease is lost.
    Ending,
    Lost,
    Closed,
}

/// What the keeper does with a lease that is due.
pub(crate) enum Due {
    Renew,
    Wait,
    Over,
}

/// The answer to a renewal.
enum Renewal {
    Renewed(Moment, Duration),
    Completed,
    Ended,
}

impl Held {
    /// Registers a lease with the keeper. `sent` is the time just before its request was sent.
    pub(crate) fn new(
        connection: &Connection,
        subject: Subject,
        token: u64,
        (sent, expires_in): (Moment, Duration),
        lease: Option<Duration>,
        keeps: bool,
    ) -> Held {
        let state = State {
            expiry: expiry(sent, expires_in),
            length: lease.unwrap_or(expires_in),
            phase: Phase::Held,
            renew_at: keeps.then(|| sent + third(expires_in)),
            key: None,
        };
        let (state, lost) = (Mutex::new(state), Notify::new());
        let connection = connection.clone();
        let held = Held(Arc::new(Inner { connection, subject, token, lease, keeps, state, lost }));
        Inner::schedule(&held.0);
        held
    }

    /// Returns the fencing token. The protected system should reject lower ones.
    pub fn token(&self) -> u64 {
        self.0.token
    }

    /// Whether the lease is running. It expires here before it expires on the server.
    pub fn is_valid(&self) -> bool {
        self.0.check() && matches!(self.0.state().phase, Phase::Held | Phase::Ending)
    }

    /// Whether the lease ended before it was completed, released or dropped.
    pub fn is_lost(&self) -> bool {
        self.0.check();
        self.0.state().phase == Phase::Lost
    }

    /// Returns the time until the lease ends, unless it is renewed; 0 if it has ended.
    pub fn valid_for(&self) -> Duration {
        if self.is_valid() { self.0.state().expiry.left() } else { Duration::ZERO }
    }

    /// Completes when the lease is lost, before it expires on the server. Never completes if the
    /// lease is completed, released or dropped first.
    pub fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let held = self.clone();
        async move {
            loop {
                let mut notified = pin!(held.0.lost.notified());
                notified.as_mut().enable();
                if held.is_lost() {
                    return;
                }
                notified.await;
            }
        }
    }

    /// Stops the keeper and the lost signal. The lease then runs until it expires.
    pub(crate) fn close(&self) {
        self.0.leave(Phase::Closed);
    }

    /// Returns the end of the lease.
    pub(crate) fn expiry(&self) -> Moment {
        self.0.state().expiry
    }

    /// Marks that a result is being reported. The keeper continues.
    pub(crate) fn begin_end(&self) {
        let mut state = self.0.state();
        if state.phase == Phase::Held {
            state.phase = Phase::Ending;
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("subject", &self.0.subject)
            .field("token", &self.0.token)
            .field("phase", &self.0.state().phase)
            .finish()
    }
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the lease if it has expired. Returns whether it is running.
    fn check(&self) -> bool {
        let is_over = Moment::now() >= self.state().expiry;
        if is_over {
            self.leave(Phase::Lost);
        }
        !is_over
    }

    /// Ends the lease on this side, as lost or closed.
    fn leave(&self, to: Phase) {
        let mut state = self.state();
        if !matches!(state.phase, Phase::Held | Phase::Ending) {
            return;
        }
        state.phase = to;
        let key = state.key.take();
        drop(state);
        if let Some(key) = key {
            self.connection.keeper().remove(key);
        }
        if to == Phase::Lost {
            self.lost.notify_waiters();
        }
    }

    /// Enqueues the next action on the lease with the keeper.
    fn schedule(this: &Arc<Inner>) {
        let mut state = this.state();
        if !matches!(state.phase, Phase::Held | Phase::Ending) {
            return;
        }
        let keeper = this.connection.keeper();
        if let Some(key) = state.key.take() {
            keeper.remove(key);
        }
        let due = state.renew_at.map_or(state.expiry, |renew| renew.min(state.expiry));
        state.key = Some(keeper.insert(due, Arc::downgrade(this)));
    }

    /// Decides what to do now. The keeper has removed the lease from its queue.
    pub(crate) fn due(&self, now: Moment) -> Due {
        let mut state = self.state();
        state.key = None;
        if !matches!(state.phase, Phase::Held | Phase::Ending) {
            return Due::Over;
        } else if now >= state.expiry {
            drop(state);
            self.leave(Phase::Lost);
            return Due::Over;
        }
        match state.renew_at {
            Some(at) if at <= now => {
                state.renew_at = None;
                // After its connection is closed, the lease runs until it expires.
                if self.connection.closing().is_closed() { Due::Wait } else { Due::Renew }
            }
            _ => Due::Wait,
        }
    }

    /// Acts on a lease that is due.
    pub(crate) fn attend(this: Arc<Inner>, now: Moment) {
        match this.due(now) {
            Due::Over => {}
            Due::Wait => Inner::schedule(&this),
            Due::Renew => {
                // While the renewal is running, the expiry is due next.
                Inner::schedule(&this);
                tokio::spawn(async move {
                    let _slot = this.connection.keeper().renewal().await;
                    // Boxed, so that a lease pays for the memory of a call only while one is
                    // running.
                    Box::pin(Inner::renew(&this)).await;
                });
            }
        }
    }

    /// Renews the lease once. After an error it retries until the lease expires.
    async fn renew(this: &Arc<Inner>) {
        let (left, length, phase) = {
            let state = this.state();
            (state.expiry.left(), state.length, state.phase)
        };
        if !matches!(phase, Phase::Held | Phase::Ending) {
            return;
        }
        let each = (length / 4).max(ATTEMPT_MIN).min(left.max(ATTEMPT_MIN));
        let deadline = each.min(this.connection.deadline());
        let answer = this.ask(deadline, this.lease).await;
        match answer {
            Ok(Renewal::Renewed(sent, expires_in)) => this.renewed(sent, expires_in),
            Ok(Renewal::Completed) => {
                let is_ending = this.state().phase == Phase::Ending;
                this.leave(if is_ending { Phase::Closed } else { Phase::Lost });
            }
            Ok(Renewal::Ended) => this.leave(Phase::Lost),
            Err(error) => {
                let pause = (length / 20).clamp(PAUSE_MIN, PAUSE_MAX);
                let pause =
                    random::between(pause, 0.5, 1.5) + error.retry_after.unwrap_or_default();
                this.state().renew_at = Some(Moment::now() + pause);
            }
        }
        Inner::schedule(this);
    }

    fn renewed(&self, sent: Moment, expires_in: Duration) {
        let mut state = self.state();
        // A renewal that is answered after the local expiry is too late.
        if Moment::now() < state.expiry {
            state.expiry = expiry(sent, expires_in);
            state.length = expires_in;
        }
        state.renew_at = self.keeps.then(|| sent + third(expires_in));
    }

    /// Sends a renewal.
    async fn ask(&self, deadline: Duration, lease: Option<Duration>) -> Result<Renewal, Error> {
        let (fencing_token, lease_duration) = (Some(self.token), lease.map(wire));
        match &self.subject {
            Subject::Task { pool, device, task } => {
                let message = pb::RenewTaskRequest {
                    pool: pool.to_string(),
                    device_id: device.to_string(),
                    task_id: task.to_string(),
                    fencing_token,
                    lease_duration,
                };
                let answered = self.connection.once(deadline, message).await?;
                let expires_in = answered.answer.lease.as_ref().and_then(|it| it.expires_in);
                match answered.answer.verdict() {
                    pb::RenewVerdict::Renewed => renewal(answered.sent, expires_in),
                    pb::RenewVerdict::Completed => Ok(Renewal::Completed),
                    pb::RenewVerdict::Unspecified => Err(Error::malformed("verdict")),
                    _ => Ok(Renewal::Ended),
                }
            }
            Subject::Lock { name, owner } => {
                let message = pb::RenewLockRequest {
                    name: name.to_string(),
                    owner: owner.to_string(),
                    fencing_token,
                    lease_duration,
                };
                let answered = self.connection.once(deadline, message).await?;
                let expires_in = answered.answer.lease.as_ref().and_then(|it| it.expires_in);
                match answered.answer.outcome() {
                    pb::RenewLockOutcome::Renewed => renewal(answered.sent, expires_in),
                    pb::RenewLockOutcome::NotHeld => Ok(Renewal::Ended),
                    pb::RenewLockOutcome::Unspecified => Err(Error::malformed("outcome")),
                }
            }
        }
    }
}

fn renewal(sent: Moment, expires_in: Option<prost_types::Duration>) -> Result<Renewal, Error> {
    Ok(Renewal::Renewed(sent, time::length(expires_in, "expires_in")?))
}

/// Returns the expiry of a lease on the local clock, which is never later than on the server.
pub(crate) fn expiry(sent: Moment, expires_in: Duration) -> Moment {
    let margin = (expires_in / MARGIN).clamp(MARGIN_MIN, MARGIN_MAX);
    sent + expires_in.saturating_sub(margin)
}

/// Returns a third of a lease, with jitter.
fn third(lease: Duration) -> Duration {
    random::between(lease, 0.3, 0.36)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_ends_on_the_client_first() {
        let sent = Moment::now();
        for (millis, margin) in [(100, 10), (2_000, 40), (60_000, 1_000), (86_400_000, 1_000)] {
            let length = Duration::from_millis(millis);
            assert_eq!(expiry(sent, length), sent + (length - Duration::from_millis(margin)));
            assert!(third(length) >= length.mul_f64(0.3) && third(length) <= length.mul_f64(0.36));
        }
        assert_eq!(expiry(sent, Duration::ZERO), sent);
    }
}
