//! Bounds the connections of the admin listener. The oldest one makes room for the newest, so that
//! probes are answered even if other clients open connections and send nothing.

use std::{
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use tollgate_http::network;

/// Maximum number of connections, not counting streams.
const CONNECTIONS_MAX: usize = 256;
/// Maximum number of connections from one IPv4 address or IPv6 /64, not counting streams.
const PEER_CONNECTIONS_MAX: usize = 128;

/// The open connections, the oldest first.
#[derive(Debug, Default)]
pub(super) struct AdminPlaces {
    open: Mutex<Vec<Open>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Open {
    id: u64,
    peer: IpAddr,
    /// Whether the request has been received completely.
    is_received: Arc<AtomicBool>,
    /// Dropped to end the connection.
    _end: oneshot::Sender<()>,
}

/// The place of a connection, until it is dropped.
#[derive(Debug)]
pub(super) struct AdminPlace {
    places: Arc<AdminPlaces>,
    id: u64,
    is_received: Arc<AtomicBool>,
}

impl AdminPlaces {
    /// Returns a place for a new connection, and a receiver that fails when the connection must
    /// end. Above a limit, it ends the oldest connection whose request is incomplete, or else the
    /// oldest one.
    pub(super) fn enter(self: &Arc<Self>, peer: IpAddr) -> (AdminPlace, oneshot::Receiver<()>) {
        let (peer, mut open) = (network(peer), self.open.lock());
        if open.iter().filter(|it| it.peer == peer).count() >= PEER_CONNECTIONS_MAX {
            end_oldest(&mut open, |it| it.peer == peer);
        } else if open.len() >= CONNECTIONS_MAX {
            end_oldest(&mut open, |_| true);
        }
        let (end, ended) = oneshot::channel();
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let is_received = Arc::<AtomicBool>::default();
        open.push(Open { id, peer, is_received: is_received.clone(), _end: end });
        (AdminPlace { places: self.clone(), id, is_received }, ended)
    }
}

/// Ends one of the connections that `is_eligible` selects.
fn end_oldest(open: &mut Vec<Open>, is_eligible: impl Fn(&Open) -> bool) {
    let eligible = open.iter().enumerate().filter(|(_, it)| is_eligible(it));
    let oldest = eligible.min_by_key(|(_, it)| (it.is_received.load(Ordering::Relaxed), it.id));
    if let Some(index) = oldest.map(|(index, _)| index) {
        open.remove(index);
    }
}

impl AdminPlace {
    /// Whether the request has been received completely, which the connection sets.
    pub(super) fn is_received(&self) -> Arc<AtomicBool> {
        self.is_received.clone()
    }
}

impl Drop for AdminPlace {
    fn drop(&mut self) {
        self.places.open.lock().retain(|it| it.id != self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::sync::oneshot::error::TryRecvError;

    use super::*;

    fn address(number: u8) -> IpAddr {
        Ipv4Addr::new(192, 0, 2, number).into()
    }

    #[test]
    fn j13_the_oldest_incomplete_connection_makes_room() {
        let places = Arc::<AdminPlaces>::default();
        let mut all = Vec::new();
        for number in 0..CONNECTIONS_MAX {
            all.push(places.enter(address((number / PEER_CONNECTIONS_MAX) as u8)));
        }
        let is_open = |(_, end): &mut (AdminPlace, oneshot::Receiver<()>)| {
            end.try_recv() == Err(TryRecvError::Empty)
        };
        assert!(all.iter_mut().all(is_open));
        let receive = |(place, _): &(AdminPlace, _)| {
            place.is_received().store(true, Ordering::Relaxed);
        };
        receive(&all[0]);
        // The limit for a peer ends one of its own connections.
        let _second = places.enter(address(1));
        assert!(!is_open(&mut all[PEER_CONNECTIONS_MAX]));
        // The limit of the server ends any; the first connection is spared, because its request is
        // complete.
        let _other = places.enter(address(9));
        assert!(is_open(&mut all[0]) && !is_open(&mut all[1]) && is_open(&mut all[2]));
        all[1..].iter().for_each(receive);
        let _last = places.enter(address(10));
        let _last = places.enter(address(11));
        assert_eq!(places.open.lock().len(), CONNECTIONS_MAX);
        drop(all);
        assert!(places.open.lock().len() <= 4);
    }
}
