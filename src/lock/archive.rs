//! What is kept of a lock, as a line of an archive and back.

use super::{Lease, Lock, state::Tenure};
use crate::{
    archive::{Line, LockLine, Text},
    record::{Changes, Unreadable, decode, encode},
    time::{Millis, Timestamp},
};

impl Lock {
    /// The line that an entry is.
    pub(crate) fn archive(partition: &[u8], value: &[u8]) -> Result<Line, Unreadable> {
        let Tenure { owner, lease, length, is_released } = decode(value)?;
        Ok(Line::Lock(LockLine {
            lock: Text::new(partition),
            owner: Text(owner.into()),
            token: lease.token,
            grant: lease.grant.0,
            expire: lease.expire.0,
            lease_ms: length.0,
            released: is_released,
        }))
    }
}

impl LockLine {
    /// Appends the entry that it is.
    pub(crate) fn record(&self, to: &mut Changes) {
        let lease = Lease {
            token: self.token,
            grant: Timestamp(self.grant),
            expire: Timestamp(self.expire),
        };
        let (owner, length) = (self.owner.0.clone().into(), Millis(self.lease_ms));
        let mut head = Vec::new();
        encode(&Tenure { owner, lease, length, is_released: self.released }, &mut head);
        to.of::<Lock>(&self.lock.0);
        to.head(&head);
    }
}
