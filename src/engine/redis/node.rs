//! A Redis that takes writes, and the lanes that lead to it.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use tokio::sync::Semaphore;

use super::{
    super::worker,
    Eviction, StoreState,
    job::{Job, Sending},
    lane::{Lane, Shared},
    monitor::Monitor,
    source::Source,
};

/// A node of the store.
pub(super) struct Node {
    pub(super) monitor: Arc<Monitor>,
    shared: Arc<Shared>,
    /// Connections of each of the server's threads.
    connections: u32,
    /// Of each of the server's threads, made when it first needs them.
    lanes: Box<[OnceLock<Lanes>]>,
    /// One batch at a time is on its way in the bulk lanes of all threads.
    turn: Arc<Semaphore>,
}

/// The lanes of one thread.
struct Lanes {
    plain: Arc<Lane>,
    /// For what replicas have to confirm.
    confirmed: Arc<Lane>,
    /// For listings, and for what else holds Redis for long.
    bulk: Arc<Lane>,
    /// For what does and nobody asked for: it takes turns with what somebody did.
    upkeep: Arc<Lane>,
}

/// How to make nodes.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) shared: Arc<Shared>,
    pub(super) eviction: Eviction,
    /// Connections to a node, of all threads.
    pub(super) connections: u32,
    /// The server's threads.
    pub(super) workers: usize,
}

impl Node {
    /// A node, and whether it is held to answer until it is probed.
    pub(super) fn new(source: Source, state: StoreState, plan: &Plan) -> Arc<Node> {
        let Plan { shared, eviction, connections, workers } = plan;
        Arc::new(Node {
            monitor: Arc::new(Monitor::new(source, state, *eviction, shared.clone())),
            shared: shared.clone(),
            connections: connections.div_ceil((*workers).max(1) as u32),
            // One more for what is done beside the calls.
            lanes: (0..=*workers).map(|_| OnceLock::new()).collect(),
            turn: Arc::new(Semaphore::new(1)),
        })
    }

    /// Sends a decision.
    pub(super) fn push(&self, job: Job) {
        let place = &self.lanes[worker::number() % self.lanes.len()];
        let lanes = place.get_or_init(|| {
            let lane = || Lane::new(self.shared.clone(), self.monitor.clone(), self.connections);
            let bulk = || Lane::bulk(self.shared.clone(), self.monitor.clone(), self.turn.clone());
            Lanes { plain: lane(), confirmed: lane(), bulk: bulk(), upkeep: bulk() }
        });
        let Sending { confirmation, is_upkeep, cost, .. } = job.sending;
        let lane = match (confirmation.is_needed(), cost.is_bulk()) {
            (true, _) => &lanes.confirmed,
            (false, false) => &lanes.plain,
            (false, true) if is_upkeep => &lanes.upkeep,
            (false, true) => &lanes.bulk,
        };
        lane.push(job);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("monitor", &self.monitor).finish_non_exhaustive()
    }
}
