//! Locks as guards: acquired, kept, released on drop.

use std::{
    future::{Future, IntoFuture},
    ops::Deref,
    pin::Pin,
    time::Duration,
};

use crate::{
    Connection, Error, ReleaseLockOutcome,
    admit::is_stale,
    claims::{self, Grant},
    clock::Moment,
    connection::Answered,
    held::{Held, Subject},
    pb,
    permit::persist,
    random, time,
    wait::Wanted,
};

/// Duration of a lease by default.
const LEASE: Duration = Duration::from_secs(30);

/// A request for a lock; `await` sends it. See [`Connection::lock`].
#[derive(Debug, Clone)]
#[must_use = "await sends the request"]
pub struct LockRequest {
    connection: Connection,
    name: String,
    owner: String,
    /// Whether the caller has named the owner.
    is_named: bool,
    wait: Duration,
    lease: Option<Duration>,
    keeps: bool,
}

/// The answer to a request for a lock.
#[derive(Debug)]
pub enum Locking {
    /// The owner holds the lock.
    Acquired(LockGuard),
    /// Another owner holds the lock.
    Held {
        /// The holder; empty if the lock is free but reserved for waiters.
        holder: String,
        /// Time until the lease of the holder ends.
        retry_after: Duration,
    },
}

/// A held lock, until it is lost or released.
///
/// A keeper renews the lease. Dropping the guard releases the lock in the background.
#[derive(Debug)]
pub struct LockGuard {
    held: Held,
    replayed: bool,
}

impl Connection {
    /// Asks for a lock. If the future is dropped, a lock that it may have acquired is released in
    /// the background; with a named owner, only if its wait has just ended.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use tollgate_client::{Connection, Error, Locking};
    /// # async fn run(connection: Connection) -> Result<(), Error> {
    /// let answer = connection.lock("nightly-report").wait(Duration::from_secs(60)).await?;
    /// if let Locking::Acquired(guard) = answer {
    ///     tokio::select! {
    ///         () = guard.lost() => { /* Stop the work: another owner may hold the lock. */ }
    ///         // The work, with `guard.token()`.
    ///         () = async {} => { guard.release().await?; }
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock(&self, name: &str) -> LockRequest {
        LockRequest {
            connection: self.clone(),
            name: name.to_owned(),
            owner: random::id(),
            is_named: false,
            wait: Duration::ZERO,
            lease: None,
            keeps: true,
        }
    }
}

impl LockRequest {
    /// Sets the owner, which must be unique among the competitors. Default: a random name.
    pub fn owner(mut self, owner: impl Into<String>) -> LockRequest {
        self.owner = owner.into();
        self.is_named = true;
        self
    }

    /// Waits for the lock up to this time. The wait uses a separate connection and may be longer
    /// than the 60 s of one call. Default: no wait.
    pub fn wait(mut self, wait: Duration) -> LockRequest {
        self.wait = wait;
        self
    }

    /// Sets the duration of the lease, 1 ms to 30 days. Default: 30 s.
    pub fn lease(mut self, lease: impl Into<Option<Duration>>) -> LockRequest {
        self.lease = lease.into();
        self
    }

    /// Sets whether a keeper renews the lease. Default: true.
    pub fn keeper(mut self, keeps: bool) -> LockRequest {
        self.keeps = keeps;
        self
    }

    async fn ask(self) -> Result<Locking, Error> {
        let is_final =
            |answer: &pb::AcquireLockResponse| answer.outcome() != pb::AcquireLockOutcome::Held;
        let claim = self.connection.claim(claims::key(&["lock", &self.name, &self.owner])).await;
        let (name, owner) = (self.name.clone(), self.owner.clone());
        let release =
            move |grant: &Grant| pb::ReleaseLockRequest { name, owner, fencing_token: grant.token };
        // Nobody else uses the default owner, which may hold the lock even if there was no answer.
        let left = self.lease.unwrap_or(LEASE);
        let unanswered = Grant { token: None, replayed: false, task: String::new(), left };
        let unanswered = (!self.is_named).then_some(unanswered);
        let mut wanted = Wanted::new(claim, granted, unanswered, release, Duration::ZERO);
        let call = |wait| self.clone().call(wait);
        let answered = wanted.in_calls(&self.connection, self.wait, call, is_final).await?;
        let locking = match answered.answer.outcome() {
            pb::AcquireLockOutcome::Acquired => self.acquired(answered).await?,
            _ => refused(answered.answer)?,
        };
        wanted.answered(match &locking {
            Locking::Acquired(guard) => Some(guard.token()),
            Locking::Held { .. } => None,
        });
        Ok(locking)
    }

    async fn call(self, wait: Duration) -> Result<Answered<pb::AcquireLockResponse>, Error> {
        let message = pb::AcquireLockRequest {
            name: self.name.clone(),
            owner: self.owner.clone(),
            lease_duration: self.lease.map(time::wire),
            max_wait: (!wait.is_zero()).then(|| time::wire(wait)),
        };
        let deadline = self.connection.deadline() + wait;
        if wait.is_zero() {
            self.connection.timed(deadline, message).await
        } else {
            self.connection.waiting(deadline, message).await
        }
    }

    /// Makes the guard. As for a permit, a call that waited is repeated without a wait.
    async fn acquired(&self, first: Answered<pb::AcquireLockResponse>) -> Result<Locking, Error> {
        let replayed = first.answer.replayed;
        let mut answered = first;
        if is_stale(answered.sent, left(&answered.answer)?)
            && let Ok(again) = self.clone().call(Duration::ZERO).await
        {
            if again.answer.outcome() != pb::AcquireLockOutcome::Acquired {
                return refused(again.answer);
            }
            answered = again;
        }
        let expires_in = left(&answered.answer)?;
        let lease = answered.answer.lease.ok_or_else(|| Error::malformed("lease"))?;
        let subject =
            Subject::Lock { name: self.name.as_str().into(), owner: self.owner.as_str().into() };
        let held = Held::new(
            &self.connection,
            subject,
            lease.fencing_token,
            (answered.sent, expires_in),
            self.lease,
            self.keeps,
        );
        Ok(Locking::Acquired(LockGuard { held, replayed }))
    }
}

impl IntoFuture for LockRequest {
    type Output = Result<Locking, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}

impl LockGuard {
    /// Whether an earlier call got this lease.
    pub fn replayed(&self) -> bool {
        self.replayed
    }

    /// Returns the owner.
    pub fn owner(&self) -> &str {
        match &self.held.0.subject {
            Subject::Lock { owner, .. } => owner,
            Subject::Task { .. } => "",
        }
    }

    /// Returns the lease, for tasks that need its token and its lost signal.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Releases the lock. Repeats the call until it is answered, at most until the lease ends.
    /// NOT_HELD means that the lease had ended before.
    pub async fn release(self) -> Result<ReleaseLockOutcome, Error> {
        let (held, until) = (self.held.clone(), self.held.expiry());
        held.close();
        release(&held, until).await
    }

    /// Stops the keeper and lets the lease end, without a release.
    pub fn close(self) {
        self.held.close();
    }
}

impl Deref for LockGuard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        let (is_open, until) = (self.held.is_valid(), self.held.expiry());
        self.held.close();
        if is_open && let Some((key, message)) = request(&self.held) {
            self.held.0.connection.give_up(key, message, until);
        }
    }
}

/// Returns the identity of a lock and the message that releases it.
fn request(held: &Held) -> Option<(String, pb::ReleaseLockRequest)> {
    let Subject::Lock { name, owner } = &held.0.subject else { return None };
    let message = pb::ReleaseLockRequest {
        name: name.to_string(),
        owner: owner.to_string(),
        fencing_token: Some(held.token()),
    };
    Some((claims::key(&["lock", name, owner]), message))
}

async fn release(held: &Held, until: Moment) -> Result<ReleaseLockOutcome, Error> {
    let (_, message) = request(held).ok_or_else(|| Error::malformed("subject"))?;
    match persist(&held.0.connection, message, Some(until)).await?.outcome() {
        ReleaseLockOutcome::Unspecified => Err(Error::malformed("outcome")),
        outcome => Ok(outcome),
    }
}

fn refused(response: pb::AcquireLockResponse) -> Result<Locking, Error> {
    match response.outcome() {
        pb::AcquireLockOutcome::Held => {
            let retry_after = time::length(response.retry_after, "retry_after")?;
            Ok(Locking::Held { holder: response.holder, retry_after })
        }
        _ => Err(Error::unknown_answer("AcquireLockOutcome", response.outcome)),
    }
}

/// Returns the lease in an answer.
fn granted(response: &pb::AcquireLockResponse) -> Option<Grant> {
    let token = Some(response.lease.as_ref()?.fencing_token);
    let (replayed, left) = (response.replayed, left(response).ok()?);
    Some(Grant { token, replayed, task: String::new(), left })
}

/// Returns the time that was left of a lease when it was decided.
fn left(response: &pb::AcquireLockResponse) -> Result<Duration, Error> {
    let lease = response.lease.as_ref().ok_or_else(|| Error::malformed("lease"))?;
    time::length(lease.expires_in, "expires_in")
}
