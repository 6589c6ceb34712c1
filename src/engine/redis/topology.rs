//! Which node a decision goes to.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::sleep};

use super::{
    StoreState,
    address::Address,
    cluster::Cluster,
    job::Job,
    monitor::Monitor,
    node::{Node, Plan},
    slot::Slot,
    source::Source,
};
use crate::{error::Error, time::monotonic};

/// After which a slot that is on its way is asked for again; longer each time.
const MIGRATION_PAUSE: Duration = Duration::from_millis(5);
const MIGRATION_PAUSES_MAX: u32 = 10;

/// The nodes of the store.
#[derive(Debug)]
pub(super) enum Topology {
    /// One that has everything.
    Single(Arc<Node>),
    /// Each has some of the slots.
    Cluster(Box<Cluster>),
}

/// What a node said that did not execute a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// Another node has the slot.
    Moved { place: String, slot: u16 },
    /// Another node may have the keys already: the slot is on its way there.
    Ask { place: String },
    /// Some keys of the decision are here and some there.
    TryAgain,
}

impl Topology {
    pub(super) fn new(address: Address, plan: Plan) -> Topology {
        let single = |source| Topology::Single(Node::new(source, StoreState::Down, &plan));
        match address {
            Address::Single(client) => single(Source::Fixed(client)),
            Address::Sentinel(client) => single(Source::sentinel(client)),
            Address::Cluster(seeds) => Topology::Cluster(Box::new(Cluster::new(seeds, plan))),
        }
    }

    /// The slot that a decision is sent to.
    pub(super) fn slot(&self, key: &[u8]) -> Slot {
        match self {
            Topology::Single(_) => Slot::default(),
            Topology::Cluster(_) => Slot::of(key),
        }
    }

    /// Sends a decision to the node that has its slot.
    pub(super) fn push(&self, job: Job) {
        match self.node(job.slot) {
            Ok(node) => match node.monitor.check() {
                Ok(()) => node.push(job),
                Err(error) => job.answer(Err(error)),
            },
            Err(error) => job.answer(Err(error)),
        }
    }

    /// Sends a decision where its node says.
    pub(super) fn redirect(self: &Arc<Topology>, mut job: Job, redirect: &Redirect) {
        let Topology::Cluster(cluster) = &**self else {
            let why = "it is a node of a Cluster: redis+cluster:// in place of redis://";
            return job.answer(Err(Error::Unavailable(why.to_owned())));
        };
        if !job.is_wanted(monotonic()) {
            let why = "its slot moved for longer than the call had time".to_owned();
            return job.answer(Err(Error::Unavailable(why)));
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
        // Nodes that agree send it elsewhere twice at most.
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

    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        match self {
            Topology::Single(node) => node.monitor.state(),
            Topology::Cluster(cluster) => cluster.state(),
        }
    }

    /// Why the store must not be used as it is set up; none where it does not answer soon.
    pub(super) async fn unfit(&self) -> Option<String> {
        match self {
            Topology::Single(node) => node.monitor.unfit().await,
            Topology::Cluster(cluster) => cluster.unfit().await,
        }
    }

    /// A key on the node that this monitor follows; none where nothing is known of its slots.
    pub(super) fn probe_key(&self, monitor: &Monitor, prefix: &str) -> Option<String> {
        match self {
            Topology::Single(_) => Some(prefix.to_owned()),
            Topology::Cluster(cluster) => {
                cluster.tag_of(monitor).map(|tag| format!("{prefix}{{{tag}}}"))
            }
        }
    }

    /// Whether a slot went from one node to another, as far as was seen.
    pub(super) fn has_changed(&self) -> bool {
        match self {
            Topology::Single(_) => false,
            Topology::Cluster(cluster) => cluster.has_changed(),
        }
    }

    /// Follows the nodes, for ever.
    pub(super) async fn maintain(&self) {
        match self {
            Topology::Single(node) => {
                tokio::join!(node.monitor.probe(), node.monitor.follow());
            }
            Topology::Cluster(cluster) => cluster.maintain().await,
        }
    }
}
