//! Permits: the right to run a task, renewed until its result is reported.

use std::{ops::Deref, time::Duration};

use bytes::Bytes;

use crate::{
    CompleteVerdict, Connection, DispatchedTask, Error, Outcome,
    calls::Call,
    claims,
    clock::Moment,
    held::{Held, Subject},
    pb, random,
};

/// Bounds of the pause between two reports of a result.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The right of a task to run, until it is lost or completed.
///
/// A keeper renews the lease. [`complete`](Permit::complete) reports the result. Dropping a permit
/// stops the keeper, and the lease ends by itself; if the thread panics, the task is reported as
/// FAILED.
#[derive(Debug)]
pub struct Permit {
    held: Held,
    replayed: bool,
    task: Option<DispatchedTask>,
    /// Whether the request asked for a queued task.
    polled: bool,
}

impl Permit {
    pub(crate) fn new(
        held: Held,
        replayed: bool,
        task: Option<DispatchedTask>,
        polled: bool,
    ) -> Permit {
        Permit { held, replayed, task, polled }
    }

    /// Whether an earlier call got this lease.
    pub fn replayed(&self) -> bool {
        self.replayed
    }

    /// Returns the queued task to run: its name, payload and attempt. `None` for a task that was
    /// not queued.
    pub fn task(&self) -> Option<&DispatchedTask> {
        self.task.as_ref()
    }

    /// Returns the lease, for tasks that need its token and its lost signal.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Reports the result, 0 to 65,536 bytes, and ends the permit. Repeats the call until the
    /// verdict is known, even after the end of the lease; the keeper continues meanwhile.
    ///
    /// Fails if a repeat cannot help, for example with INVALID_ARGUMENT for a result that is too
    /// long. If this future is dropped, the result may not be recorded.
    pub async fn complete(
        self,
        outcome: Outcome,
        result: impl Into<Bytes>,
    ) -> Result<CompleteVerdict, Error> {
        self.held.begin_end();
        let verdict = report(&self.held, outcome, result.into()).await;
        self.held.close();
        verdict
    }

    /// Returns the identity of the task and the report that it failed.
    fn failure(&self) -> Option<(String, pb::CompleteTaskRequest)> {
        let message = result(&self.held, Outcome::Failed, Bytes::new())?;
        let asked = if self.polled { "" } else { &*message.task_id };
        Some((claims::key(&["task", &message.pool, &message.device_id, asked]), message))
    }

    /// Runs `work` and reports its result: SUCCEEDED with the returned bytes, or FAILED if it
    /// returns an error. Returns that error, at the latest after the deadline of one call: without
    /// an answer the report continues in the background until the lease ends.
    pub async fn run<R, E, F>(self, work: impl FnOnce(Held) -> F) -> Result<CompleteVerdict, E>
    where
        R: Into<Bytes>,
        E: From<Error>,
        F: Future<Output = Result<R, E>>,
    {
        match work(self.held()).await {
            Ok(result) => Ok(self.complete(Outcome::Succeeded, result).await?),
            Err(error) => {
                let until = self.held.expiry();
                self.held.close();
                if let Some((key, message)) = self.failure() {
                    self.held.0.connection.leave(key, message, until).await;
                }
                Err(error)
            }
        }
    }

    /// Stops the keeper and lets the lease end, as dropping the permit does.
    pub fn close(self) {}
}

impl Deref for Permit {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let (is_open, until) = (self.held.is_valid(), self.held.expiry());
        self.held.close();
        if is_open
            && std::thread::panicking()
            && let Some((key, message)) = self.failure()
        {
            self.held.0.connection.give_up(key, message, until);
        }
    }
}

/// Reports a result until its verdict is known.
async fn report(held: &Held, outcome: Outcome, bytes: Bytes) -> Result<CompleteVerdict, Error> {
    let message = result(held, outcome, bytes).ok_or_else(|| Error::malformed("subject"))?;
    match persist(&held.0.connection, message, None).await?.verdict() {
        CompleteVerdict::Unspecified => Err(Error::malformed("verdict")),
        verdict => Ok(verdict),
    }
}

fn result(held: &Held, outcome: Outcome, result: Bytes) -> Option<pb::CompleteTaskRequest> {
    let Subject::Task { pool, device, task } = &held.0.subject else { return None };
    Some(pb::CompleteTaskRequest {
        pool: pool.to_string(),
        device_id: device.to_string(),
        task_id: task.to_string(),
        fencing_token: Some(held.token()),
        outcome: outcome.into(),
        result,
    })
}

/// Repeats a call until it is answered, or fails with an error that a repeat cannot solve. Returns
/// the last error after `until`.
pub(crate) async fn persist<M: Call>(
    connection: &Connection,
    message: M,
    until: Option<Moment>,
) -> Result<M::Answer, Error> {
    let mut pause = PAUSE;
    loop {
        let error = match connection.once(connection.deadline(), message.clone()).await {
            Ok(answered) => return Ok(answered.answer),
            Err(error) => error,
        };
        if !error.is_passing() || until.is_some_and(|until| Moment::now() >= until) {
            return Err(error);
        }
        let wait = error.retry_after.unwrap_or_default() + random::up_to(pause);
        connection.closing().pause(wait).await?;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
