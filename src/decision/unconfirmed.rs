//! What becomes of a decision when too few replicas have what it wrote.

use std::fmt;

use super::{Arguments, Call, Decision, Reply};
use crate::{error::Error, script::Script};

/// What becomes of an outcome then.
#[derive(Debug)]
pub enum Unconfirmed {
    /// It counts all the same, as a refusal does; nobody is waited for.
    Counts,
    /// What was written gave nobody anything; the call has failed.
    Void,
    /// It is withdrawn.
    Withdraw(Withdrawal),
    /// It stands, but may be lost.
    Stands,
}

/// Withdraws a decision.
#[derive(Debug)]
pub struct Withdrawal {
    /// The script that does.
    pub script: &'static Script,
    /// Its KEYS and ARGV.
    pub arguments: Arguments,
    /// Whether it did, by its reply; if not, somebody has been told of what was decided.
    pub is_done: fn(&mut Reply) -> Result<bool, Error>,
}

impl Withdrawal {
    /// By this decision; its keys start with `prefix`.
    pub fn by<D: Decision<Outcome = bool>>(decision: &D, prefix: &str) -> Withdrawal {
        let arguments = Call::of(decision, prefix).finish();
        Withdrawal { script: D::SCRIPT, arguments, is_done: D::parse }
    }
}

/// Tells it of a decision's reply, whether its call still waits or not.
pub struct Judge(Box<dyn Fn(Reply) -> Unconfirmed + Send + Sync>);

impl Judge {
    /// Of a decision's outcome; a reply that cannot be read counts, as an error.
    pub fn of<D: Decision>(
        judge: impl Fn(&D::Outcome) -> Unconfirmed + Send + Sync + 'static,
    ) -> Judge {
        Judge(Box::new(move |mut reply| match D::parse(&mut reply) {
            Ok(outcome) => judge(&outcome),
            Err(_) => Unconfirmed::Counts,
        }))
    }

    /// What becomes of this reply.
    pub fn judge(&self, reply: Reply) -> Unconfirmed {
        (self.0)(reply)
    }
}

impl fmt::Debug for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Judge")
    }
}
