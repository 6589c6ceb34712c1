//! Undoing a decision that too few replicas acknowledged.
//!
//! Redis replicates asynchronously: a failover can lose a write that was already answered. Where the
//! configuration asks for it, the engine sends WAIT after the write. This module decides what
//! happens if WAIT fails.

use std::fmt;

use super::{Arguments, Call, Decision, Reply};
use crate::{acknowledgement::Acknowledgement, error::Error, script::Script};

/// A decision whose outcome may need the acknowledgement of replicas.
pub trait Revocable: Decision {
    /// Returns the number of replicas that must acknowledge the write before the call is answered,
    /// and for how long the call waits for them. Both are settings of the pool or sequence.
    fn acknowledgement(&self) -> Acknowledgement;
    /// Returns the function that decides how to undo an outcome that replicas did not acknowledge.
    /// The engine asks only if an acknowledgement is needed. Keys of the undoing script start with
    /// `prefix`.
    fn undo_rule(&self, prefix: &str) -> UndoRule;
}

/// How to treat an outcome if too few replicas acknowledge it in time.
#[derive(Debug)]
pub enum Undo {
    /// It counts without acknowledgement, as refusals do. The engine does not send WAIT.
    Counts,
    /// The write had no effect on any caller. The call fails with [`Error::Unacknowledged`] and
    /// `is_void`.
    Void,
    /// The engine revokes it with this script. The call fails with [`Error::Unacknowledged`];
    /// `is_void` says whether the revocation succeeded.
    Revoke(Revocation),
    /// It stands, but a failover may lose it. The call fails with [`Error::Unacknowledged`] and
    /// without `is_void`.
    Stands,
}

/// A script call that revokes a decision.
#[derive(Debug)]
pub struct Revocation {
    /// The revoking script.
    pub script: &'static Script,
    /// Its KEYS and ARGV.
    pub arguments: Arguments,
    /// Reads from the reply whether the decision was revoked. If not, another call has already been
    /// answered with the same lease.
    pub is_done: fn(&mut Reply) -> Result<bool, Error>,
}

impl Revocation {
    /// Revokes with this decision; its keys start with `prefix`.
    pub fn by<D: Decision<Outcome = bool>>(decision: &D, prefix: &str) -> Revocation {
        let arguments = Call::encode(decision, prefix).finish();
        Revocation { script: D::SCRIPT, arguments, is_done: D::parse }
    }
}

/// Classifies a reply. It owns all it needs, because the call may have ended before the reply.
pub struct UndoRule(Box<dyn Fn(Reply) -> Undo + Send + Sync>);

impl UndoRule {
    /// Classifies by the parsed outcome. An unreadable reply counts: the caller gets the error.
    pub fn from_outcome<D: Decision>(
        undo: impl Fn(&D::Outcome) -> Undo + Send + Sync + 'static,
    ) -> UndoRule {
        UndoRule(Box::new(move |mut reply| match D::parse(&mut reply) {
            Ok(outcome) => undo(&outcome),
            Err(_) => Undo::Counts,
        }))
    }

    /// Classifies a reply.
    pub fn undo(&self, reply: Reply) -> Undo {
        (self.0)(reply)
    }
}

impl fmt::Debug for UndoRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UndoRule")
    }
}
