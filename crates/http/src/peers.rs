//! Counts the connections, streams and bytes of each peer address.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::{
    adjustable::{AdjustablePermits, AdjustableQuota},
    limits::TransportLimits,
};
use tollgate_telemetry::limits::ReachedLimit;

/// The memory of a connection without calls, in bytes: its buffers and its state.
pub const CONNECTION_COST: usize = 16 * 1024;

/// The permits that all connections of a server share, and the peers that have connections.
#[derive(Debug)]
pub struct Peers {
    server: SharedPermits,
    /// Memory that the connections of the server use, in bytes.
    memory: AdjustableQuota,
    table: Mutex<PeerTable>,
}

#[derive(Debug, Default)]
struct PeerTable {
    /// The limits in use. A connection keeps the limits that it started with.
    limits: TransportLimits,
    entries: HashMap<IpAddr, PeerEntry>,
}

#[derive(Debug)]
struct PeerEntry {
    connections: usize,
    budget: Arc<PeerBudget>,
}

/// The resources that the connections of a peer may use together.
#[derive(Debug)]
struct PeerBudget {
    permits: SharedPermits,
    streams: AdjustableQuota,
    /// Memory that the connections of the peer use, in bytes.
    memory: AdjustableQuota,
}

/// The bytes and listings that several connections share.
#[derive(Debug)]
pub(crate) struct SharedPermits {
    /// Bytes of requests.
    pub(crate) requests: AdjustablePermits,
    /// Bytes of answers.
    pub(crate) answers: AdjustablePermits,
    /// Listings.
    pub(crate) listings: AdjustablePermits,
}

/// A connection of a peer, which is counted until it is dropped.
#[derive(Debug)]
pub(crate) struct PeerConnection {
    peers: Arc<Peers>,
    address: IpAddr,
    budget: Arc<PeerBudget>,
    limits: TransportLimits,
}

/// The memory that a connection uses beyond [`CONNECTION_COST`]. Released when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionCharge {
    peers: Arc<Peers>,
    budget: Arc<PeerBudget>,
    bytes: usize,
}

impl SharedPermits {
    fn new(requests: u32, answers: u32) -> SharedPermits {
        SharedPermits {
            requests: AdjustablePermits::new(requests as usize),
            answers: AdjustablePermits::new(answers as usize),
            listings: AdjustablePermits::new(TransportLimits::listings(answers)),
        }
    }

    fn set(&self, requests: u32, answers: u32) {
        self.requests.set(requests as usize);
        self.answers.set(answers as usize);
        self.listings.set(TransportLimits::listings(answers));
    }
}

impl Default for SharedPermits {
    fn default() -> SharedPermits {
        SharedPermits::new(
            TransportLimits::DEFAULT.request_bytes,
            TransportLimits::DEFAULT.answer_bytes,
        )
    }
}

impl PeerBudget {
    fn new(limits: &TransportLimits) -> PeerBudget {
        let permits = SharedPermits::new(limits.peer_request_bytes(), limits.peer_answer_bytes());
        let memory = AdjustableQuota::new(limits.peer_connection_bytes());
        PeerBudget { permits, streams: AdjustableQuota::new(limits.peer_streams), memory }
    }

    fn set(&self, limits: &TransportLimits) {
        self.permits.set(limits.peer_request_bytes(), limits.peer_answer_bytes());
        self.streams.set(limits.peer_streams);
        self.memory.set(limits.peer_connection_bytes());
    }

    /// Charges memory to the peer and to the server. Returns false if one of them has too little
    /// left.
    fn charge_memory(&self, peers: &Peers, bytes: usize) -> bool {
        if !self.memory.try_use(bytes) {
            ReachedLimit::ConnectionBytes.record();
            return false;
        }
        let is_charged = peers.memory.try_use(bytes);
        if !is_charged {
            self.memory.release(bytes);
            ReachedLimit::ConnectionBytes.record();
        }
        is_charged
    }

    fn release_memory(&self, peers: &Peers, bytes: usize) {
        self.memory.release(bytes);
        peers.memory.release(bytes);
    }
}

impl Peers {
    /// Creates the table of a server without connections.
    pub fn new(limits: &TransportLimits) -> Arc<Peers> {
        let server = SharedPermits::new(limits.request_bytes, limits.answer_bytes);
        let table = PeerTable { limits: *limits, entries: HashMap::new() };
        let memory = AdjustableQuota::new(limits.connection_bytes);
        Arc::new(Peers { server, memory, table: Mutex::new(table) })
    }

    /// Changes the limits. Limits of the server and of peers apply immediately; usage above them
    /// drains. Limits of a connection apply to later connections.
    pub fn set_limits(&self, limits: &TransportLimits) {
        let mut table = self.table.lock();
        table.limits = *limits;
        self.server.set(limits.request_bytes, limits.answer_bytes);
        self.memory.set(limits.connection_bytes);
        table.entries.values().for_each(|peer| peer.budget.set(limits));
    }

    /// Counts a connection of a peer to a server that accepts at most `connections_max`
    /// connections. Returns `None` if the peer has reached its maximum number of connections, or if
    /// the peer or the server has too little memory left for it.
    pub(crate) fn connect(
        self: &Arc<Self>,
        address: IpAddr,
        connections_max: usize,
    ) -> Option<PeerConnection> {
        let address = network(address);
        let mut table = self.table.lock();
        let limits = table.limits;
        let peer = match table.entries.entry(address) {
            Entry::Occupied(peer) => peer.into_mut(),
            Entry::Vacant(vacant) => vacant
                .insert(PeerEntry { connections: 0, budget: Arc::new(PeerBudget::new(&limits)) }),
        };
        if peer.connections >= limits.peer_connections(connections_max) {
            ReachedLimit::PeerConnections.record();
            return None;
        }
        if !peer.budget.charge_memory(self, CONNECTION_COST) {
            if peer.connections == 0 {
                table.entries.remove(&address);
            }
            return None;
        }
        peer.connections += 1;
        let budget = peer.budget.clone();
        drop(table);
        Some(PeerConnection { peers: self.clone(), address, budget, limits })
    }
}

impl PeerConnection {
    /// Returns the limits that were in use when the connection was opened.
    pub(crate) fn limits(&self) -> &TransportLimits {
        &self.limits
    }

    /// Returns the permits that the connections of the peer share.
    pub(crate) fn peer_permits(&self) -> &SharedPermits {
        &self.budget.permits
    }

    /// Returns the permits that the connections of the server share.
    pub(crate) fn server_permits(&self) -> &SharedPermits {
        &self.peers.server
    }

    /// Counts additional streams of the peer. Returns false if they would exceed its maximum.
    pub(crate) fn try_use_streams(&self, number: usize) -> bool {
        let may = self.budget.streams.try_use(number);
        if !may {
            ReachedLimit::PeerStreams.record();
        }
        may
    }

    /// Stops counting streams.
    pub(crate) fn release_streams(&self, number: usize) {
        self.budget.streams.release(number);
    }

    /// Returns the charge for additional memory of the connection, initially 0 bytes.
    pub(crate) fn charge(&self) -> ConnectionCharge {
        ConnectionCharge { peers: self.peers.clone(), budget: self.budget.clone(), bytes: 0 }
    }
}

impl ConnectionCharge {
    /// Replaces the charge by this number of bytes. Returns false, and keeps the previous charge,
    /// if the peer or the server has too little memory left.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.budget.charge_memory(&self.peers, bytes - self.bytes) {
            return false;
        }
        if bytes < self.bytes {
            self.budget.release_memory(&self.peers, self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }
}

impl Default for Peers {
    fn default() -> Peers {
        let limits = TransportLimits::DEFAULT;
        Peers {
            server: SharedPermits::default(),
            memory: AdjustableQuota::new(limits.connection_bytes),
            table: Mutex::default(),
        }
    }
}

impl Drop for ConnectionCharge {
    fn drop(&mut self) {
        self.budget.release_memory(&self.peers, self.bytes);
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        self.budget.release_memory(&self.peers, CONNECTION_COST);
        let mut table = self.peers.table.lock();
        if let Entry::Occupied(mut peer) = table.entries.entry(self.address) {
            peer.get_mut().connections -= 1;
            if peer.get().connections == 0 {
                peer.remove();
            }
        }
    }
}

/// Returns what counts as one peer: an IPv4 address or an IPv6 /64, since one host usually owns the
/// whole /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_streams_of_a_peer_are_bounded_and_released() {
        let limits = TransportLimits {
            peer_connections: Some(2),
            peer_streams: 64,
            ..TransportLimits::DEFAULT
        };
        let peers = Peers::new(&limits);
        let near: IpAddr = "2001:db8::1".parse().unwrap();
        let same: IpAddr = "2001:db8::2".parse().unwrap();
        let other: IpAddr = "192.0.2.1".parse().unwrap();
        let first = peers.connect(near, 100).unwrap();
        let second = peers.connect(same, 100).unwrap();
        assert!(peers.connect(near, 100).is_none());
        let third = peers.connect(other, 100).unwrap();

        assert!(first.try_use_streams(32) && second.try_use_streams(32));
        assert!(!second.try_use_streams(32));
        assert!(third.try_use_streams(32));
        first.release_streams(32);
        assert!(second.try_use_streams(32));

        drop(first);
        assert!(peers.connect(near, 100).is_some());
        drop((second, third));
        assert!(peers.table.lock().entries.is_empty());
        assert_eq!(peers.memory.used(), 0);
    }

    #[test]
    fn j15_the_memory_of_the_connections_of_a_peer_is_bounded_and_released() {
        let limits =
            TransportLimits { connection_bytes: 24 * CONNECTION_COST, ..TransportLimits::DEFAULT };
        let peers = Peers::new(&limits);
        let [near, far]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
        let mut open: Vec<_> = (0..20).map(|_| peers.connect(near, 100).unwrap()).collect();
        let mut charge = open[0].charge();
        assert!(charge.set(CONNECTION_COST));
        assert!(!charge.set(3 * CONNECTION_COST / 2));
        assert!(peers.connect(near, 100).is_none(), "a peer may use seven eighths of the memory");
        // Other peers can use the rest, and memory that is released is free again.
        open.extend((0..3).map(|_| peers.connect(far, 100).unwrap()));
        assert!(peers.connect(far, 100).is_none());
        assert!(charge.set(0));
        assert!(peers.connect(near, 100).is_some());
        drop((charge, open));
        assert_eq!(peers.memory.used(), 0);
        assert!(peers.table.lock().entries.is_empty());
    }
}
