//! The configuration that is in use, and the result of the last load.
//!
//! The start and each reload call [`loaded`] or [`failed`]. The status and the scrape read
//! [`current`]. There is one configuration per process.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::clock::unix_micros;

/// The configuration of the process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Configuration {
    /// The hash of the contents in use; empty without a configuration file.
    pub hash: String,
    /// When the contents in use were loaded; `None` before the first load.
    pub loaded: Option<u64>,
    /// The failure of the last load; `None` if it succeeded.
    pub failure: Option<LoadFailure>,
}

/// A load that failed: the contents before it stay in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadFailure {
    /// The file, the line and the key, without secrets.
    pub error: String,
    /// When it failed.
    pub time: u64,
}

static CURRENT: Mutex<Configuration> =
    Mutex::new(Configuration { hash: String::new(), loaded: None, failure: None });

/// Records that contents with this hash are in use from now on.
pub fn loaded(hash: &str) {
    let loaded = Some(unix_micros());
    *CURRENT.lock() = Configuration { hash: hash.to_owned(), loaded, failure: None };
}

/// Records that a load has failed and changed nothing. The error must not contain secrets.
pub fn failed(error: &str) {
    let time = unix_micros();
    CURRENT.lock().failure = Some(LoadFailure { error: error.to_owned(), time });
}

/// Returns the configuration in use, and the result of the last load.
pub fn current() -> Configuration {
    CURRENT.lock().clone()
}

/// When the certificate of the server expires, in seconds since the Unix epoch; 0 without one.
static CERTIFICATE_EXPIRY: AtomicU64 = AtomicU64::new(0);

/// Records the expiry of the certificate in use, in seconds since the Unix epoch.
pub fn record_certificate(expiry: u64) {
    CERTIFICATE_EXPIRY.store(expiry, Ordering::Relaxed);
}

/// Returns the expiry of the certificate in use; `None` without TLS.
pub fn certificate_expiry() -> Option<u64> {
    Some(CERTIFICATE_EXPIRY.load(Ordering::Relaxed)).filter(|expiry| *expiry > 0)
}
