//! A connection of a pipeline to its node.
//!
//! A pipeline keeps its idle connections itself. It does not use a connection pool, since its jobs
//! already wait in a queue, and a second queue for connections would only delay them. The probes of
//! a monitor, exports and scans of names also have their own connection to each node.

use std::time::{Duration, Instant};

use redis::RedisError;
use tokio::time::timeout;

use super::{StoreState, monitor::Monitor, socket::RedisSocket};
use tollgate_core::time::monotonic;

/// Time limit for connecting and greeting. An overloaded thread is late to process each of these
/// round trips, while its calls that still have time wait for the connection. If the node does not
/// answer, the probe detects that and ends the attempt immediately.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// A connection of a pipeline.
#[derive(Debug)]
pub(super) struct NodeConnection {
    pub(super) socket: RedisSocket,
    /// The monitor's epoch when the connection was made.
    pub(super) epoch: u64,
    /// When the connection was made.
    pub(super) made: Instant,
    /// When it was used last.
    pub(super) used: Instant,
    /// Whether it must no longer be used.
    pub(super) is_broken: bool,
}

impl NodeConnection {
    /// Connects and measures the node's clock. Fails immediately if the node becomes unreachable.
    pub(super) async fn connect(monitor: &Monitor) -> Result<NodeConnection, RedisError> {
        let epoch = monitor.epoch();
        let mut state = monitor.state();
        let connected = timeout(CONNECT_MAX, async {
            let mut socket = monitor.source().connect(epoch, CONNECT_MAX).await?;
            monitor.greet(&mut socket).await?;
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
        let now = monotonic();
        connected
            .map(|socket| NodeConnection { socket, epoch, made: now, used: now, is_broken: false })
            .inspect_err(|error| monitor.record_failed_connect(error))
    }
}
