//! Connections to a node, and the pool that lends them to a pipeline.
//!
//! The pool is bb8 with a manager of our own. That of bb8-redis never reports a connection as broken,
//! so a dead one would be lent for ever.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bb8_redis::bb8::{ManageConnection, Pool, PooledConnection, RunError};
use redis::RedisError;
use tokio::{sync::watch, time::timeout};

use super::{StoreState, bounded::RedisSocket, evaluate, monitor::Monitor};
use tollgate_core::{error::Error, time::monotonic};

/// The time limit of connecting and greeting. An overloaded thread is late for each of the round
/// trips; its calls that have time left wait for the connection. The probe finds a node that does
/// not answer, and ends the attempt at once.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Creates connections for the pool, and reports broken ones.
#[derive(Debug)]
pub(super) struct Connector {
    monitor: Arc<Monitor>,
    /// The number of failed connects.
    failed: Arc<watch::Sender<u64>>,
}

/// A connection of the pool.
#[derive(Debug)]
pub(super) struct NodeConnection {
    pub(super) socket: RedisSocket,
    /// The monitor's epoch when the connection was made.
    pub(super) epoch: u64,
    /// When the connection was made.
    pub(super) made: Instant,
    /// Whether the pool must drop it.
    broken: bool,
}

impl Connector {
    /// Counts failed connects in `failed`, to wake callers that wait for a connection.
    pub(super) fn new(monitor: Arc<Monitor>, failed: Arc<watch::Sender<u64>>) -> Connector {
        Connector { monitor, failed }
    }
}

impl NodeConnection {
    /// Marks the connection so that the pool drops it.
    pub(super) fn mark_broken(&mut self) {
        self.broken = true;
    }
}

impl ManageConnection for Connector {
    type Connection = NodeConnection;
    type Error = RedisError;

    /// Connects and measures the node's clock before the connection is lent.
    async fn connect(&self) -> Result<NodeConnection, RedisError> {
        let epoch = self.monitor.epoch();
        let mut state = self.monitor.state();
        let connected = timeout(CONNECT_MAX, async {
            let mut socket = self.monitor.source().connect(epoch, CONNECT_MAX).await?;
            self.monitor.greet(&mut socket).await?;
            Ok(socket)
        });
        let failed = |why| Err((redis::ErrorKind::Io, why).into());
        let connected = tokio::select! {
            biased;
            connected = connected => {
                connected.unwrap_or_else(|_| failed("no answer on a new connection"))
            }
            _ = state.wait_for(|state| *state == StoreState::Down) => failed("the node is down"),
        };
        match connected {
            Ok(socket) => Ok(NodeConnection { socket, epoch, made: monotonic(), broken: false }),
            Err(error) => {
                self.monitor.note_failed_connect(&error);
                self.failed.send_modify(|count| *count += 1);
                Err(error)
            }
        }
    }

    async fn is_valid(&self, _: &mut NodeConnection) -> Result<(), RedisError> {
        // No PING: it would cost every call a second round trip.
        Ok(())
    }

    fn has_broken(&self, connection: &mut NodeConnection) -> bool {
        connection.broken
    }
}

/// Borrows a connection that was made after the last lost one. If one connection breaks, idle ones
/// are usually dead too.
///
/// Fails at once if the node becomes unreachable, or if connects fail and there is no other
/// connection to wait for.
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
    // The pool does not wake its waiters after a failed connect. While connections exist, one of
    // them will be returned.
    let none_to_come =
        async { while failed.changed().await.is_ok() && pool.state().connections > 0 {} };
    tokio::select! {
        biased;
        connection = lend => connection,
        _ = state.wait_for(|state| *state == StoreState::Down) => Err(monitor.down()),
        () = none_to_come => Err(monitor.down()),
    }
}

/// The error of a call without a connection. A Redis that refuses a connection with an error code
/// is reachable.
fn unmade(error: &RunError<RedisError>) -> Error {
    match error {
        RunError::User(refusal) => match refusal.code() {
            Some(code) => evaluate::refused(code, &refusal.to_string()),
            None => Error::Unavailable(refusal.to_string()),
        },
        error => Error::Unavailable(error.to_string()),
    }
}
