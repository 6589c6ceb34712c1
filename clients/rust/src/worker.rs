//! Runs the queued tasks of a device.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::watch,
    task::{JoinError, JoinHandle},
    time::sleep,
};

use crate::{
    Admission, CompleteVerdict, DispatchedTask, Error, Held, Outcome, Permit, Pool, random,
};

/// Default pause between two reports of a device without a queued task.
const IDLE: Duration = Duration::from_secs(1);
/// Bounds of the pause after an error.
const PAUSE: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);

type Report = dyn Fn(&str, Result<CompleteVerdict, Error>) + Send + Sync;

/// A queued task that a handler runs.
#[derive(Debug)]
pub struct Work {
    /// The task: name, payload, attempt.
    pub task: DispatchedTask,
    /// Its lease: token, validity and lost signal.
    pub held: Held,
}

/// A worker of one device: it reports, runs the dispatched task, renews and completes. See
/// [`Pool::worker`].
pub struct Worker {
    pool: Pool,
    device: String,
    lease: Option<Duration>,
    idle: Duration,
    report: Option<Arc<Report>>,
}

/// A running worker. Dropping it aborts the running task; its lease then ends by itself.
#[derive(Debug)]
pub struct WorkerHandle {
    stop: watch::Sender<bool>,
    task: JoinHandle<u64>,
}

impl Pool {
    /// Prepares a worker for the queued tasks of a device.
    ///
    /// ```no_run
    /// # use tollgate_client::{Error, Pool, Work};
    /// # async fn run(pool: Pool) -> Result<(), Box<dyn std::error::Error>> {
    /// let worker = pool.worker("camera-1").start(|work: Work| async move {
    ///     println!("running {}, attempt {}", work.task.task_id, work.task.attempt);
    ///     Ok::<_, Error>("done")
    /// });
    /// tokio::time::sleep(std::time::Duration::from_secs(60)).await;
    /// worker.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn worker(&self, device: &str) -> Worker {
        let (pool, device) = (self.clone(), device.to_owned());
        Worker { pool, device, lease: None, idle: IDLE, report: None }
    }
}

impl Worker {
    /// Sets the duration of each lease. Default: the pool's.
    pub fn lease(mut self, lease: impl Into<Option<Duration>>) -> Worker {
        self.lease = lease.into();
        self
    }

    /// Sets the pause between two reports while the device has no queued task; it varies
    /// randomly by up to half of its length. Default: 1 s.
    pub fn idle(mut self, idle: Duration) -> Worker {
        self.idle = idle;
        self
    }

    /// Calls `report` with the name and the verdict of each task that was run. A lost task has the
    /// verdict of a late report, or no verdict; then `report` is not called.
    pub fn on_done(
        mut self,
        report: impl Fn(&str, Result<CompleteVerdict, Error>) + Send + Sync + 'static,
    ) -> Worker {
        self.report = Some(Arc::new(report));
        self
    }

    /// Starts the worker on the runtime of the caller.
    ///
    /// A handler that returns an error fails its task, which is dispatched again while it has
    /// attempts left. A handler whose lease is lost is dropped at its next `await` point.
    pub fn start<R, E, F>(self, handler: impl Fn(Work) -> F + Send + Sync + 'static) -> WorkerHandle
    where
        R: Into<Bytes> + Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<R, E>> + Send + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(self.run(handler, stopped));
        WorkerHandle { stop, task }
    }

    async fn run<R, E, F>(
        self,
        handler: impl Fn(Work) -> F + Send + Sync,
        mut stopped: watch::Receiver<bool>,
    ) -> u64
    where
        R: Into<Bytes> + Send,
        E: Send,
        F: Future<Output = Result<R, E>> + Send,
    {
        let (mut done, mut failures) = (0, 0);
        while !*stopped.borrow() {
            let answer = self.pool.poll(&self.device).lease(self.lease).await;
            failures = if answer.is_err() { failures + 1 } else { 0 };
            let pause = match answer {
                Ok(Admission::Admitted(permit)) => {
                    done += u64::from(self.perform(permit, &handler).await);
                    continue;
                }
                Ok(Admission::Full { retry_after } | Admission::Paused { retry_after }) => {
                    random::between(retry_after, 1.0, 1.2)
                }
                Ok(Admission::NoTask | Admission::AlreadyCompleted) => {
                    random::between(self.idle, 0.5, 1.5)
                }
                Err(error) if error.is_closed() => return done,
                Err(error) => {
                    let backoff = (PAUSE * 2_u32.pow(failures.min(10))).min(PAUSE_MAX);
                    error.retry_after.unwrap_or_default() + random::between(backoff, 0.5, 1.0)
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                _ = stopped.changed() => {}
            }
        }
        done
    }

    /// Runs one task. Returns whether its result was reported.
    async fn perform<R, E, F>(&self, permit: Permit, handler: &impl Fn(Work) -> F) -> bool
    where
        R: Into<Bytes> + Send,
        F: Future<Output = Result<R, E>> + Send,
    {
        let Some(task) = permit.task().cloned() else { return false };
        let name = task.task_id.clone();
        let lost = permit.lost();
        let result = tokio::select! {
            result = handler(Work { task, held: permit.held() }) => result,
            () = lost => return false,
        };
        let verdict = match result {
            Ok(result) => permit.complete(Outcome::Succeeded, result).await,
            Err(_) => permit.complete(Outcome::Failed, Bytes::new()).await,
        };
        let is_done = verdict.is_ok();
        if let Some(report) = &self.report {
            report(&name, verdict);
        }
        is_done
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("pool", &self.pool.name())
            .field("device", &self.device)
            .finish()
    }
}

impl WorkerHandle {
    /// Stops the worker after its running task. Returns the number of tasks that it ran. Fails if a
    /// handler panicked.
    pub async fn stop(mut self) -> Result<u64, JoinError> {
        self.stop.send_replace(true);
        (&mut self.task).await
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}
