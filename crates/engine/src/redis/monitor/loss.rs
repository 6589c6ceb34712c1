//! The marker of the store on one node: records it, and settles it for operators (`marker`).

use std::sync::Arc;

use tokio::time::timeout;

use super::{
    super::{
        evaluate::{self, NodeArguments},
        marker::{LossState, Marker, Settlement},
        source::CONNECT_TIMEOUT,
    },
    Monitor, PROBE_TIMEOUT,
    inspect::Inspection,
    lock,
};
use tollgate_core::error::Error;

impl Monitor {
    /// Returns the arguments of scripts that depend on the node.
    pub(in super::super) fn arguments(&self) -> NodeArguments {
        NodeArguments { ahead: self.ahead(), marker: self.marker() }
    }

    /// Returns the marker of the store on the node; `None` before it was read.
    pub(in super::super) fn marker(&self) -> Option<Arc<Marker>> {
        lock(&self.marker).clone()
    }

    /// Records the marker that a probe has read. Logs a loss.
    pub(super) fn record_marker(&self, marker: Marker) {
        self.shared.markers.record(&marker);
        let loss = marker.loss();
        let before = lock(&self.marker).replace(Arc::new(marker));
        if loss.is_none() || before.is_some_and(|before| before.loss() == loss) {
            return;
        }
        let node = self.place();
        match loss.map(|(state, _)| state) {
            Some(LossState::Refusing) => tracing::error!(
                node,
                "the store has lost its data: sequences that it does not know fail with \
                 STORE_LOST, and pools are held for one lease; restore an export, set floors, or \
                 run `tollgate store accept-loss`"
            ),
            Some(LossState::Continued) => tracing::error!(
                node,
                "the store has lost its data; calls are answered as on a new store, because of \
                 on_store_loss = \"continue\": serial numbers can repeat"
            ),
            Some(LossState::Accepted) | None => {
                tracing::info!(node, "a loss of the store's data is accepted");
            }
        }
    }

    /// Returns the address of the node, for people.
    pub(in super::super) fn place(&self) -> String {
        let endpoint = self.source.endpoint_now();
        endpoint.map(|endpoint| endpoint.info.addr().to_string()).unwrap_or_default()
    }

    /// Settles the marker of the store as an operator has decided. Fails if the node does not
    /// accept the write.
    pub(in super::super) async fn settle(&self, settlement: Settlement<'_>) -> Result<(), Error> {
        let settled = async {
            let mut socket = self.source.connect(self.epoch(), CONNECT_TIMEOUT).await?;
            self.try_write(&mut socket, settlement).await
        };
        match timeout(PROBE_TIMEOUT + CONNECT_TIMEOUT, settled).await {
            Ok(Ok(Inspection::Fit)) => Ok(()),
            Ok(Ok(Inspection::Refuses(why) | Inspection::Unfit(why))) => Err(Error::Refused(why)),
            Ok(Err(error)) => Err(evaluate::error(&error)),
            Err(_) => Err(Error::DeadlineExceeded),
        }
    }
}
