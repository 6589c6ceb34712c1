//! Export and import of a lock: its persisted entry as a line of an export file, and back.

use super::{LEASE_MAX, Lease, Lock, RETENTION, state::Tenure};
use crate::decision::{
    export::{Checked, Line, LockLine, Text},
    persistence::{Changes, Unreadable, decode, encode},
    time::{Millis, Timestamp},
};

impl Lock {
    /// The line of a persisted entry.
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
    /// Appends the entry of this line to a write batch.
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

impl LockLine {
    /// When the entry expires, µs. Never before its token has passed as an instant, so that later
    /// tokens are higher.
    pub(crate) fn forget(&self) -> u64 {
        (self.expire + RETENTION.micros()).max(self.token + 1)
    }

    pub(crate) fn check(&self, checked: &mut Checked) {
        checked.name("lock", &self.lock);
        checked.name("owner", &self.owner);
        checked.times([("token", self.token), ("grant", self.grant), ("expire", self.expire)]);
        checked.at_most("lease_ms", self.lease_ms, LEASE_MAX.0);
    }
}
