//! Closing a connection, which ends the calls and the pauses of all its clones.

use std::time::Duration;

use tokio::{sync::watch, time::sleep};

use crate::Error;

/// Whether a connection is closed.
#[derive(Debug)]
pub(crate) struct Closing(watch::Sender<bool>);

impl Default for Closing {
    fn default() -> Closing {
        Closing(watch::Sender::new(false))
    }
}

impl Closing {
    pub(crate) fn close(&self) {
        self.0.send_replace(true);
    }

    pub(crate) fn is_closed(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns what `work` returns, or an error once the connection is closed.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let mut closing = self.0.subscribe();
        tokio::select! {
            biased;
            // The sender lives as long as `self`.
            _ = closing.wait_for(|is_closed| *is_closed) => Err(Error::closed()),
            done = work => Ok(done),
        }
    }

    /// Pauses, or fails once the connection is closed.
    pub(crate) async fn pause(&self, length: Duration) -> Result<(), Error> {
        self.run(sleep(length)).await
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use super::*;

    #[tokio::test]
    async fn closing_ends_running_work_and_work_started_later() {
        let closing = Arc::new(Closing::default());
        assert_eq!(closing.run(async { 1 }).await, Ok(1));
        let running = tokio::spawn({
            let closing = closing.clone();
            async move { closing.run(pending::<()>()).await }
        });
        closing.close();
        assert_eq!(running.await.unwrap(), Err(Error::closed()));
        assert_eq!(closing.run(async { 1 }).await, Err(Error::closed()));
        assert!(closing.is_closed() && closing.pause(Duration::MAX).await.is_err());
    }
}
