//! The attempts of a waiting call, and what happens to the call after a failed one.

use std::time::Instant;

use crate::Engine;
use tollgate_core::{
    error::Error,
    time::{Millis, monotonic},
};

/// The results of a call's earlier attempts.
pub(super) struct Tries<O> {
    /// The last refusal.
    pub(super) refusal: Option<O>,
    /// Whether an earlier attempt may have been granted, because its reply was lost.
    pub(super) is_unsure: bool,
    /// The end of the attempts to leave the queue at shutdown.
    pub(super) leaves_by: Option<Instant>,
}

impl<O> Default for Tries<O> {
    fn default() -> Tries<O> {
        Tries { refusal: None, is_unsure: false, leaves_by: None }
    }
}

impl<O> Tries<O> {
    /// Returns the result of the call after a failed attempt; `None` if it tries again.
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
        // Whether it is certain that none of the attempts was granted.
        let is_certain = !self.is_unsure
            && matches!(error, Error::Overloaded | Error::Unavailable(_) | Error::Refused(_));
        let ended = match error {
            // At shutdown, it tries to have its ticket kept until `LEAVE_MAX` is over.
            _ if keeps_leaving => None,
            // Its ticket may be lost.
            _ if is_certain && self.leaves_by.is_some() => Some(Err(Error::Ending)),
            // The last attempt was certainly not executed, so the refusal before it is the answer.
            _ if is_certain && wait.0 == 0 && engine.check().is_ok() => return Some(Ok(refusal)),
            Error::Corrupt(_) => Some(Err(error)),
            // The store still answers, so the call keeps waiting.
            _ if wait.0 > 0 && engine.check().is_ok() => {
                self.is_unsure |= error.is_unsure();
                None
            }
            // An earlier attempt may have been granted, so no refusal is safe.
            _ if self.is_unsure => Some(Err(Error::DeadlineExceeded)),
            _ => Some(Err(error)),
        };
        if ended.is_none() {
            self.refusal = Some(refusal);
        }
        ended
    }
}
