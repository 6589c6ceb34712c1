//! TLS: the certificates in use, their reload, and the handshake.

mod generation;
mod handshake;

use std::{sync::Arc, time::Duration};

use ahash::RandomState;
use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::{
    io,
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
    time::sleep,
};

use generation::TlsContents;
pub use generation::{ClientFiles, TlsFiles};
pub(super) use handshake::TlsConnection;

/// Time between two checks for changed files.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// The certificates of a server, which follow their files.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: Arc<Current>,
    /// SIGHUP: the files are read again.
    hangup: Signal,
    fingerprints: RandomState,
    /// The fingerprint of the files that were read last, valid or not.
    tried: u64,
}

/// The settings of new connections.
#[derive(Debug)]
pub(super) struct Current {
    config: ArcSwap<ServerConfig>,
    max_connection_age: Option<Duration>,
}

impl Tls {
    /// Loads the files. Connections end gracefully at `max_connection_age`, with jitter of 10 %.
    ///
    /// Fails if a file or their combination is not usable; the error names the key, the file and
    /// the reason. Must be called in a tokio runtime.
    pub fn load(files: TlsFiles, max_connection_age: Option<Duration>) -> Result<Tls, String> {
        let fingerprints = RandomState::new();
        let contents = TlsContents::read(&files);
        let config = ArcSwap::from_pointee(contents.build()?);
        let hangup = signal(SignalKind::hangup());
        Ok(Tls {
            files,
            current: Arc::new(Current { config, max_connection_age }),
            hangup: hangup.map_err(|error: io::Error| format!("tls: no SIGHUP: {error}"))?,
            tried: contents.fingerprint(&fingerprints),
            fingerprints,
        })
    }

    /// Returns the settings of new connections.
    pub(super) fn current(&self) -> Arc<Current> {
        self.current.clone()
    }

    /// Reloads changed files every 5 s, and all files on SIGHUP. Files that are not usable change
    /// nothing. Never completes.
    pub(super) async fn follow(mut self) {
        loop {
            let is_asked = tokio::select! {
                hangup = self.hangup.recv() => hangup.is_some(),
                () = sleep(CHECK_EVERY) => false,
            };
            // On a blocking thread: the files may be on a slow or remote disk.
            let files = self.files.clone();
            let Ok(contents) = spawn_blocking(move || TlsContents::read(&files)).await else {
                continue;
            };
            let fingerprint = contents.fingerprint(&self.fingerprints);
            if is_asked || fingerprint != self.tried {
                self.tried = fingerprint;
                self.reload(&contents);
            }
        }
    }

    fn reload(&self, contents: &TlsContents) {
        match contents.build() {
            Ok(config) => {
                self.current.config.store(Arc::new(config));
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
