//! Permits: the right to run a task, renewed until its result is reported.

use std::{ops::Deref, time::Duration};

use bytes::Bytes;
use tokio::runtime::Handle;

use crate::{
    CompleteVerdict, Connection, DispatchedTask, Error, Outcome,
    calls::Call,
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
}

impl Permit {
    pub(crate) fn new(held: Held, replayed: bool, task: Option<DispatchedTask>) -> Permit {
        Permit { held, replayed, task }
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
    /// verdict is known, also after the end of the lease; the keeper goes on meanwhile.
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

    /// Runs `work` and reports its result: SUCCEEDED with the returned bytes, or FAILED if it
    /// returns an error. Returns that error.
    pub async fn run<R, E, F>(self, work: impl FnOnce(Held) -> F) -> Result<CompleteVerdict, E>
    where
        R: Into<Bytes>,
        E: From<Error>,
        F: Future<Output = Result<R, E>>,
    {
        match work(self.held()).await {
            Ok(result) => Ok(self.complete(Outcome::Succeeded, result).await?),
            Err(error) => {
                // The error of the work says more than that of its report.
                let _ = self.complete(Outcome::Failed, Bytes::new()).await;
                Err(error)
            }
        }
    }

    /// Stops the keeper and lets the lease end, as dropping does.
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
        let is_open = self.held.is_valid();
        self.held.close();
        if !is_open || !std::thread::panicking() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let held = self.held.clone();
            runtime.spawn(async move { report(&held, Outcome::Failed, Bytes::new()).await });
        }
    }
}

/// Reports a result until its verdict is known.
async fn report(held: &Held, outcome: Outcome, result: Bytes) -> Result<CompleteVerdict, Error> {
    let Subject::Task { pool, device, task } = &held.0.subject else {
        return Err(Error::malformed("subject"));
    };
    let message = pb::CompleteTaskRequest {
        pool: pool.to_string(),
        device_id: device.to_string(),
        task_id: task.to_string(),
        fencing_token: Some(held.token()),
        outcome: outcome.into(),
        result,
    };
    match persist(&held.0.connection, message, None).await?.verdict() {
        CompleteVerdict::Unspecified => Err(Error::malformed("verdict")),
        verdict => Ok(verdict),
    }
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
