//! Connections for waiting calls and for streams, which therefore never delay other calls.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::channels::Channels;

/// Maximum number of waiting calls of a connection. A server accepts 256 streams by default.
const WAITS_MAX: usize = 200;

/// Connections of waiting calls. A new one is opened when the others are full.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<Vec<Arc<Lane>>>);

struct Lane {
    channels: Channels,
    waits: AtomicUsize,
}

/// The place of one waiting call on a connection. Freed on drop.
pub(crate) struct LanePlace(Arc<Lane>);

impl Lanes {
    /// Takes a place on a connection to the same servers as `main`.
    pub(crate) fn take(&self, main: &Channels) -> LanePlace {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let free = lanes.iter().find(|lane| lane.waits.load(Ordering::Relaxed) < WAITS_MAX);
        let lane = free.cloned().unwrap_or_else(|| {
            let lane = Arc::new(Lane { channels: main.again(), waits: AtomicUsize::new(0) });
            lanes.push(lane.clone());
            lane
        });
        lane.waits.fetch_add(1, Ordering::Relaxed);
        // The first connection stays open; others close when their last call has ended.
        let mut index = 0;
        lanes.retain(|lane| {
            index += 1;
            index == 1 || lane.waits.load(Ordering::Relaxed) > 0
        });
        LanePlace(lane)
    }
}

impl Lanes {
    /// Closes all connections.
    pub(crate) fn close(&self) {
        let mut lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.drain(..).for_each(|lane| lane.channels.close());
    }
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lanes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = lanes.iter().map(|lane| lane.waits.load(Ordering::Relaxed));
        f.debug_list().entries(waits).finish()
    }
}

impl LanePlace {
    pub(crate) fn channels(&self) -> &Channels {
        &self.0.channels
    }
}

impl Drop for LanePlace {
    fn drop(&mut self) {
        self.0.waits.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use tonic::transport::Endpoint;

    use super::*;

    #[tokio::test]
    async fn a_full_connection_gets_no_further_call() {
        let main = Channels::lazy(&[Endpoint::from_static("http://127.0.0.1:1")]);
        let lanes = Lanes::default();
        let places: Vec<_> = (0..WAITS_MAX + 1).map(|_| lanes.take(&main)).collect();
        assert_eq!(format!("{lanes:?}"), "[200, 1]");
        drop(places);
        let _place = lanes.take(&main);
        assert_eq!(format!("{lanes:?}"), "[1]", "empty connections close");
    }
}
