//! Connections, streams and held bytes of each peer address.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{AdjustablePermits, CallerLimits, Places, ReachedLimit};

/// The memory of a connection without calls, in bytes: its buffers and its state.
pub const CONNECTION_COST: usize = 16 * 1024;

/// What the connections of a server hold together, and the peers that have connections.
#[derive(Debug)]
pub struct Peers {
    server: SharedPermits,
    /// Bytes of memory that the connections of the server cost.
    memory: Places,
    table: Mutex<PeerTable>,
}

#[derive(Debug, Default)]
struct PeerTable {
    /// The limits in use. A connection keeps those of its start.
    limits: CallerLimits,
    entries: HashMap<IpAddr, PeerEntry>,
}

#[derive(Debug)]
struct PeerEntry {
    connections: usize,
    share: Arc<PeerShare>,
}

/// What all connections of a peer can hold.
#[derive(Debug)]
struct PeerShare {
    permits: SharedPermits,
    streams: Places,
    /// Bytes of memory that the connections of the peer cost.
    memory: Places,
}

/// The bytes and listings that several connections can hold together.
#[derive(Debug)]
pub struct SharedPermits {
    /// Bytes of requests.
    pub requests: AdjustablePermits,
    /// Bytes of answers.
    pub answers: AdjustablePermits,
    /// Listings.
    pub listings: AdjustablePermits,
}

/// A connection of a peer, which counts until it is dropped.
#[derive(Debug)]
pub struct PeerConnection {
    peers: Arc<Peers>,
    address: IpAddr,
    share: Arc<PeerShare>,
    limits: CallerLimits,
}

/// The memory that a connection costs besides [`CONNECTION_COST`]. Given back when dropped.
#[derive(Debug)]
pub struct ConnectionCharge {
    peers: Arc<Peers>,
    share: Arc<PeerShare>,
    bytes: usize,
}

impl SharedPermits {
    fn new(requests: u32, answers: u32) -> SharedPermits {
        SharedPermits {
            requests: AdjustablePermits::new(requests as usize),
            answers: AdjustablePermits::new(answers as usize),
            listings: AdjustablePermits::new(CallerLimits::listings(answers)),
        }
    }

    fn set(&self, requests: u32, answers: u32) {
        self.requests.set(requests as usize);
        self.answers.set(answers as usize);
        self.listings.set(CallerLimits::listings(answers));
    }
}

impl Default for SharedPermits {
    fn default() -> SharedPermits {
        SharedPermits::new(CallerLimits::DEFAULT.request_bytes, CallerLimits::DEFAULT.answer_bytes)
    }
}

impl PeerShare {
    fn new(limits: &CallerLimits) -> PeerShare {
        let permits = SharedPermits::new(limits.peer_request_bytes(), limits.peer_answer_bytes());
        let memory = Places::new(limits.peer_connection_bytes());
        PeerShare { permits, streams: Places::new(limits.peer_streams), memory }
    }

    fn set(&self, limits: &CallerLimits) {
        self.permits.set(limits.peer_request_bytes(), limits.peer_answer_bytes());
        self.streams.set(limits.peer_streams);
        self.memory.set(limits.peer_connection_bytes());
    }

    /// Takes memory of the peer and of the server. Returns false if one of them has too little left.
    fn take_memory(&self, peers: &Peers, bytes: usize) -> bool {
        if !self.memory.try_take(bytes) {
            ReachedLimit::ConnectionBytes.record();
            return false;
        }
        let has_taken = peers.memory.try_take(bytes);
        if !has_taken {
            self.memory.give_back(bytes);
            ReachedLimit::ConnectionBytes.record();
        }
        has_taken
    }

    fn give_memory(&self, peers: &Peers, bytes: usize) {
        self.memory.give_back(bytes);
        peers.memory.give_back(bytes);
    }
}

impl Peers {
    /// Creates the table of a server without connections.
    pub fn new(limits: &CallerLimits) -> Arc<Peers> {
        let server = SharedPermits::new(limits.request_bytes, limits.answer_bytes);
        let table = PeerTable { limits: *limits, entries: HashMap::new() };
        let memory = Places::new(limits.connection_bytes);
        Arc::new(Peers { server, memory, table: Mutex::new(table) })
    }

    /// Changes the limits. Those of the server and of peers apply at once; what is in use above them
    /// drains. Those of a connection apply to later connections.
    pub fn set_limits(&self, limits: &CallerLimits) {
        let mut table = self.table.lock();
        table.limits = *limits;
        self.server.set(limits.request_bytes, limits.answer_bytes);
        self.memory.set(limits.connection_bytes);
        table.entries.values().for_each(|peer| peer.share.set(limits));
    }

    /// Counts a connection of a peer to a server with at most `connections_max` connections. `None`
    /// if the peer has its maximum of connections, or the peer or the server has too little memory
    /// left for it.
    pub fn connect(
        self: &Arc<Self>,
        address: IpAddr,
        connections_max: usize,
    ) -> Option<PeerConnection> {
        let address = network(address);
        let mut table = self.table.lock();
        let limits = table.limits;
        let peer = match table.entries.entry(address) {
            Entry::Occupied(peer) => peer.into_mut(),
            Entry::Vacant(place) => {
                place.insert(PeerEntry { connections: 0, share: Arc::new(PeerShare::new(&limits)) })
            }
        };
        if peer.connections >= limits.peer_connections(connections_max) {
            ReachedLimit::PeerConnections.record();
            return None;
        }
        if !peer.share.take_memory(self, CONNECTION_COST) {
            if peer.connections == 0 {
                table.entries.remove(&address);
            }
            return None;
        }
        peer.connections += 1;
        let share = peer.share.clone();
        drop(table);
        Some(PeerConnection { peers: self.clone(), address, share, limits })
    }
}

impl PeerConnection {
    /// The limits that were in use when the connection began.
    pub fn limits(&self) -> &CallerLimits {
        &self.limits
    }

    /// The permits that the connections of the peer share.
    pub fn share(&self) -> &SharedPermits {
        &self.share.permits
    }

    /// The permits that the connections of the server share.
    pub fn server(&self) -> &SharedPermits {
        &self.peers.server
    }

    /// Counts further streams of the peer. Returns false if they would exceed its maximum.
    pub fn take_streams(&self, number: usize) -> bool {
        let may = self.share.streams.try_take(number);
        if !may {
            ReachedLimit::PeerStreams.record();
        }
        may
    }

    /// Stops counting streams.
    pub fn give_streams(&self, number: usize) {
        self.share.streams.give_back(number);
    }

    /// Returns the charge for further memory of the connection, 0 bytes at first.
    pub fn charge(&self) -> ConnectionCharge {
        ConnectionCharge { peers: self.peers.clone(), share: self.share.clone(), bytes: 0 }
    }
}

impl ConnectionCharge {
    /// Charges this number of bytes in place of the last one. Returns false, and charges the last
    /// number still, if the peer or the server has too little memory left.
    pub fn set(&mut self, bytes: usize) -> bool {
        if bytes > self.bytes && !self.share.take_memory(&self.peers, bytes - self.bytes) {
            return false;
        }
        if bytes < self.bytes {
            self.share.give_memory(&self.peers, self.bytes - bytes);
        }
        self.bytes = bytes;
        true
    }
}

impl Default for Peers {
    fn default() -> Peers {
        let limits = CallerLimits::DEFAULT;
        Peers {
            server: SharedPermits::default(),
            memory: Places::new(limits.connection_bytes),
            table: Mutex::default(),
        }
    }
}

impl Drop for ConnectionCharge {
    fn drop(&mut self) {
        self.share.give_memory(&self.peers, self.bytes);
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        self.share.give_memory(&self.peers, CONNECTION_COST);
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
    fn connections_and_streams_of_a_peer_are_bounded_and_given_back() {
        let limits =
            CallerLimits { peer_connections: Some(2), peer_streams: 64, ..CallerLimits::DEFAULT };
        let peers = Peers::new(&limits);
        let near: IpAddr = "2001:db8::1".parse().unwrap();
        let same: IpAddr = "2001:db8::2".parse().unwrap();
        let other: IpAddr = "192.0.2.1".parse().unwrap();
        let first = peers.connect(near, 100).unwrap();
        let second = peers.connect(same, 100).unwrap();
        assert!(peers.connect(near, 100).is_none());
        let third = peers.connect(other, 100).unwrap();

        assert!(first.take_streams(32) && second.take_streams(32));
        assert!(!second.take_streams(32));
        assert!(third.take_streams(32));
        first.give_streams(32);
        assert!(second.take_streams(32));

        drop(first);
        assert!(peers.connect(near, 100).is_some());
        drop((second, third));
        assert!(peers.table.lock().entries.is_empty());
        assert_eq!(peers.memory.taken(), 0);
    }

    #[test]
    fn j15_the_memory_of_the_connections_of_a_peer_is_bounded_and_given_back() {
        let limits =
            CallerLimits { connection_bytes: 24 * CONNECTION_COST, ..CallerLimits::DEFAULT };
        let peers = Peers::new(&limits);
        let [near, far]: [IpAddr; 2] = ["192.0.2.1", "192.0.2.2"].map(|it| it.parse().unwrap());
        let mut open: Vec<_> = (0..20).map(|_| peers.connect(near, 100).unwrap()).collect();
        let mut charge = open[0].charge();
        assert!(charge.set(CONNECTION_COST));
        assert!(!charge.set(3 * CONNECTION_COST / 2));
        assert!(peers.connect(near, 100).is_none(), "the peer has seven eighths of the memory");
        // Others have the rest, and what is given back is free again.
        open.extend((0..3).map(|_| peers.connect(far, 100).unwrap()));
        assert!(peers.connect(far, 100).is_none());
        assert!(charge.set(0));
        assert!(peers.connect(near, 100).is_some());
        drop((charge, open));
        assert_eq!(peers.memory.taken(), 0);
        assert!(peers.table.lock().entries.is_empty());
    }
}
