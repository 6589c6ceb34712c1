//! Revokes the grant of a waiting call whose caller disconnected before the response was written.
//!
//! A call that waits is often cancelled at the moment of its grant. Its caller never learns of the
//! lease, which would occupy its slot or lock until it expires. The decision that revokes it names the
//! lease by its token, and does nothing if another call was answered with that lease.
//!
//! - [`WaiterCall`](super) revokes a grant if the call is cancelled while the store decides.
//! - Afterwards the response contains an [`Unreceived`], which revokes the grant if it is dropped before
//!   the response was written.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{runtime::Handle, sync::Semaphore, time::sleep};

use crate::{Answered, AnsweredBy, Engine, embedded::Sharded};
use tollgate_core::{Decision, error::Error, time::monotonic, waiting::Waits};

/// Time limit for an attempt to revoke a grant.
const TRY_MAX: Duration = Duration::from_secs(2);
/// The number of attempts, and the pause between two. Afterwards, the lease stays until it expires.
const TRIES: u32 = 10;
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum number of tasks that revoke a grant, or wait for the store's answer to a cancelled call.
pub(super) const TASKS_MAX: usize = 4096;

/// A grant whose response was not written yet. It is revoked if it is dropped before
/// [`Unreceived::receive`].
pub struct Unreceived {
    /// Starts to revoke the grant.
    revoke: Box<dyn Fn() + Send + Sync>,
    is_received: AtomicBool,
}

impl fmt::Debug for Unreceived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unreceived").field("is_received", &self.is_received).finish_non_exhaustive()
    }
}

impl Unreceived {
    /// Returns the grant of a waiting call, to be kept with its response. `None` if the outcome grants
    /// nothing, or a lease that an earlier call was granted.
    pub fn new<D>(
        engine: &Arc<Engine>,
        decision: &D,
        answered: &Answered<D::Outcome>,
    ) -> Option<Unreceived>
    where
        D: Waits<State: Sharded>,
    {
        if answered.source != AnsweredBy::Store {
            return None;
        }
        let (engine, decision) = (engine.clone(), decision.revoke(&answered.outcome)?);
        let revoke = Box::new(move || {
            spawn_bounded(&engine, revoke_grant(engine.clone(), decision.clone()));
        });
        Some(Unreceived { revoke, is_received: AtomicBool::new(false) })
    }

    /// Records that the response was written, so the grant stays.
    pub fn receive(&self) {
        self.is_received.store(true, Ordering::Relaxed);
    }
}

impl Drop for Unreceived {
    fn drop(&mut self) {
        if !*self.is_received.get_mut() {
            (self.revoke)();
        }
    }
}

/// Runs a task that revokes a grant. Above [`TASKS_MAX`], the lease stays until it expires.
pub(super) fn spawn_bounded(engine: &Engine, task: impl Future<Output = ()> + Send + 'static) {
    let tasks = engine.hub().by_type(|| Arc::new(Semaphore::new(TASKS_MAX)));
    // Without a runtime, the process is ending.
    match (Handle::try_current(), tasks.clone().try_acquire_owned()) {
        (Ok(runtime), Ok(permit)) => {
            runtime.spawn(async move {
                task.await;
                drop(permit);
            });
        }
        _ => tracing::debug!("a grant that no caller has received stays until it expires"),
    }
}

/// Revokes a grant. Tries again while the store does not answer.
pub(super) async fn revoke_grant<T>(engine: Arc<Engine>, decision: T)
where
    T: Decision<State: Sharded>,
{
    for _ in 0..TRIES {
        match engine.store(&decision, monotonic() + TRY_MAX).await {
            Ok(_) | Err(Error::Corrupt(_)) => return,
            Err(error) => tracing::debug!(%error, "cannot revoke a grant yet"),
        }
        sleep(PAUSE).await;
    }
    tracing::debug!("a grant that no caller has received stays until it expires");
}
