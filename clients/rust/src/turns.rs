//! Limits the calls that a connection has in flight.

use std::any::TypeId;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{Error, closing::Closing, pb};

/// Maximum number of calls in flight. A server accepts 256 calls of a connection by default; HTTP/2
/// would queue further calls while their deadlines run.
const CALLS: usize = 200;

/// The permissions to send a call: further calls wait, in order, until an earlier one has ended.
#[derive(Debug)]
pub(crate) struct Turns(Semaphore);

impl Default for Turns {
    fn default() -> Turns {
        Turns(Semaphore::new(CALLS))
    }
}

impl Turns {
    /// Waits until a call may be sent. Dropping the result ends the call's turn. Calls that keep or
    /// end a lease need no turn.
    pub(crate) async fn take<M: 'static>(
        &self,
        closing: &Closing,
    ) -> Result<Option<SemaphorePermit<'_>>, Error> {
        if is_exempt::<M>() {
            return Ok(None);
        }
        // The semaphore is never closed.
        Ok(closing.run(self.0.acquire()).await?.ok())
    }
}

fn is_exempt<M: 'static>() -> bool {
    [
        TypeId::of::<pb::RenewTaskRequest>(),
        TypeId::of::<pb::RenewTasksRequest>(),
        TypeId::of::<pb::RenewLockRequest>(),
        TypeId::of::<pb::CompleteTaskRequest>(),
        TypeId::of::<pb::CompleteTasksRequest>(),
        TypeId::of::<pb::ReleaseLockRequest>(),
    ]
    .contains(&TypeId::of::<M>())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn further_calls_wait_unless_they_keep_or_end_a_lease() {
        let (turns, closing) = (Turns::default(), Closing::default());
        let mut held = Vec::new();
        for _ in 0..CALLS {
            held.push(turns.take::<pb::AdmitTaskRequest>(&closing).await.unwrap());
        }
        assert!(turns.take::<pb::RenewTaskRequest>(&closing).await.unwrap().is_none());
        assert!(turns.take::<pb::CompleteTaskRequest>(&closing).await.unwrap().is_none());
        let mut next = Box::pin(turns.take::<pb::GetPoolRequest>(&closing));
        assert!(timeout(Duration::ZERO, &mut next).await.is_err(), "it waits");
        held.pop();
        assert!(next.await.unwrap().is_some());
        closing.close();
        assert!(turns.take::<pb::GetPoolRequest>(&closing).await.unwrap_err().is_closed());
    }
}
