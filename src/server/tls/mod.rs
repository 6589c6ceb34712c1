//! TLS: the certificates in use, their reload, and the handshake.

mod generation;
mod handshake;

use std::{io, sync::Arc, time::Duration};

use ahash::RandomState;
use arc_swap::ArcSwap;
use rustls::ServerConfig;

use super::reload::{Follower, Reload};
use generation::TlsContents;
pub use generation::{ClientFiles, TlsFiles};
pub(super) use handshake::TlsConnection;

/// The certificates of a server, which follow their files.
#[derive(Debug)]
pub struct Tls {
    current: Arc<Current>,
    follower: Follower,
}

/// The settings of new connections.
#[derive(Debug)]
pub(super) struct Current {
    files: TlsFiles,
    config: ArcSwap<ServerConfig>,
    max_connection_age: Option<Duration>,
}

impl Tls {
    /// Loads the files. Connections end gracefully at `max_connection_age`, with jitter of 10 %.
    ///
    /// Fails if a file or their combination is not usable; the error names the key, the file and
    /// the reason. Must be called in a tokio runtime.
    pub fn load(files: TlsFiles, max_connection_age: Option<Duration>) -> Result<Tls, String> {
        let contents = TlsContents::read(&files);
        let config = ArcSwap::from_pointee(contents.build()?);
        let follower = Follower::new(&contents);
        Ok(Tls {
            current: Arc::new(Current { files, config, max_connection_age }),
            follower: follower.map_err(|error: io::Error| format!("tls: no SIGHUP: {error}"))?,
        })
    }

    /// Returns the settings of new connections.
    pub(super) fn current(&self) -> Arc<Current> {
        self.current.clone()
    }

    /// Follows the files. Never completes.
    pub(super) async fn follow(self) {
        self.follower.follow(self.current).await;
    }
}

impl Reload for Current {
    type Contents = TlsContents;

    fn read(&self) -> TlsContents {
        TlsContents::read(&self.files)
    }

    fn replace(&self, contents: &TlsContents) {
        match contents.build() {
            Ok(config) => {
                self.config.store(Arc::new(config));
                tracing::info!("the TLS certificates were reloaded");
            }
            Err(error) => {
                tracing::error!(
                    %error,
                    "the TLS certificates were not reloaded; the previous ones stay in use"
                );
            }
        }
    }
}

impl Current {
    /// Returns the age at which a new connection ends, with jitter: connections that were opened
    /// together do not end together.
    pub(super) fn connection_age(&self) -> Option<Duration> {
        // Different for each connection.
        let random = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
        self.max_connection_age.map(|age| jittered(age, random))
    }
}

/// Returns 90 % to 110 % of an age; `random` is 0 to 1.
fn jittered(age: Duration, random: f64) -> Duration {
    age.mul_f64(0.9 + 0.2 * random)
}

#[cfg(test)]
mod tests;
