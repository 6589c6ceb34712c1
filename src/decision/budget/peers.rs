//! Connections, streams and held bytes of each peer address.

use std::{
    collections::{HashMap, hash_map::Entry},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::{CallerLimits, ReachedLimit, note};

/// The peers that have connections.
#[derive(Debug)]
pub struct Peers {
    peers: Arc<Mutex<HashMap<IpAddr, PeerEntry>>>,
    limits: CallerLimits,
    connections_max: usize,
}

#[derive(Debug)]
struct PeerEntry {
    connections: usize,
    streams: Arc<AtomicUsize>,
    share: Arc<PeerShare>,
}

/// The bytes and listings that all connections of a peer can hold: half of the server's, and at
/// least those of one connection.
#[derive(Debug)]
pub struct PeerShare {
    /// Bytes of requests.
    pub requests: Arc<Semaphore>,
    /// Bytes of answers.
    pub answers: Arc<Semaphore>,
    /// Listings.
    pub listings: Arc<Semaphore>,
}

/// A connection of a peer, which counts until it is dropped.
#[derive(Debug)]
pub struct PeerConnection {
    peers: Arc<Mutex<HashMap<IpAddr, PeerEntry>>>,
    address: IpAddr,
    streams: Arc<AtomicUsize>,
    streams_max: usize,
    share: Arc<PeerShare>,
}

impl PeerShare {
    fn new(limits: &CallerLimits) -> PeerShare {
        let half = |server: u32, connection: u32| (server / 2).max(connection);
        let requests = half(limits.request_bytes, limits.connection_request_bytes);
        let answers = half(limits.answer_bytes, limits.connection_answer_bytes);
        let semaphore = |permits| Arc::new(Semaphore::new(permits));
        PeerShare {
            requests: semaphore(requests as usize),
            answers: semaphore(answers as usize),
            listings: semaphore(CallerLimits::listings(answers)),
        }
    }
}

impl Peers {
    /// Creates the table of a server with at most `connections_max` connections.
    pub fn new(limits: &CallerLimits, connections_max: usize) -> Peers {
        Peers {
            peers: Arc::default(),
            limits: *limits,
            connections_max: limits.peer_connections(connections_max),
        }
    }

    /// Counts a connection of a peer. `None` if the peer has its maximum of connections.
    pub fn connect(&self, address: IpAddr) -> Option<PeerConnection> {
        let address = prefix(address);
        let mut peers = self.peers.lock();
        let peer = match peers.entry(address) {
            Entry::Occupied(peer) => peer.into_mut(),
            Entry::Vacant(place) => place.insert(PeerEntry {
                connections: 0,
                streams: Arc::default(),
                share: Arc::new(PeerShare::new(&self.limits)),
            }),
        };
        if peer.connections >= self.connections_max {
            note(ReachedLimit::PeerConnections);
            return None;
        }
        peer.connections += 1;
        let (streams, share) = (peer.streams.clone(), peer.share.clone());
        drop(peers);
        let (peers, streams_max) = (self.peers.clone(), self.limits.peer_streams);
        Some(PeerConnection { peers, address, streams, streams_max, share })
    }
}

impl PeerConnection {
    /// The permits that the connections of the peer share.
    pub fn share(&self) -> &PeerShare {
        &self.share
    }

    /// Counts further streams of the peer. Returns false if they would exceed its maximum.
    pub fn take_streams(&self, number: usize) -> bool {
        let before = self.streams.fetch_add(number, Ordering::Relaxed);
        if before + number > self.streams_max {
            self.give_streams(number);
            note(ReachedLimit::PeerStreams);
            return false;
        }
        true
    }

    /// Stops counting streams.
    pub fn give_streams(&self, number: usize) {
        self.streams.fetch_sub(number, Ordering::Relaxed);
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        let mut peers = self.peers.lock();
        if let Entry::Occupied(mut peer) = peers.entry(self.address) {
            peer.get_mut().connections -= 1;
            if peer.get().connections == 0 {
                peer.remove();
            }
        }
    }
}

/// What counts as one peer: an IPv4 address, or a network of 64 bits, which one host has whole.
fn prefix(address: IpAddr) -> IpAddr {
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
        let peers = Peers::new(&limits, 100);
        let near: IpAddr = "2001:db8::1".parse().unwrap();
        let same: IpAddr = "2001:db8::2".parse().unwrap();
        let other: IpAddr = "192.0.2.1".parse().unwrap();
        let first = peers.connect(near).unwrap();
        let second = peers.connect(same).unwrap();
        assert!(peers.connect(near).is_none());
        let third = peers.connect(other).unwrap();

        assert!(first.take_streams(32) && second.take_streams(32));
        assert!(!second.take_streams(32));
        assert!(third.take_streams(32));
        first.give_streams(32);
        assert!(second.take_streams(32));

        drop(first);
        assert!(peers.connect(near).is_some());
        drop((second, third));
        assert!(peers.peers.lock().is_empty());
    }
}
