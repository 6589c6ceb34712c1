//! Connections to Redis and the pool that lends them.

use std::{sync::Arc, time::Instant};

use bb8_redis::bb8::{ManageConnection, Pool, PooledConnection};
use redis::{RedisError, aio::MultiplexedConnection};

use super::{StoreState, monitor::Monitor};
use crate::{error::Error, time::monotonic};

/// Makes connections, and knows a broken one when it comes back: bb8-redis's
/// own manager calls none broken, so a dead one would go round for ever.
#[derive(Debug)]
pub(super) struct Connector {
    monitor: Arc<Monitor>,
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
    pub(super) fn new(monitor: Arc<Monitor>) -> Connector {
        Connector { monitor }
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
        match self.monitor.source().connect(epoch).await {
            Ok(socket) => Ok(Connection { socket, epoch, made: monotonic(), broken: false }),
            Err(error) => {
                self.monitor.note_failed_connect(&error);
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
) -> Result<PooledConnection<'a, Connector>, Error> {
    let (mut state, mut failed) = (monitor.state(), monitor.failed_connects());
    let lend = async {
        loop {
            let mut connection = pool.get().await;
            match &mut connection {
                Ok(old) if old.epoch < monitor.epoch() => old.mark_broken(),
                _ => return connection.map_err(|error| Error::Unavailable(error.to_string())),
            }
        }
    };
    // A failed connect tells the monitor, not those that wait for it. While
    // others have connections, one of those will do.
    let none_to_come =
        async { while failed.changed().await.is_ok() && pool.state().connections > 0 {} };
    tokio::select! {
        biased;
        connection = lend => connection,
        _ = state.wait_for(|state| *state == StoreState::Down) => Err(monitor.down()),
        () = none_to_come => Err(monitor.down()),
    }
}
