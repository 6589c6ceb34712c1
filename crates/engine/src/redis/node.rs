//! A node of the store, with its monitor and the pipelines of each thread to it.
//!
//! A node is a primary that accepts writes. [`Node::push`] selects the pipeline by the kind of
//! decision, so that slow decisions do not delay others:
//!
//! | pipeline | decisions |
//! |---|---|
//! | ordinary | most |
//! | acknowledged | decisions that replicas must acknowledge |
//! | bulk | listings and other decisions that occupy Redis for long |
//! | upkeep | the same for background work |
//!
//! The bulk and upkeep pipelines of all threads share one permit, so that one of their batches is in
//! flight at a time.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use tokio::sync::Semaphore;

use super::{
    super::worker, StoreState, job::Job, monitor::Monitor, pipeline::Pipeline, preflight::Eviction,
    shared::Shared, source::NodeSource,
};

/// A node of the store.
pub(super) struct Node {
    /// Probes the node.
    pub(super) monitor: Arc<Monitor>,
    shared: Arc<Shared>,
    /// Maximum number of connections of an ordinary or acknowledged pipeline.
    connections: usize,
    /// The pipelines of each thread, created on first use because they need that thread's runtime.
    pipelines: Box<[OnceLock<ThreadPipelines>]>,
    /// The permit of the bulk or upkeep batch in flight.
    permit: Arc<Semaphore>,
}

/// The pipelines of one thread.
struct ThreadPipelines {
    /// For most decisions.
    ordinary: Arc<Pipeline>,
    /// For decisions that replicas must acknowledge, because WAIT blocks the connection.
    acknowledged: Arc<Pipeline>,
    /// For listings and other decisions that occupy Redis for long.
    bulk: Arc<Pipeline>,
    /// For background work that occupies Redis for long, so that calls need not queue behind it.
    upkeep: Arc<Pipeline>,
}

/// The settings of new nodes.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    pub(super) shared: Arc<Shared>,
    pub(super) eviction: Eviction,
    /// Maximum number of connections to the node, from all threads.
    pub(super) connections: u32,
    /// The number of worker threads.
    pub(super) workers: usize,
}

impl Node {
    /// Creates a node that is in `state` until the first probe.
    pub(super) fn new(source: NodeSource, state: StoreState, plan: &Plan) -> Arc<Node> {
        let Plan { shared, eviction, connections, workers } = plan;
        Arc::new(Node {
            monitor: Arc::new(Monitor::new(source, state, *eviction, shared.clone())),
            shared: shared.clone(),
            connections: (*connections as usize).div_ceil((*workers).max(1)),
            // One more for threads that are not workers, such as the sweeper's.
            pipelines: (0..=*workers).map(|_| OnceLock::new()).collect(),
            permit: Arc::new(Semaphore::new(1)),
        })
    }

    /// Queues a job on the pipeline for its kind of decision.
    pub(super) fn push(&self, job: Job) {
        let place = &self.pipelines[worker::number() % self.pipelines.len()];
        let pipelines = place.get_or_init(|| {
            let pipeline =
                || Pipeline::new(self.shared.clone(), self.monitor.clone(), self.connections);
            let bulk =
                || Pipeline::bulk(self.shared.clone(), self.monitor.clone(), self.permit.clone());
            ThreadPipelines {
                ordinary: pipeline(),
                acknowledged: pipeline(),
                bulk: bulk(),
                upkeep: bulk(),
            }
        });
        let delivery = &job.delivery;
        let pipeline = match (delivery.acknowledgement.is_needed(), delivery.cost.is_bulk()) {
            (true, _) => &pipelines.acknowledged,
            (false, false) => &pipelines.ordinary,
            (false, true) if delivery.is_background() => &pipelines.upkeep,
            (false, true) => &pipelines.bulk,
        };
        pipeline.push(job);
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("monitor", &self.monitor).finish_non_exhaustive()
    }
}
