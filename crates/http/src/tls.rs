//! TLS: the certificates in use, and the handshake.

mod generation;
mod handshake;

use std::{sync::Arc, time::Duration};

use ahash::RandomState;
use arc_swap::ArcSwap;

use generation::jittered;
pub use generation::{ClientFiles, TlsContents, TlsFiles, TlsGeneration};
pub(crate) use handshake::TlsConnection;

/// The certificates of a server. Clones share them; a reload replaces them.
#[derive(Debug, Clone)]
pub struct Tls(Arc<ArcSwap<TlsGeneration>>);

impl Tls {
    /// Creates the holder of a generation. Logs a warning if other users can read its key.
    pub fn new(generation: TlsGeneration) -> Tls {
        generation.record_use();
        Tls(Arc::new(ArcSwap::from_pointee(generation)))
    }

    /// Replaces the generation. New connections use it; open connections continue.
    pub fn replace(&self, generation: TlsGeneration) {
        generation.record_use();
        self.0.store(Arc::new(generation));
    }

    /// Returns the age at which a new connection ends, with jitter: connections that were opened
    /// together do not end together.
    pub(crate) fn connection_age(&self) -> Option<Duration> {
        // Different for each connection.
        let random = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
        self.0.load().max_connection_age.map(|age| jittered(age, random))
    }
}

#[cfg(test)]
mod tests;
