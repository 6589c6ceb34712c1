//! A loss of the store's data, as operators see it.

use std::time::Duration;

use tokio::time::sleep;

use super::{
    Redis,
    marker::{Settlement, StoreLoss, whole},
    node::Node,
};
use tollgate_core::error::Error;

/// How often and how many times an export asks for the marker of a node that was not probed yet.
const ASK_EVERY: Duration = Duration::from_millis(20);
const ASKED_MAX: u32 = 100;

fn loss(node: &Node) -> Option<StoreLoss> {
    let (state, time) = node.monitor.marker()?.loss()?;
    Some(StoreLoss { node: node.monitor.place(), state, time })
}

impl Redis {
    /// Returns the id of the store; `None` before a marker was read.
    pub(in super::super) fn store_id(&self) -> Option<String> {
        let markers = self.topology.nodes().into_iter().filter_map(|node| node.monitor.marker());
        markers.map(|marker| marker.id().to_owned()).next()
    }

    /// Returns the losses that the markers of the nodes record.
    pub(in super::super) fn store_losses(&self) -> Vec<StoreLoss> {
        self.topology.nodes().iter().filter_map(|node| loss(node)).collect()
    }

    /// Accepts the losses of all nodes. Returns the losses that were not accepted before.
    pub(in super::super) async fn accept_store_loss(&self) -> Result<Vec<StoreLoss>, Error> {
        let mut accepted = Vec::new();
        for node in self.topology.nodes() {
            let Some(open) = loss(&node).filter(StoreLoss::is_open) else { continue };
            node.monitor.settle(Settlement::Accepted).await?;
            accepted.push(open);
        }
        Ok(accepted)
    }

    /// Returns the id of the store, for an export. Waits up to two seconds until a marker was read.
    pub(super) async fn read_store_id(&self) -> Option<String> {
        for _ in 0..ASKED_MAX {
            if let Some(id) = self.store_id() {
                return Some(id);
            }
            sleep(ASK_EVERY).await;
        }
        None
    }

    /// Writes the marker of a store that has lost nothing to all nodes, after an import. Without an
    /// id, the nodes keep theirs.
    pub(super) async fn restore_marker(&self, id: Option<&str>) -> Result<(), Error> {
        for node in self.topology.nodes() {
            let kept = node.monitor.marker();
            let Some(id) = id.or(kept.as_ref().map(|marker| marker.id())) else { continue };
            node.monitor.settle(Settlement::Imported(&whole(id))).await?;
        }
        Ok(())
    }
}
