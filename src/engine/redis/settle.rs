//! What an answer of the store means to the call: its outcome, unless replicas had to
//! have it and do not.

use std::time::{Duration, Instant};

use tokio::time::timeout_at;

use super::{
    Redis, UPKEEP,
    job::{Answer, Sending},
};
use crate::{
    decision::{Decision, Unconfirmed, Undo},
    error::Error,
    time::monotonic,
};

/// How long it is tried to take a decision back, also when its call has ended.
const UNDO_MAX: Duration = Duration::from_secs(5);
/// How that is sent: a second time does no harm, and it belongs to a call that counts.
const UNDO: Sending = Sending { is_upkeep: false, ..UPKEEP };

impl Redis {
    /// The outcome, if it says what became of the call.
    pub(super) async fn settle<D: Decision>(
        &self,
        decision: &D,
        answer: Answer,
        deadline: Instant,
    ) -> Result<D::Outcome, Error> {
        let Answer { mut reply, repeated, unconfirmed } = answer;
        let outcome = D::parse(&mut reply)?;
        if let Some(why) = unconfirmed {
            let is_void = match decision.unconfirmed(&outcome, &self.key_prefix) {
                Unconfirmed::Counts => None,
                Unconfirmed::Void => Some(true),
                Unconfirmed::Stands => Some(false),
                Unconfirmed::TakeBack(undo) => Some(self.take_back(undo, deadline).await),
            };
            if let Some(is_void) = is_void {
                return Err(Error::Unconfirmed { why, is_void });
            }
        }
        match repeated && !decision.settles(&outcome) {
            true => Err(Error::DeadlineExceeded),
            false => Ok(outcome),
        }
    }

    /// Takes a decision back; whether that is certain by the deadline, and no other call
    /// was told of it.
    async fn take_back(&self, undo: Undo, deadline: Instant) -> bool {
        let until = monotonic() + UNDO_MAX;
        let pending = self.send(undo.script, undo.arguments, UNDO, until);
        // A task of its own: the call may end, or its client go away.
        let taken = tokio::spawn(async move {
            let Answer { mut reply, .. } = pending.wait().await?;
            (undo.is_done)(&mut reply)
        });
        matches!(timeout_at(deadline.into(), taken).await, Ok(Ok(Ok(true))))
    }
}
