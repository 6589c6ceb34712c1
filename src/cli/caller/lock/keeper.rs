//! Acquires, renews and releases the lock.

use std::{
    cell::Cell,
    fmt,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::time::{sleep, sleep_until, timeout, timeout_at};

use super::{super::connect, CallerError, options::LockOptions};
use crate::{
    cli::caller::failed,
    decision::{
        time::{Millis, monotonic},
        waiters::WAIT_MAX,
    },
    grpc::client::{CallError, Client},
    lock::{Acquisition, Release, Renewal},
};

/// Maximum time for a release, and for a release whose result is not needed.
const RELEASE_MAX: Duration = Duration::from_secs(5);
const WITHDRAW_MAX: Duration = Duration::from_secs(1);
/// Timeout of one try. The next try uses a new connection, in case the address now belongs to
/// another server.
const TRY_MAX: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Acquires, renews and releases one lock for one owner.
pub(super) struct Keeper<'a> {
    options: &'a LockOptions,
    owner: String,
    client: Client,
}

/// A lease on this machine's monotonic clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tenure {
    /// Fencing token of the lease.
    pub(super) token: u64,
    /// Instant just before the granting or renewing call was sent. The engine counts from a later
    /// instant, so the lease ends here first.
    since: Instant,
}

/// The answer to an acquisition.
pub(super) enum Answer {
    Granted(Tenure),
    /// Another owner holds the lock. `holder` is empty if it is free but reserved for waiters.
    Held {
        holder: Bytes,
        retry_after: Millis,
    },
}

/// The reason of a lost lock.
pub(super) enum Lost {
    NotHeld,
    Unanswered(CallError),
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

impl<'a> Keeper<'a> {
    /// Connects to the server. Retries until `options.wait` has passed.
    pub(super) async fn connect(options: &'a LockOptions) -> Result<Keeper<'a>, CallerError> {
        let until = monotonic().checked_add(options.wait);
        loop {
            match connect(&options.server, &acquire(options)).await {
                Ok(client) => return Ok(Keeper { options, owner: options.owner(), client }),
                Err(error) if until.is_some_and(|until| until <= monotonic()) => return Err(error),
                Err(_) => sleep(PAUSE_MAX).await,
            }
        }
    }

    pub(super) fn options(&self) -> &'a LockOptions {
        self.options
    }

    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// Acquires the lock; waits up to `options.wait`.
    pub(super) async fn acquire(&mut self) -> Result<Answer, CallerError> {
        // `None` means no time limit.
        let until = monotonic().checked_add(self.options.wait);
        loop {
            let asked = monotonic();
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(asked));
            let wait = left.min(WAIT_MAX.duration());
            let answer = self.ask(wait).await;
            let is_over = until.is_some_and(|until| until <= monotonic());
            match answer {
                Ok(Answer::Held { .. }) if !is_over => {
                    // A server that shuts down answers before the wait is over.
                    if asked.elapsed() < wait {
                        sleep(self.pause()).await;
                        self.reconnect().await;
                    }
                }
                Ok(answer) => return Ok(answer),
                Err(error) if !is_over && error.may_pass() => {
                    sleep(self.pause()).await;
                    self.reconnect().await;
                }
                Err(error) => {
                    self.withdraw().await;
                    let (server, todo) = (&self.options.server, advice(error.code));
                    return Err(failed(&acquire(self.options), server, &error, todo));
                }
            }
        }
    }

    /// Acquires the lock with one call. Repeats it if the granted lease has ended before it is
    /// usable.
    async fn ask(&self, wait: Duration) -> Result<Answer, CallError> {
        let (name, lease) = (&self.options.name, self.options.lease);
        loop {
            let since = monotonic();
            let asked = self.client.acquire_lock(name, &self.owner, Some(lease), wait).await?;
            let (token, replayed) = match asked {
                Acquisition::Acquired { lease, replayed } => (lease.token, replayed),
                Acquisition::Held { holder, retry_after, .. } => {
                    return Ok(Answer::Held { holder, retry_after });
                }
            };
            let tenure = Tenure { token, since };
            // A lease of an earlier call, or of a call that waited long, may be almost over, so it
            // is renewed first.
            if !replayed && since.elapsed() < self.renew_after() {
                return Ok(Answer::Granted(tenure));
            }
            let since = monotonic();
            match self.client.renew_lock(name, &self.owner, Some(token), Some(lease)).await? {
                Renewal::Renewed(_) => return Ok(Answer::Granted(Tenure { token, since })),
                Renewal::NotHeld => {}
            }
        }
    }

    /// Renews the lease until it is lost.
    pub(super) async fn keep(&mut self, mut tenure: Tenure) -> Lost {
        let LockOptions { name, lease, .. } = self.options;
        let (owner, token) = (self.owner.clone(), Some(tenure.token));
        loop {
            sleep_until((tenure.since + self.renew_after()).into()).await;
            let renewed = self.persist(tenure.since + *lease, async |client: &Client| {
                let since = monotonic();
                let renewal = client.renew_lock(name, &owner, token, Some(*lease)).await?;
                Ok((since, renewal))
            });
            match renewed.await {
                Ok((since, Renewal::Renewed(_))) => tenure.since = since,
                Ok((_, Renewal::NotHeld)) => return Lost::NotHeld,
                Err(error) => return Lost::Unanswered(error),
            }
        }
    }

    /// Releases the lock. A lost lock gets only a short try.
    pub(super) async fn release(
        &mut self,
        token: u64,
        is_lost: bool,
    ) -> Result<Release, CallError> {
        let (name, owner) = (&self.options.name, self.owner.clone());
        let until = monotonic() + if is_lost { WITHDRAW_MAX } else { RELEASE_MAX };
        let tries = Cell::new(0);
        let release = async |client: &Client| {
            tries.set(tries.get() + 1);
            client.release_lock(name, &owner, Some(token)).await
        };
        match self.persist(until, release).await {
            // An earlier try released the lock but its answer was lost, and another owner has
            // acquired it since.
            Ok(Release::NotHeld) if tries.get() > 1 && !is_lost => Ok(Release::Released),
            released => released,
        }
    }

    /// Releases a lease that an abandoned call may have got. If that fails, the lease ends at its
    /// expiry. Does nothing for a named owner, because another process may use the same name.
    pub(super) async fn withdraw(&self) {
        if self.options.owner.is_some() {
            return;
        }
        let release = self.client.release_lock(&self.options.name, &self.owner, None);
        let _ = timeout(WITHDRAW_MAX, release).await;
    }

    /// Repeats a call until it is answered. Returns the last error after `until`.
    async fn persist<T>(
        &mut self,
        until: Instant,
        call: impl AsyncFn(&Client) -> Result<T, CallError>,
    ) -> Result<T, CallError> {
        let message = "no answer in time".to_owned();
        let mut last = CallError { code: "DEADLINE_EXCEEDED", message };
        loop {
            let each = (self.options.lease / 6).min(TRY_MAX);
            let try_until = (monotonic() + each).min(until);
            match timeout_at(try_until.into(), call(&self.client)).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => last = error,
                Err(_) => {}
            }
            let next = monotonic() + self.pause();
            sleep_until(next.min(until).into()).await;
            if next >= until {
                return Err(last);
            }
            // A connection attempt that takes longer leaves the current connection in use for the
            // next try.
            let _ = timeout(each, self.reconnect()).await;
        }
    }

    /// Opens a new connection, because the current one may lead to a dead server. Keeps the current
    /// one on failure.
    async fn reconnect(&mut self) {
        if let Ok(client) = Client::connect(&self.options.server).await {
            self.client = client;
        }
    }

    /// A third of the lease, so that two renewals may fail before it ends.
    fn renew_after(&self) -> Duration {
        self.options.lease / 3
    }

    fn pause(&self) -> Duration {
        (self.options.lease / 20).min(PAUSE_MAX)
    }
}

fn acquire(options: &LockOptions) -> String {
    format!("acquire `{}`", options.name)
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            "try again; with --wait, `tollgate lock` retries until that time is over"
        }
        "INTERNAL" => "other locks are not affected; the server's log may say more",
        "UNIMPLEMENTED" => "this server does not know locks: update it",
        _ => super::super::advice(code),
    }
}
