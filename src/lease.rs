//! Leases: rights that end by themselves.

use serde::{Deserialize, Serialize};

use crate::{decision::Reply, error::Error, time::Timestamp};

/// The right of one holder: of a task to use an external system, of an owner to what a
/// lock guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The fencing token: grows with every grant of a pool or lock.
    pub token: u64,
    /// When it was granted.
    pub grant: Timestamp,
    /// When it ends unless renewed.
    pub expire: Timestamp,
}

impl Lease {
    /// Reads token, grant and expire.
    pub(crate) fn parse(reply: &mut Reply) -> Result<Lease, Error> {
        Ok(Lease {
            token: reply.number()?,
            grant: Timestamp(reply.number()?),
            expire: Timestamp(reply.number()?),
        })
    }
}
