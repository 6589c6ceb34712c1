//! The tries of a waiting call, and what becomes of it after a failed one.

use std::time::Instant;

use crate::Engine;
use tollgate_core::{
    error::Error,
    time::{Millis, monotonic},
};

/// The results of a call's earlier tries.
pub(super) struct Tries<O> {
    /// The last refusal.
    pub(super) refusal: Option<O>,
    /// Whether an earlier try may have been granted: its reply was lost.
    pub(super) is_unsure: bool,
    /// At shutdown: the end of the tries to leave the queue.
    pub(super) leaves_by: Option<Instant>,
}

impl<O> Default for Tries<O> {
    fn default() -> Tries<O> {
        Tries { refusal: None, is_unsure: false, leaves_by: None }
    }
}

impl<O> Tries<O> {
    /// Returns the result of the call after a failed try. `None` if it tries again.
    pub(super) fn failed(
        &mut self,
        error: Error,
        wait: Millis,
        deadline: Instant,
        engine: &Engine,
    ) -> Option<Result<O, Error>> {
        let Some(refusal) = self.refusal.take() else { return Some(Err(error)) };
        let has_time = |by: Instant| monotonic() < by.min(deadline);
        let keeps_leaving = error == Error::Overloaded && self.leaves_by.is_some_and(has_time);
        // Whether none of the tries was granted.
        let is_certain = !self.is_unsure
            && matches!(error, Error::Overloaded | Error::Unavailable(_) | Error::Refused(_));
        let ended = match error {
            // At shutdown: tries to have its ticket kept, until `LEAVE_MAX` is over.
            _ if keeps_leaving => None,
            // Its ticket may be lost.
            _ if is_certain && self.leaves_by.is_some() => Some(Err(Error::Ending)),
            // The last try was certainly not executed: the refusal before it is the answer.
            _ if is_certain && wait.0 == 0 && engine.check().is_ok() => return Some(Ok(refusal)),
            Error::Corrupt(_) => Some(Err(error)),
            // The store still answers: the call keeps waiting.
            _ if wait.0 > 0 && engine.check().is_ok() => {
                self.is_unsure |= error.is_unsure();
                None
            }
            // An earlier try may have been granted, so no refusal is safe.
            _ if self.is_unsure => Some(Err(Error::DeadlineExceeded)),
            _ => Some(Err(error)),
        };
        if ended.is_none() {
            self.refusal = Some(refusal);
        }
        ended
    }
}
