//! The state that all pipelines and monitors of an engine share, and the [`Router`] through which a
//! pipeline returns jobs to the routing.
//!
//! The routing owns the nodes and their pipelines. They know the routing only through this trait,
//! so that their files do not depend on each other.

use std::{
    fmt,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use redis::{RedisError, ServerErrorKind};

use super::{
    evaluate::Scripts, job::Job, marker::Markers, servers::ServerChannels, skew::Skew,
    source::NodeSource,
};
use tollgate_telemetry::metrics;

/// The routing, as its nodes see it.
pub(super) trait Router: fmt::Debug + Send + Sync {
    /// Sends a job to the node of its slot. Answers it with an error if that node is unreachable.
    fn push(&self, job: Job);
    /// Sends a job to the node that another node named. Without a Cluster, a redirect is a
    /// configuration error.
    fn redirect(&self, job: Job, redirect: &Redirect);
    /// Returns a probe key in a slot of the node at `source`; `None` while its slots are unknown.
    fn probe_key(&self, source: &NodeSource, prefix: &str) -> Option<String>;
    /// Records a redirect of a probe, so that the slots of its node are known again.
    fn record_redirect(&self, redirect: &Redirect);
    /// Whether a slot has moved between nodes, or a node has failed over, since the start. A pool's
    /// primary id may then have changed without this server having seen it.
    fn has_changed(&self) -> bool;
}

/// The answer of a node that did not execute a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Redirect {
    /// MOVED: another node has the slot.
    Moved { place: String, slot: u16 },
    /// ASK: the slot is migrating, and another node may have the keys already. ASKING must precede
    /// the command there.
    Ask { place: String },
    /// TRYAGAIN: some keys of the decision have already migrated, others have not.
    TryAgain,
    /// The marker of the store differs from the one that this server knew. It has probed the node
    /// since then.
    MarkerRead,
}

impl Redirect {
    /// Returns the redirect that an error contains, if any.
    pub(super) fn from_error(error: &RedisError) -> Option<Redirect> {
        let to = |(place, slot): (&str, u16)| (place.to_owned(), slot);
        match error.kind() {
            redis::ErrorKind::Server(ServerErrorKind::Moved) => {
                let (place, slot) = error.redirect_node().map(to)?;
                Some(Redirect::Moved { place, slot })
            }
            redis::ErrorKind::Server(ServerErrorKind::Ask) => {
                Some(Redirect::Ask { place: error.redirect_node().map(to)?.0 })
            }
            redis::ErrorKind::Server(ServerErrorKind::TryAgain) => Some(Redirect::TryAgain),
            _ => None,
        }
    }
}

/// The state that all pipelines of an engine share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) scripts: Scripts,
    /// Maximum number of decisions in one script call.
    pub(super) batch_max: usize,
    /// Maximum number of waiting jobs in each queue of a pipeline.
    pub(super) queued_max: usize,
    /// Routes jobs that a node has redirected, or that are sent again.
    pub(super) router: OnceLock<Weak<dyn Router>>,
    /// The number of lost connections. After each, the store may have lost data.
    pub(super) losses: AtomicU64,
    /// The number of failovers seen.
    pub(super) failovers: AtomicU64,
    /// The highest clock of all primaries, for the token lead.
    pub(super) skew: Skew,
    /// The number of the last batch.
    pub(super) batches: AtomicU64,
    /// The prefix of probe keys.
    pub(super) probe_key: String,
    /// The prefix of marker keys.
    pub(super) marker_key: String,
    /// The markers that this server has seen.
    pub(super) markers: Markers,
    /// The channels of all servers.
    pub(super) servers: ServerChannels,
}

impl Shared {
    /// Returns the number of failovers seen: a new primary, or a restarted one.
    pub(super) fn failovers(&self) -> u64 {
        self.failovers.load(Ordering::Acquire)
    }

    /// Returns a number for the jobs of a batch, above 0.
    pub(super) fn next_batch(&self) -> u64 {
        self.batches.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts a failover.
    pub(super) fn record_failover(&self) {
        let failovers = self.failovers.fetch_add(1, Ordering::AcqRel) + 1;
        metrics::count(|cells| cells.failovers.add(1));
        tracing::warn!(
            failovers,
            "failover: another primary, or a restarted one; writes that were not replicated are \
             lost"
        );
    }

    /// Returns the routing, while the engine exists.
    pub(super) fn router(&self) -> Option<Arc<dyn Router>> {
        self.router.get()?.upgrade()
    }
}
