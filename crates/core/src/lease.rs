//! Leases: exclusive rights that expire.

use serde::{Deserialize, Serialize};

use crate::{AsOf, Reply, error::Error, time::Timestamp};

/// The right of one holder: of a task to a slot of a pool, or of an owner to a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The fencing token: grows with each grant of the same pool or lock. External systems reject
    /// lower tokens.
    pub token: u64,
    /// When the lease was granted.
    pub grant: Timestamp,
    /// When the lease expires unless it is renewed.
    pub expire: Timestamp,
}

impl Lease {
    /// Reads token, grant time and expiry time.
    pub(crate) fn parse(reply: &mut Reply) -> Result<Lease, Error> {
        Ok(Lease {
            token: reply.number()?,
            grant: Timestamp(reply.number()?),
            expire: Timestamp(reply.number()?),
        })
    }

    /// Returns the lease as of `now`.
    pub(crate) fn at(self, now: Timestamp) -> AsOf<Lease> {
        AsOf { value: self, now }
    }
}
