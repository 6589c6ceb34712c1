//! Connections to Redis and the pool that lends them.

use std::{sync::Arc, time::Instant};

use bb8_redis::bb8::{ManageConnection, Pool, PooledConnection, RunError};
use redis::{RedisError, aio::MultiplexedConnection};
use tokio::sync::watch;

use super::{StoreState, evaluate, monitor::Monitor};
use crate::{error::Error, time::monotonic};

/// Makes connections, and knows a broken one when it comes back: bb8-redis's
/// own manager calls none broken, so a dead one would go round for ever.
#[derive(Debug)]
pub(super) struct Connector {
    monitor: Arc<Monitor>,
    failed: Arc<watch::Sender<u64>>,
}

/// A connection of the pool.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: MultiplexedConnection,
    /// The monitor's epoch in which it was made.
    pub(super) epoch: u64,
    pub(super) made: Instant,
    broken: bool,
}

impl Connector {
    /// Counts connections that could not be made in `failed`, for those that wait for one.
    pub(super) fn new(monitor: Arc<Monitor>, failed: Arc<watch::Sender<u64>>) -> Connector {
        Connector { monitor, failed }
    }
}

impl Connection {
    /// Keeps the connection from being lent again.
    pub(super) fn mark_broken(&mut self) {
        self.broken = true;
    }
}

impl ManageConnection for Connector {
    type Connection = Connection;
    type Error = RedisError;

    async fn connect(&self) -> Result<Connection, RedisError> {
        let epoch = self.monitor.epoch();
        let connected = async {
            let mut socket = self.monitor.source().connect(epoch).await?;
            self.monitor.greet(&mut socket).await?;
            Ok(socket)
        };
        match connected.await {
            Ok(socket) => Ok(Connection { socket, epoch, made: monotonic(), broken: false }),
            Err(error) => {
                self.monitor.note_failed_connect(&error);
                self.failed.send_modify(|count| *count += 1);
                Err(error)
            }
        }
    }

    async fn is_valid(&self, _: &mut Connection) -> Result<(), RedisError> {
        // Never asked: it would cost every call a second round trip.
        Ok(())
    }

    fn has_broken(&self, connection: &mut Connection) -> bool {
        connection.broken
    }
}

/// Borrows a connection made since the last loss of one: when one breaks, the
/// idle ones are as a rule dead too.
pub(super) async fn borrow<'a>(
    pool: &'a Pool<Connector>,
    monitor: &Monitor,
    failed: &watch::Sender<u64>,
) -> Result<PooledConnection<'a, Connector>, Error> {
    let (mut state, mut failed) = (monitor.state(), failed.subscribe());
    let lend = async {
        loop {
            let mut connection = pool.get().await;
            match &mut connection {
                Ok(old) if old.epoch < monitor.epoch() => old.mark_broken(),
                _ => return connection.map_err(|error| unmade(&error)),
            }
        }
    };
    // The pool does not tell those that wait that a connect failed. While others have
    // connections, one of those will do.
    let none_to_come =
        async { while failed.changed().await.is_ok() && pool.state().connections > 0 {} };
    tokio::select! {
        biased;
        connection = lend => connection,
        _ = state.wait_for(|state| *state == StoreState::Down) => Err(monitor.down()),
        () = none_to_come => Err(monitor.down()),
    }
}

/// The error of a call without a connection. A Redis that refuses one by its code answers: it
/// is not unreachable.
fn unmade(error: &RunError<RedisError>) -> Error {
    match error {
        RunError::User(refusal) => match refusal.code() {
            Some(code) => evaluate::refused(code, refusal.to_string()),
            None => Error::Unavailable(refusal.to_string()),
        },
        error => Error::Unavailable(error.to_string()),
    }
}
