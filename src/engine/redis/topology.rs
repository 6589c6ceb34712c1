//! The routing of decisions: from the hash slot of a key to a node.
//!
//! `Redis` sends every job through [`Topology::push`]. One Redis, or the primary that Sentinels
//! name, has all slots. In a Cluster the map of slots decides; a node that does not have the slot
//! says where to send the job (MOVED, ASK, TRYAGAIN). Such an answer means that the job was not
//! executed, so it is sent elsewhere until its deadline. `redis` explains why this is written by
//! hand.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep};

use super::{
    StoreState,
    address::Address,
    cluster::Cluster,
    job::{Job, MOVED_TOO_LONG},
    monitor::Monitor,
    node::{Node, Plan},
    slot::Slot,
    source::Source,
};
use crate::decision::{error::Error, time::monotonic};

/// The pause before a job is sent again to a slot that is migrating. Multiplied by the number of
/// redirects, up to [`MIGRATION_PAUSES_MAX`].
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

/// The answer of a node that did not execute a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// MOVED: another node has the slot.
    Moved { place: String, slot: u16 },
    /// ASK: the slot is migrating, and another node may have the keys already. ASKING must precede
    /// the command there.
    Ask { place: String },
    /// TRYAGAIN: some keys of the decision have migrated already, others not.
    TryAgain,
}

impl Topology {
    /// Creates the nodes of a URL. A single node is unusable until its first probe.
    pub(super) fn new(address: Address, plan: Plan) -> Topology {
        let single = |source| Topology::Single(Node::new(source, StoreState::Down, &plan));
        match address {
            Address::Single(client) => single(Source::Fixed(client)),
            Address::Sentinel(client) => single(Source::sentinel(client)),
            Address::Cluster(seeds) => Topology::Cluster(Box::new(Cluster::new(seeds, plan))),
        }
    }

    /// The slot of a key; always the first without a Cluster.
    pub(super) fn slot(&self, key: &[u8]) -> Slot {
        match self {
            Topology::Single(_) => Slot::default(),
            Topology::Cluster(_) => Slot::of(key),
        }
    }

    /// Sends a job to the node of its slot. Answers it with an error if that node is unreachable.
    pub(super) fn push(&self, job: Job) {
        match self.node(job.slot) {
            Ok(node) => match node.monitor.check() {
                Ok(()) => node.push(job),
                Err(error) => job.answer(Err(error)),
            },
            Err(error) => job.answer(Err(error)),
        }
    }

    /// Sends a job where a node said. Without a Cluster that is an error of the configuration.
    pub(super) fn redirect(self: &Arc<Topology>, mut job: Job, redirect: &Redirect) {
        let Topology::Cluster(cluster) = &**self else {
            let why = "this Redis is a node of a Cluster: use redis+cluster:// instead of redis://";
            return job.answer(Err(Error::Unavailable(why.to_owned())));
        };
        if !job.is_wanted(monotonic()) {
            return job.answer(Err(Error::Unavailable(MOVED_TOO_LONG.to_owned())));
        }
        job.redirects += 1;
        job.asking = false;
        let node = match redirect {
            Redirect::Moved { place, slot } => cluster.note_moved(place, *slot),
            Redirect::Ask { place } => {
                job.asking = true;
                cluster.at(place)
            }
            Redirect::TryAgain => self.node(job.slot),
        };
        let node = match node {
            Ok(node) => node,
            Err(error) => return job.answer(Err(error)),
        };
        // Two redirects suffice where nodes agree. More mean a migration: wait.
        if *redirect != Redirect::TryAgain && job.redirects <= 2 {
            return node.push(job);
        }
        let pause = MIGRATION_PAUSE * job.redirects.min(MIGRATION_PAUSES_MAX);
        tokio::spawn(async move {
            sleep(pause).await;
            node.push(job);
        });
    }

    /// The node that has a slot.
    pub(super) fn node(&self, slot: Slot) -> Result<Arc<Node>, Error> {
        match self {
            Topology::Single(node) => Ok(node.clone()),
            Topology::Cluster(cluster) => cluster.node(slot),
        }
    }

    /// Any node that answers.
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

    /// Follows the condition of the store.
    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        match self {
            Topology::Single(node) => node.monitor.state(),
            Topology::Cluster(cluster) => cluster.state(),
        }
    }

    /// Runs the preflight; see [`Monitor::unfit`].
    pub(super) async fn unfit(&self) -> Option<String> {
        match self {
            Topology::Single(node) => node.monitor.unfit().await,
            Topology::Cluster(cluster) => cluster.unfit().await,
        }
    }

    /// A probe key in a slot of the node of this monitor; `None` while its slots are unknown.
    pub(super) fn probe_key(&self, monitor: &Monitor, prefix: &str) -> Option<String> {
        match self {
            Topology::Single(_) => Some(prefix.to_owned()),
            Topology::Cluster(cluster) => {
                cluster.tag_of(monitor).map(|tag| format!("{prefix}{{{tag}}}"))
            }
        }
    }

    /// Whether a slot has moved between nodes, or a node has failed over, since the start. Then a
    /// pool's primary id may have changed without this server having seen it.
    pub(super) fn has_changed(&self) -> bool {
        match self {
            Topology::Single(_) => false,
            Topology::Cluster(cluster) => cluster.has_changed(),
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
