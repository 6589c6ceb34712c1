//! What is known about a server. All connections to it share this.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tonic::Code;

use crate::{Error, error::TLS_MISMATCH, time::now};

/// Number of consecutive deadlines after which one of several servers gets no calls until a health
/// check succeeds.
const LATE_MAX: u32 = 2;
/// Time without calls to a server that uses the other protocol. It doubles up to the last value.
const REFUSED_FIRST: Duration = Duration::from_secs(1);
const REFUSED_LAST: Duration = Duration::from_secs(10);

/// The health of a server.
#[derive(Debug)]
pub(crate) struct Server {
    is_healthy: AtomicBool,
    /// Deadlines since the last answer.
    late: AtomicU32,
    mismatch: Mutex<Option<Mismatch>>,
}

/// The server uses TLS and the client does not, or vice versa.
#[derive(Debug)]
struct Mismatch {
    message: String,
    until: Instant,
    pause: Duration,
}

impl Server {
    pub(crate) fn new() -> Server {
        Server {
            is_healthy: AtomicBool::new(true),
            late: AtomicU32::new(0),
            mismatch: Mutex::new(None),
        }
    }

    /// Whether it is healthy and uses the protocol of the client.
    pub(crate) fn is_usable(&self) -> bool {
        self.is_healthy.load(Ordering::Relaxed) && self.refusal().is_none()
    }

    /// Records the answer of a health check, or that the server is unreachable.
    pub(crate) fn set_healthy(&self, is_healthy: bool) {
        if is_healthy {
            self.late.store(0, Ordering::Relaxed);
        }
        self.is_healthy.store(is_healthy, Ordering::Relaxed);
    }

    /// Records an answer.
    pub(crate) fn answered(&self) {
        self.late.store(0, Ordering::Relaxed);
        *self.mismatch() = None;
    }

    /// Records that no answer arrived in time. Returns whether the server hangs.
    pub(crate) fn is_hanging(&self) -> bool {
        self.late.fetch_add(1, Ordering::Relaxed) + 1 >= LATE_MAX
    }

    /// Returns the error for calls during the pause after a call with the wrong protocol.
    pub(crate) fn refusal(&self) -> Option<Error> {
        let mismatch = self.mismatch();
        let known = mismatch.as_ref().filter(|it| now() < it.until)?;
        let error = Error::new(Code::Unavailable, known.message.clone());
        Some(Error { reason: TLS_MISMATCH.to_owned(), ..error })
    }

    /// Records a call with the wrong protocol.
    pub(crate) fn refused(&self, error: &Error) {
        let mut mismatch = self.mismatch();
        let pause = match &*mismatch {
            Some(known) if now() < known.until => return,
            Some(known) => (2 * known.pause).min(REFUSED_LAST),
            None => REFUSED_FIRST,
        };
        *mismatch = Some(Mismatch { message: error.message.clone(), until: now() + pause, pause });
    }

    fn mismatch(&self) -> MutexGuard<'_, Option<Mismatch>> {
        self.mismatch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
