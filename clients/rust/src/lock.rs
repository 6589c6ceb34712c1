//! Acquires, keeps and releases a lock.

use std::{
    cell::Cell,
    fmt,
    time::{Duration, Instant},
};

use tokio::time::{sleep, sleep_until, timeout, timeout_at};

use crate::{
    Connection, Error, ReleaseLockOutcome, pb,
    time::{self, now},
};

/// Maximum wait of a call. Longer waits are cut into several calls.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Maximum time for a release.
const RELEASE_MAX: Duration = Duration::from_secs(5);
/// Maximum time for a release whose result is not needed.
const WITHDRAW_MAX: Duration = Duration::from_secs(1);
/// Timeout of one attempt. The next attempt uses a new connection, in case the address now belongs
/// to another server.
const TRY_MAX: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// A lock that one owner holds or wants to acquire.
#[derive(Debug)]
pub struct Lock {
    connection: Connection,
    name: String,
    owner: String,
    lease: Duration,
}

/// A lease on this machine's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    /// Grows with each lease of the lock. The protected resource should refuse lower tokens.
    pub fencing_token: u64,
    /// The instant just before the call that granted or renewed the lease was sent. The server
    /// counts from a later instant, so the lease ends on this machine first.
    since: Instant,
}

/// The answer to an acquisition.
#[derive(Debug)]
pub enum Acquisition {
    /// The owner holds the lock.
    Acquired(Lease),
    /// Another owner holds the lock.
    Held {
        /// The holder; empty if the lock is free but reserved for waiters.
        holder: String,
        /// Time until the lease of the holder ends.
        retry_after: Duration,
    },
}

/// Why a lock was lost.
#[derive(Debug)]
pub enum Lost {
    /// The lease has ended.
    NotHeld,
    /// No renewal was answered in time.
    Unanswered(Error),
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NotHeld => f.write_str("the lease has ended, another owner may hold it"),
            Lost::Unanswered(error) => {
                write!(f, "no renewal was answered before the lease ended ({error})")
            }
        }
    }
}

impl Lock {
    /// Describes the lock `name` and its `owner`, which must differ from every other owner that
    /// competes for it. Makes no call.
    pub fn new(connection: Connection, name: &str, owner: &str, lease: Duration) -> Lock {
        Lock { connection, name: name.to_owned(), owner: owner.to_owned(), lease }
    }

    /// Acquires the lock. Waits for at most `wait` ([`Duration::MAX`]: without a limit) and
    /// reconnects after a failure within that time. After an error the owner may nevertheless hold
    /// the lock: [`withdraw`](Lock::withdraw) releases it.
    pub async fn acquire(&mut self, wait: Duration) -> Result<Acquisition, Error> {
        // `None` means no time limit.
        let until = now().checked_add(wait);
        loop {
            let asked = now();
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(asked));
            let wait = left.min(WAIT_MAX);
            let answer = self.ask(wait).await;
            let is_over = until.is_some_and(|until| until <= now());
            match answer {
                // A server that shuts down answers before the wait is over.
                Ok(Acquisition::Held { .. }) if !is_over && asked.elapsed() >= wait => {}
                Ok(Acquisition::Held { .. }) if !is_over => self.pause_and_reconnect().await,
                Err(error) if !is_over && error.is_retryable() => self.pause_and_reconnect().await,
                answer => return answer,
            }
        }
    }

    /// Renews the lease whenever a third of it has passed, until it is lost.
    pub async fn keep(&mut self, mut lease: Lease) -> Lost {
        let token = lease.fencing_token;
        loop {
            sleep_until((lease.since + self.renew_after()).into()).await;
            let until = lease.since + self.lease;
            match self.persist(until, async |lock: &Lock| lock.renew(token).await).await {
                Ok(Some(renewed)) => lease = renewed,
                Ok(None) => return Lost::NotHeld,
                Err(error) => return Lost::Unanswered(error),
            }
        }
    }

    /// Releases the lock. Returns false if its lease had already ended. For a lost lock, it tries
    /// only briefly.
    pub async fn release(&mut self, fencing_token: u64, is_lost: bool) -> Result<bool, Error> {
        let until = now() + if is_lost { WITHDRAW_MAX } else { RELEASE_MAX };
        let tries = Cell::new(0);
        let release = async |lock: &Lock| {
            tries.set(tries.get() + 1);
            lock.release_once(Some(fencing_token)).await
        };
        let released = self.persist(until, release).await?;
        // If an earlier attempt released the lock but its answer was lost, another owner may have
        // acquired it since.
        Ok(released || tries.get() > 1 && !is_lost)
    }

    /// Releases a lease that an abandoned call may have acquired. If that fails, the lease ends when
    /// it expires.
    pub async fn withdraw(&self) {
        let _ = timeout(WITHDRAW_MAX, self.release_once(None)).await;
    }

    /// Acquires the lock with one call. Repeats the call if the granted lease ends before it can be
    /// used.
    async fn ask(&self, wait: Duration) -> Result<Acquisition, Error> {
        loop {
            let since = now();
            let message = pb::AcquireLockRequest {
                name: self.name.clone(),
                owner: self.owner.clone(),
                lease_duration: Some(time::wire(self.lease)),
                max_wait: Some(time::wire(wait)),
            };
            // The wait is added to the time for an answer.
            let deadline = self.connection.deadline() + wait;
            let answer = self.connection.call_within(deadline, message).await?;
            let (token, replayed) = match acquired(answer)? {
                Ok(acquired) => acquired,
                Err(held) => return Ok(held),
            };
            // A lease of an earlier call, or of a call that waited long, may be almost over, so it
            // is renewed first.
            if !replayed && since.elapsed() < self.renew_after() {
                return Ok(Acquisition::Acquired(Lease { fencing_token: token, since }));
            }
            if let Some(lease) = self.renew(token).await? {
                return Ok(Acquisition::Acquired(lease));
            }
        }
    }

    /// Renews the lease from now on; `None` if it has ended.
    async fn renew(&self, fencing_token: u64) -> Result<Option<Lease>, Error> {
        let since = now();
        let message = pb::RenewLockRequest {
            name: self.name.clone(),
            owner: self.owner.clone(),
            fencing_token: Some(fencing_token),
            lease_duration: Some(time::wire(self.lease)),
        };
        let response = self.connection.call(message).await?;
        match response.outcome() {
            pb::RenewLockOutcome::Renewed => Ok(Some(Lease { fencing_token, since })),
            pb::RenewLockOutcome::NotHeld => Ok(None),
            pb::RenewLockOutcome::Unspecified => Err(Error::malformed("outcome")),
        }
    }

    async fn release_once(&self, fencing_token: Option<u64>) -> Result<bool, Error> {
        let (name, owner) = (self.name.clone(), self.owner.clone());
        let message = pb::ReleaseLockRequest { name, owner, fencing_token };
        let response = self.connection.call(message).await?;
        match response.outcome() {
            ReleaseLockOutcome::Released => Ok(true),
            ReleaseLockOutcome::NotHeld => Ok(false),
            ReleaseLockOutcome::Unspecified => Err(Error::malformed("outcome")),
        }
    }

    /// Repeats a call until it is answered. Returns the last error after `until`.
    async fn persist<T>(
        &mut self,
        until: Instant,
        call: impl AsyncFn(&Lock) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut last = Error { message: "no answer in time".to_owned(), ..Error::deadline() };
        loop {
            let each = (self.lease / 6).min(TRY_MAX);
            let try_until = (now() + each).min(until);
            match timeout_at(try_until.into(), call(self)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
            let next = now() + self.pause();
            sleep_until(next.min(until).into()).await;
            if next >= until {
                return Err(last);
            }
            // If connecting takes longer, the next attempt uses the current connection.
            let _ = timeout(each, self.reconnect()).await;
        }
    }

    async fn pause_and_reconnect(&mut self) {
        sleep(self.pause()).await;
        self.reconnect().await;
    }

    /// Opens a new connection, because the current one may lead to a dead server. If that fails,
    /// keeps the current one.
    async fn reconnect(&mut self) {
        if let Ok(connection) = self.connection.reopen().await {
            self.connection = connection;
        }
    }

    /// Returns a third of the lease, so that two renewals may fail before it ends.
    fn renew_after(&self) -> Duration {
        self.lease / 3
    }

    fn pause(&self) -> Duration {
        (self.lease / 20).min(PAUSE_MAX)
    }
}

/// Returns the token of an acquired lock and whether the answer is a repeat; otherwise the holder.
fn acquired(response: pb::AcquireLockResponse) -> Result<Result<(u64, bool), Acquisition>, Error> {
    match response.outcome() {
        pb::AcquireLockOutcome::Acquired => {
            let lease = response.lease.ok_or_else(|| Error::malformed("lease"))?;
            Ok(Ok((lease.fencing_token, response.replayed)))
        }
        pb::AcquireLockOutcome::Held => {
            let retry_after = time::length(response.retry_after, "retry_after")?;
            Ok(Err(Acquisition::Held { holder: response.holder, retry_after }))
        }
        pb::AcquireLockOutcome::Unspecified => {
            Err(Error::unknown_answer("AcquireLockOutcome", response.outcome))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_without_its_parts_is_malformed() {
        let mut response = pb::AcquireLockResponse::default();
        assert!(acquired(response.clone()).is_err(), "no outcome");
        for outcome in [pb::AcquireLockOutcome::Acquired, pb::AcquireLockOutcome::Held] {
            response.set_outcome(outcome);
            assert!(acquired(response.clone()).is_err(), "{outcome:?}");
        }
        response.retry_after = Some(prost_types::Duration { seconds: 1, nanos: 0 });
        assert!(matches!(acquired(response), Ok(Err(Acquisition::Held { .. }))));
    }
}
