//! Asks for a permit, and waits for it.

use std::{
    future::{Future, IntoFuture},
    pin::Pin,
    time::Duration,
};

use crate::{
    Admission, Error, Permit, Pool,
    claims::{self, Grant},
    clock::Moment,
    connection::Answered,
    held::{Held, Subject},
    pb,
    pool::refusal,
    time,
    wait::Wanted,
};

/// A call that took longer than this fraction of its lease is repeated, to learn how much of the
/// lease is left.
const SHARE: u32 = 20;
const SHARE_MIN: Duration = Duration::from_millis(20);
/// The shortest lease that a server grants.
const SHORTEST: Duration = Duration::from_millis(100);

/// A request for a permit; `await` sends it. See [`Pool::admit`].
#[derive(Debug, Clone)]
#[must_use = "await sends the request"]
pub struct Admit {
    pool: Pool,
    device: String,
    task: String,
    /// Whether it asks for a queued task.
    polls: bool,
    wait: Duration,
    lease: Option<Duration>,
    keeps: bool,
}

impl Pool {
    /// Asks for a permit for a task of a device. An empty name of the task is an error. If the
    /// future of a waiting request is dropped, a lease that the task has just received is ended in
    /// the background.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use tollgate_client::{Admission, Error, Outcome, Pool};
    /// # async fn run(pool: Pool) -> Result<(), Error> {
    /// let answer = pool.admit("camera-1", "snapshot-1").wait(Duration::from_secs(30)).await?;
    /// if let Admission::Admitted(permit) = answer {
    ///     permit.complete(Outcome::Succeeded, "done").await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn admit(&self, device: &str, task: &str) -> Admit {
        Admit {
            pool: self.clone(),
            device: device.to_owned(),
            task: task.to_owned(),
            polls: false,
            wait: Duration::ZERO,
            lease: None,
            keeps: true,
        }
    }

    /// Asks for a permit for the oldest queued task of a device. [`Permit::task`] is that task.
    pub fn poll(&self, device: &str) -> Admit {
        Admit { polls: true, ..self.admit(device, "") }
    }
}

impl Admit {
    /// Waits for a free slot up to this time. The wait uses a separate connection and may be longer
    /// than the 60 s of one call. Default: no wait.
    pub fn wait(mut self, wait: Duration) -> Admit {
        self.wait = wait;
        self
    }

    /// Sets the duration of the lease, 100 ms to 24 h. Default: the pool's.
    pub fn lease(mut self, lease: impl Into<Option<Duration>>) -> Admit {
        self.lease = lease.into();
        self
    }

    /// Sets whether a keeper renews the lease. Default: true.
    pub fn keeper(mut self, keeps: bool) -> Admit {
        self.keeps = keeps;
        self
    }

    async fn ask(self) -> Result<Admission, Error> {
        if self.task.is_empty() && !self.polls {
            let expected = "expected 1 to 256 bytes; poll takes a queued task";
            return Err(Error::bad_field("task_id", expected));
        }
        let connection = self.pool.connection();
        let key = claims::key(&["task", self.pool.name(), &self.device, &self.task]);
        let shortened = self.clone();
        let mut wanted = Wanted::new(
            connection.claim(key).await,
            granted,
            None,
            move |grant| shortened.shorten(grant),
            SHORTEST,
        );
        let is_final =
            |answer: &pb::AdmitTaskResponse| answer.decision() != pb::AdmitDecision::Full;
        let call = |wait| self.clone().call(wait);
        let answered = wanted.in_calls(connection, self.wait, call, is_final).await?;
        let admission = match refusal(&answered.answer)? {
            None => self.admitted(answered).await?,
            Some(refused) => refused,
        };
        wanted.answered(match &admission {
            Admission::Admitted(permit) => Some(permit.token()),
            _ => None,
        });
        Ok(admission)
    }

    /// Creates the message that ends a lease which no caller has received: it renews the lease for
    /// the shortest time, so that the task gets no result.
    fn shorten(&self, grant: &Grant) -> pb::RenewTaskRequest {
        pb::RenewTaskRequest {
            pool: self.pool.name().to_owned(),
            device_id: self.device.clone(),
            task_id: grant.task.clone(),
            fencing_token: grant.token,
            lease_duration: Some(time::wire(SHORTEST)),
        }
    }

    async fn call(self, wait: Duration) -> Result<Answered<pb::AdmitTaskResponse>, Error> {
        let connection = self.pool.connection();
        let message = pb::AdmitTaskRequest {
            pool: self.pool.name().to_owned(),
            device_id: self.device.clone(),
            task_id: self.task.clone(),
            lease_duration: self.lease.map(time::wire),
            max_wait: (!wait.is_zero()).then(|| time::wire(wait)),
        };
        let deadline = connection.deadline() + wait;
        if wait.is_zero() {
            connection.timed(deadline, message).await
        } else {
            connection.waiting(deadline, message).await
        }
    }

    /// Makes the permit. The time that is left counts from before the request was sent. After a
    /// wait that would be too early, so the call is repeated without a wait.
    async fn admitted(&self, first: Answered<pb::AdmitTaskResponse>) -> Result<Admission, Error> {
        let replayed = first.answer.replayed;
        let mut answered = first;
        if is_stale(answered.sent, left(&answered.answer)?) {
            // Without an answer the earlier expiry stands.
            if let Ok(again) = self.clone().call(Duration::ZERO).await {
                if let Some(refused) = refusal(&again.answer)? {
                    return Ok(refused);
                }
                answered = again;
            }
        }
        let expires_in = left(&answered.answer)?;
        let lease = answered.answer.lease.ok_or_else(|| Error::malformed("lease"))?;
        let subject = Subject::Task {
            pool: self.pool.shared_name(),
            device: lease.device_id.into(),
            task: lease.task_id.into(),
        };
        let held = Held::new(
            self.pool.connection(),
            subject,
            lease.fencing_token,
            (answered.sent, expires_in),
            self.lease,
            self.keeps,
        );
        let task = answered.answer.task;
        Ok(Admission::Admitted(Permit::new(held, replayed, task, self.polls)))
    }
}

impl IntoFuture for Admit {
    type Output = Result<Admission, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}

/// Returns whether a call took so long that its lease may end much later than if it were counted
/// from the request.
pub(crate) fn is_stale(sent: Moment, expires_in: Duration) -> bool {
    sent.elapsed() > (expires_in / SHARE).max(SHARE_MIN)
}

/// Returns the lease in an answer.
fn granted(response: &pb::AdmitTaskResponse) -> Option<Grant> {
    let lease = response.lease.as_ref()?;
    Some(Grant {
        token: Some(lease.fencing_token),
        replayed: response.replayed,
        task: lease.task_id.clone(),
        left: left(response).ok()?,
    })
}

/// Returns the time that was left of a lease when it was decided.
fn left(response: &pb::AdmitTaskResponse) -> Result<Duration, Error> {
    let lease = response.lease.as_ref().ok_or_else(|| Error::malformed("lease"))?;
    time::length(lease.expires_in, "expires_in")
}
