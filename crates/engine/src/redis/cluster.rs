//! The nodes of a Redis Cluster and the owner of each slot.
//!
//! The slot map is read from any node: every 10 s, every 250 ms while a node is unusable, and soon
//! after a redirect. Between reads, redirects from the nodes update it slot by slot. A node without
//! slots is dropped if it is a replica or unreachable. If it had slots before, that counts as a
//! failover.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{RedisError, RedisResult};
use tokio::{
    sync::{Notify, watch},
    task::{AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    StoreState,
    address::Endpoint,
    map::{SlotRange, parse_map},
    node::{Node, Plan},
    servers,
    slot::{SLOTS, Slot},
    source::NodeSource,
};
use tollgate_core::error::Error;

/// The interval while all slots have usable nodes.
const READ_EVERY: Duration = Duration::from_secs(10);
/// The interval while a slot has no usable node, to find its new owner.
const READ_DOWN: Duration = Duration::from_millis(250);
/// Minimum interval, however many redirects arrive.
const READ_PAUSE: Duration = Duration::from_millis(50);
/// Time limit for reading the map from one node.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// The primaries of a Cluster.
#[derive(Debug)]
pub(super) struct Cluster {
    /// The nodes in the URL, which are asked if no known node answers.
    seeds: Vec<Endpoint>,
    plan: Plan,
    /// The nodes by `host:port`, including nodes without slots.
    nodes: Mutex<HashMap<String, Arc<Node>>>,
    owners: RwLock<Owners>,
    /// The state of the whole Cluster.
    state: watch::Sender<StoreState>,
    /// The reason why the Cluster is unusable, while it is.
    reason: Mutex<String>,
    /// Notified by a redirect, and by a new node that must be probed.
    moved: Notify,
    /// Whether a slot has moved between nodes since the start.
    has_changed: AtomicBool,
}

/// The map of slots to nodes.
#[derive(Debug)]
struct Owners {
    /// The owner of each slot.
    nodes: Vec<Option<Arc<Node>>>,
    /// The nodes that have slots in the last map, and the nodes that redirects have named since
    /// then. All other nodes have no slots.
    leading: Vec<Arc<Node>>,
}

impl Cluster {
    /// Creates a Cluster without known nodes; the first read asks the seeds.
    pub(super) fn new(seeds: Vec<Endpoint>, plan: Plan) -> Cluster {
        Cluster {
            seeds,
            plan,
            nodes: Mutex::default(),
            owners: RwLock::new(Owners { nodes: vec![None; SLOTS], leading: Vec::new() }),
            state: watch::Sender::new(StoreState::Down),
            reason: Mutex::new("not connected yet".to_owned()),
            moved: Notify::new(),
            has_changed: AtomicBool::new(false),
        }
    }

    /// Returns the owner of a slot, as far as it is known.
    pub(super) fn node(&self, slot: Slot) -> Result<Arc<Node>, Error> {
        self.check()?;
        let owner = self.owners().nodes[usize::from(slot.0)].clone();
        owner.ok_or_else(|| Error::Unavailable(format!("no node owns slot {}", slot.0)))
    }

    /// Returns the node at `host:port`, in the form that nodes use. Creates it if it is new.
    pub(super) fn at(&self, place: &str) -> Result<Arc<Node>, Error> {
        let mut nodes = lock(&self.nodes);
        if let Some(node) = nodes.get(place) {
            return Ok(node.clone());
        }
        let unreadable =
            || Error::Unavailable(format!("a node redirected to an invalid address `{place}`"));
        let (host, port) = place.rsplit_once(':').ok_or_else(unreadable)?;
        let port = port.parse().map_err(|_| unreadable())?;
        let like = self.seeds.first().ok_or_else(unreadable)?;
        // A node that does not know its host is assumed to be at the host of the URL.
        let host = if host.is_empty() { like.host() } else { host };
        let source = NodeSource::Fixed(like.at(host, port));
        let node = Node::new(source, StoreState::Up, &self.plan);
        nodes.insert(place.to_owned(), node.clone());
        self.moved.notify_one();
        Ok(node)
    }

    /// Records a redirect: the node at `place` has the slot.
    pub(super) fn record_moved(&self, place: &str, slot: u16) -> Result<Arc<Node>, Error> {
        let node = self.at(place)?;
        let mut owners = self.owners.write().unwrap_or_else(PoisonError::into_inner);
        let Owners { nodes, leading } = &mut *owners;
        if let Some(owner) = nodes.get_mut(usize::from(slot)) {
            let before = owner.replace(node.clone());
            if !leading.iter().any(|known| Arc::ptr_eq(known, &node)) {
                leading.push(node.clone());
            }
            if before.is_some_and(|before| !Arc::ptr_eq(&before, &node)) {
                self.has_changed.store(true, Ordering::Release);
            }
        }
        self.moved.notify_one();
        Ok(node)
    }

    /// Whether a slot has moved between nodes, or a node has failed over.
    pub(super) fn has_changed(&self) -> bool {
        self.has_changed.load(Ordering::Acquire) || self.plan.shared.failovers() > 0
    }

    /// Returns any node that answers.
    pub(super) fn any(&self) -> Option<Arc<Node>> {
        lock(&self.nodes).values().find(|node| node.monitor.is_up()).cloned()
    }

    /// Fails while no node is known to answer.
    pub(super) fn check(&self) -> Result<(), Error> {
        match *self.state.borrow() {
            StoreState::Up | StoreState::Refusing => Ok(()),
            StoreState::Down => {
                let why = lock(&self.reason).clone();
                let answers = lock(&self.nodes).values().any(|node| node.monitor.has_answered());
                Err(if answers { Error::Refused(why) } else { Error::Unavailable(why) })
            }
        }
    }

    /// Returns the number of servers on all nodes; `None` if a node has not answered.
    pub(super) fn servers(&self) -> Option<u32> {
        servers::total(lock(&self.nodes).values().map(|node| node.monitor.servers()))
    }

    pub(super) fn state(&self) -> watch::Receiver<StoreState> {
        self.state.subscribe()
    }

    /// Runs the preflight on all nodes.
    pub(super) async fn unfit(&self) -> Option<String> {
        // Without an answer, the monitors check later.
        self.read().await.ok()?;
        let nodes: Vec<_> = lock(&self.nodes).clone().into_iter().collect();
        for (place, node) in nodes {
            if let Some(why) = node.monitor.unfit().await {
                return Some(format!("{place}: {why}"));
            }
        }
        None
    }

    /// Keeps the slot map and the nodes' health current, until dropped.
    pub(super) async fn maintain(&self) {
        let (mut tasks, mut probes) = (JoinSet::new(), HashMap::new());
        loop {
            let read = self.read().await;
            self.follow(&mut tasks, &mut probes);
            let is_whole = read.is_ok() && self.is_whole();
            self.publish(read.err());
            let pause = if is_whole { READ_EVERY } else { READ_DOWN };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.moved.notified() => sleep(READ_PAUSE).await,
                () = self.is_hurt(), if is_whole => {}
            }
        }
    }

    /// Waits until a slot has lost its usable node, and returns soon afterwards.
    async fn is_hurt(&self) {
        while self.is_whole() {
            sleep(READ_DOWN).await;
        }
    }

    /// Whether every slot has an owner that accepts writes.
    fn is_whole(&self) -> bool {
        let owners = self.owners();
        owners
            .nodes
            .iter()
            .all(|owner| owner.as_ref().is_some_and(|node| node.monitor.takes_writes()))
    }

    /// Starts probes for new nodes, and ends the probes of dropped nodes.
    fn follow(
        &self,
        tasks: &mut JoinSet<()>,
        probes: &mut HashMap<String, (Arc<Node>, AbortHandle)>,
    ) {
        let nodes = lock(&self.nodes).clone();
        probes.retain(|place, (node, probe)| {
            let is_known = nodes.get(place).is_some_and(|known| Arc::ptr_eq(known, node));
            if !is_known {
                probe.abort();
            }
            is_known
        });
        for (place, node) in nodes {
            probes.entry(place).or_insert_with(|| {
                let probed = node.clone();
                (node, tasks.spawn(async move { probed.monitor.probe().await }))
            });
        }
        while tasks.try_join_next().is_some() {}
    }

    /// Publishes the state, which is usable if any node is.
    fn publish(&self, failed: Option<RedisError>) {
        let takes_writes = lock(&self.nodes).values().any(|node| node.monitor.takes_writes());
        let state = match self.any() {
            Some(_) if takes_writes => StoreState::Up,
            Some(_) => StoreState::Refusing,
            None => StoreState::Down,
        };
        if state == StoreState::Down
            && let Some(error) = failed
        {
            *lock(&self.reason) = error.to_string();
        }
        if self.state.send_replace(state) != state {
            let state = state.name();
            tracing::info!(state, "the condition of the Cluster has changed");
        }
    }

    /// Reads the slot map from the nodes, one by one, until one has all slots. Otherwise the most
    /// complete map is used.
    async fn read(&self) -> RedisResult<()> {
        let mut nodes: Vec<_> = lock(&self.nodes).values().cloned().collect();
        nodes.sort_by_key(|node| !node.monitor.is_up());
        let known = nodes.iter().map(|node| node.monitor.source().endpoint_now());
        let seeds = self.seeds.iter().cloned().map(Ok);
        let mut failed = (redis::ErrorKind::Io, "no node is known").into();
        let mut best: Vec<SlotRange> = Vec::new();
        for endpoint in known.chain(seeds) {
            let ask = async { parse_map(&endpoint?).await };
            match timeout(ANSWER_MAX, ask).await {
                // A node that was reset does not know any other node.
                Ok(Ok(parts)) if slots(&parts) > slots(&best) => best = parts,
                Ok(Ok(_)) => failed = (redis::ErrorKind::Io, "a node reports no slots").into(),
                Ok(Err(error)) => failed = error,
                Err(_) => failed = (redis::ErrorKind::Io, "a node does not answer").into(),
            }
            if slots(&best) == SLOTS {
                break;
            }
        }
        if best.is_empty() {
            return Err(failed);
        }
        self.take_over(&best);
        Ok(())
    }

    /// Replaces the owners according to a new map.
    fn take_over(&self, parts: &[SlotRange]) {
        let (mut owners, mut leading) = (vec![None; SLOTS], Vec::<Arc<Node>>::new());
        for part in parts {
            let Ok(node) = self.at(&part.primary) else { continue };
            let slots = usize::from(part.first)..=usize::from(part.last);
            if let Some(slots) = owners.get_mut(slots) {
                slots.fill(Some(node.clone()));
            }
            if !leading.iter().any(|known| Arc::ptr_eq(known, &node)) {
                leading.push(node);
            }
        }
        // Drops nodes that are no longer primaries before the new owners apply.
        let primaries: HashSet<&str> = parts.iter().map(|part| part.primary.as_str()).collect();
        let replicas: HashSet<&str> =
            parts.iter().flat_map(|part| &part.replicas).map(String::as_str).collect();
        let mut nodes = lock(&self.nodes);
        nodes.retain(|place, node| {
            let (leads, follows) = (primaries.contains(&**place), replicas.contains(&**place));
            let has_slots = self.leads(node);
            if has_slots && !leads && (follows || !node.monitor.is_up()) {
                tracing::warn!(
                    node = place,
                    "failover: another node is primary in place of this one"
                );
                self.plan.shared.record_failover();
                self.plan.shared.losses.fetch_add(1, Ordering::AcqRel);
            }
            // A node to which a slot is migrating may not be listed yet, so a usable node stays.
            let stays = leads || !follows && node.monitor.is_up();
            if !stays {
                node.monitor.leave();
            }
            stays
        });
        drop(nodes);
        *self.owners.write().unwrap_or_else(PoisonError::into_inner) =
            Owners { nodes: owners, leading };
    }

    /// Returns a number for a hash tag whose slot belongs to the node at `source`; `None` for a
    /// node without slots, at no cost.
    pub(super) fn tag_of(&self, source: &NodeSource) -> Option<u32> {
        let owners = self.owners();
        let is_followed = |node: &Arc<Node>| std::ptr::eq(node.monitor.source(), source);
        if !owners.leading.iter().any(is_followed) {
            return None;
        }
        let is_its = |slot: &usize| owners.nodes[*slot].as_ref().is_some_and(is_followed);
        (0..SLOTS).find(is_its).map(|slot| Slot(slot as u16).tag())
    }

    /// Returns the first slot of the next node, in the order of first slots; `None` after the last
    /// node.
    pub(super) fn node_after(&self, first: Option<Slot>) -> Option<Slot> {
        let owners = self.owners();
        let mut seen: Vec<&Arc<Node>> = Vec::new();
        for (slot, owner) in owners.nodes.iter().enumerate() {
            let Some(owner) = owner else { continue };
            if seen.last().is_some_and(|last| Arc::ptr_eq(last, owner))
                || seen.iter().any(|node| Arc::ptr_eq(node, owner))
            {
                continue;
            }
            seen.push(owner);
            let slot = Slot(slot as u16);
            if first.is_none_or(|first| slot > first) {
                return Some(slot);
            }
        }
        None
    }

    /// Returns the nodes with slots.
    pub(super) fn leading(&self) -> Vec<Arc<Node>> {
        self.owners().leading.clone()
    }

    /// Whether a node owned a slot in the map before a change.
    fn leads(&self, node: &Arc<Node>) -> bool {
        self.owners().nodes.iter().flatten().any(|owner| Arc::ptr_eq(owner, node))
    }

    fn owners(&self) -> RwLockReadGuard<'_, Owners> {
        self.owners.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of slots that have an owner.
fn slots(parts: &[SlotRange]) -> usize {
    parts.iter().map(|part| usize::from(part.last.saturating_sub(part.first)) + 1).sum()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
