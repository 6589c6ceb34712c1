//! Accepts connections, and limits their number for the server and for each peer address.

use std::{sync::Arc, time::Duration};

use tokio::{net::TcpListener, sync::Semaphore, time::sleep};

use crate::{connections::Accepted, peers::Peers, workers::Workers};
use tollgate_telemetry::{limits::ReachedLimit, line_pace::LinePace};

/// Limits the log lines about failed accepts.
static FAILURES: LinePace = LinePace::new(1, Duration::from_secs(10));

/// Pause after a failed accept, which is usually due to a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The places for connections of a server and of its peers.
#[derive(Debug)]
pub struct ConnectionPlaces {
    /// One for each connection of the server.
    pub permits: Arc<Semaphore>,
    /// The number of permits.
    pub connections_max: usize,
    /// The connections of each peer address.
    pub peers: Arc<Peers>,
}

/// Accepts connections and distributes them among the workers. Returns when a worker has ended. A
/// connection above the limit of the server or of its peer address is closed immediately.
pub async fn accept(listener: &TcpListener, places: &ConnectionPlaces, workers: &mut Workers) {
    loop {
        // Back off only if `accept` itself fails; a connection that its peer has already closed is
        // not a failure.
        let accepted = listener.accept().await;
        let accepted = accepted.and_then(|(stream, peer)| Ok((stream.into_std()?, peer)));
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if let Some(suppressed) = FAILURES.due() {
                    tracing::warn!(%error, suppressed, "cannot accept a connection");
                }
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(peer) = places.peers.connect(peer.ip(), places.connections_max) else {
            tracing::debug!(%peer, "a peer address has reached its maximum number of connections; a further one is closed");
            continue;
        };
        match places.permits.clone().try_acquire_owned() {
            Ok(permit) => {
                if !workers.deal(Accepted { stream, peer, permit }).await {
                    return;
                }
            }
            Err(_) => {
                ReachedLimit::Connections.record();
                tracing::debug!(
                    "the server has reached its maximum number of connections; a further one is closed"
                );
            }
        }
    }
}
