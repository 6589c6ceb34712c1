//! The routing of decisions from the hash slot of a key to a node.
//!
//! `Redis` sends every job through [`Topology::push`]. A single Redis, or the primary that
//! Sentinels name, has all slots. In a Cluster, the map of slots decides; a node that does not have
//! the slot says where to send the job (MOVED, ASK, TRYAGAIN). Such an answer means that the job
//! was not executed, so it is sent elsewhere until its deadline. `redis` explains why this is
//! written by hand.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep};

use super::{
    StoreState,
    address::Address,
    cluster::Cluster,
    job::{Job, MOVED_TOO_LONG},
    node::{Node, Plan},
    servers,
    shared::{Redirect, Router},
    slot::Slot,
    source::NodeSource,
};
use tollgate_core::{
    Leads, Sighting,
    error::Error,
    time::{Millis, monotonic},
};

/// The pause before a job is sent again to a slot that is migrating. It is multiplied by the number
/// of redirects, up to [`MIGRATION_PAUSES_MAX`].
const MIGRATION_PAUSE: Duration = Duration::from_millis(5);
const MIGRATION_PAUSES_MAX: u32 = 10;

/// The nodes of the store.
#[derive(Debug)]
pub(super) enum Topology {
    /// One node with all slots.
    Single(Arc<Node>),
    /// Several nodes, each with some of the slots.
    Cluster(Box<Cluster>),
}

impl Topology {
    /// Creates the nodes of a URL. A single node is unusable until its first probe.
    pub(super) fn new(address: Address, plan: Plan) -> Topology {
        let single = |source| Topology::Single(Node::new(source, StoreState::Down, &plan));
        match address {
            Address::Single(endpoint) => single(NodeSource::Fixed(endpoint)),
            Address::Sentinel(client, tls) => single(NodeSource::sentinel(client, tls)),
            Address::Cluster(seeds) => Topology::Cluster(Box::new(Cluster::new(seeds, plan))),
        }
    }

    /// Returns the slot of a key, which is always the first without a Cluster.
    pub(super) fn slot(&self, key: &[u8]) -> Slot {
        match self {
            Topology::Single(_) => Slot::default(),
            Topology::Cluster(_) => Slot::from_key(key),
        }
    }

    /// Returns the node that has a slot.
    pub(super) fn node(&self, slot: Slot) -> Result<Arc<Node>, Error> {
        match self {
            Topology::Single(node) => Ok(node.clone()),
            Topology::Cluster(cluster) => cluster.node(slot),
        }
    }

    /// Returns the first slot of the next node, in the order of first slots; `None` after the last
    /// node.
    pub(super) fn node_after(&self, first: Option<Slot>) -> Option<Slot> {
        match self {
            Topology::Single(_) => first.is_none().then(Slot::default),
            Topology::Cluster(cluster) => cluster.node_after(first),
        }
    }

    /// Returns a number N for which the hash tag `scan:N` selects the node of a slot.
    pub(super) fn scan_tag(&self, slot: Slot) -> u32 {
        match self {
            Topology::Single(_) => 0,
            Topology::Cluster(_) => slot.scan_tag(),
        }
    }

    /// Returns all nodes with slots, as far as they are known.
    pub(super) fn nodes(&self) -> Vec<Arc<Node>> {
        match self {
            Topology::Single(node) => vec![node.clone()],
            Topology::Cluster(cluster) => cluster.leading(),
        }
    }

    /// Returns any node that answers.
    pub(super) fn any(&self) -> Option<Arc<Node>> {
        match self {
            Topology::Single(node) => Some(node.clone()).filter(|node| node.monitor.is_up()),
            Topology::Cluster(cluster) => cluster.any(),
        }
    }

    /// Fails while no node is known to answer.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self {
            Topology::Single(node) => node.monitor.check(),
            Topology::Cluster(cluster) => cluster.check(),
        }
    }

    /// Returns the number of servers on all nodes; `None` if it is not known.
    pub(super) fn servers(&self) -> Option<u32> {
        match self {
            Topology::Single(node) => servers::total([node.monitor.servers()]),
            Topology::Cluster(cluster) => cluster.servers(),
        }
    }

    /// Subscribes to the state of the store.
    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        match self {
            Topology::Single(node) => node.monitor.state(),
            Topology::Cluster(cluster) => cluster.state(),
        }
    }

    /// Runs the preflight, as [`Monitor::unfit`] describes.
    pub(super) async fn unfit(&self) -> Option<String> {
        match self {
            Topology::Single(node) => node.monitor.unfit().await,
            Topology::Cluster(cluster) => cluster.unfit().await,
        }
    }

    /// Keeps the state of all nodes current, until dropped.
    pub(super) async fn maintain(&self) {
        match self {
            Topology::Single(node) => {
                tokio::join!(node.monitor.probe(), node.monitor.follow());
            }
            Topology::Cluster(cluster) => cluster.maintain().await,
        }
    }
}

impl Router for Topology {
    fn push(&self, job: Job) {
        match self.node(job.slot) {
            Ok(node) => match node.monitor.check() {
                Ok(()) => node.push(job),
                Err(error) => job.answer(Err(error)),
            },
            Err(error) => job.answer(Err(error)),
        }
    }

    fn redirect(&self, mut job: Job, redirect: &Redirect) {
        if !job.is_wanted(monotonic()) {
            return job.answer(Err(Error::Unavailable(MOVED_TOO_LONG.to_owned())));
        }
        job.redirects += 1;
        job.asking = matches!(redirect, Redirect::Ask { .. });
        let node = match (self, redirect) {
            (_, Redirect::MarkerRead) | (Topology::Cluster(_), Redirect::TryAgain) => {
                self.node(job.slot)
            }
            (Topology::Cluster(cluster), Redirect::Moved { place, slot }) => {
                cluster.record_moved(place, *slot)
            }
            (Topology::Cluster(cluster), Redirect::Ask { place }) => cluster.at(place),
            (Topology::Single(_), _) => Err(Error::Unavailable(
                "this Redis is a node of a Cluster: use redis+cluster:// instead of redis://"
                    .to_owned(),
            )),
        };
        let node = match node {
            Ok(node) => node,
            Err(error) => return job.answer(Err(error)),
        };
        // Two redirects suffice if the nodes agree. More mean a migration, or a marker that cannot
        // be written, so wait.
        if *redirect != Redirect::TryAgain && job.redirects <= 2 {
            return node.push(job);
        }
        let pause = MIGRATION_PAUSE * job.redirects.min(MIGRATION_PAUSES_MAX);
        tokio::spawn(async move {
            sleep(pause).await;
            node.push(job);
        });
    }

    fn probe_key(&self, source: &NodeSource, prefix: &str) -> Option<String> {
        match self {
            Topology::Single(_) => Some(prefix.to_owned()),
            Topology::Cluster(cluster) => {
                cluster.tag_of(source).map(|tag| format!("{prefix}{{{tag}}}"))
            }
        }
    }

    fn record_redirect(&self, redirect: &Redirect) {
        if let (Topology::Cluster(cluster), Redirect::Moved { place, slot }) = (self, redirect) {
            // If the address is invalid, the next read of the map finds the node.
            let _ = cluster.record_moved(place, *slot);
        }
    }

    fn has_changed(&self) -> bool {
        match self {
            Topology::Single(_) => false,
            Topology::Cluster(cluster) => cluster.has_changed(),
        }
    }
}

impl Leads for Topology {
    /// Returns the sighting of the primary that has a key; "-" if its id is not known.
    fn sighting(&self, key: &[u8]) -> Option<Sighting> {
        let seen = self.node(self.slot(key)).ok()?.monitor.sighting();
        let unseen = || Sighting { leader: "-".to_owned(), length: Millis(0), has_changed: false };
        let mut sighting = seen.unwrap_or_else(unseen);
        // The slot may have come from another node, whose id this server has not seen.
        sighting.has_changed |= self.has_changed();
        Some(sighting)
    }
}
