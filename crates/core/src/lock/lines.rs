//! The export line of a lock.

use serde::{Deserialize, Serialize};

use super::{LEASE_MAX, Lease, Lock, RETENTION, state::Tenure};
use crate::{
    record::{Changes, Checked, EntryLine, Text, Unreadable, decode, encode},
    time::Millis,
};

/// The last holder of a lock. `expire` is the time of the release if the lock was released.
///
/// The fields of [`Tenure`], with those of its lease on the same level.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockLine {
    /// The name of the lock.
    lock: Text,
    /// The owner of the lease.
    owner: Text,
    /// The fields `token`, `grant` and `expire`; times in µs.
    #[serde(flatten)]
    lease: Lease,
    /// Length of the lease in ms, for renewals that do not specify one.
    lease_ms: Millis,
    /// Whether the owner released the lock.
    #[serde(default)]
    released: bool,
}

impl LockLine {
    /// Returns the line of a stored entry.
    pub fn from_entry(partition: &[u8], value: &[u8]) -> Result<LockLine, Unreadable> {
        let Tenure { owner, lease, length: lease_ms, is_released: released } = decode(value)?;
        let (lock, owner) = (Text::new(partition), Text(owner.into()));
        Ok(LockLine { lock, owner, lease, lease_ms, released })
    }
}

impl EntryLine for LockLine {
    /// Checks the bounds of the contract. The scripts check them too when they read the record.
    fn check(&self, checked: &mut Checked) {
        checked.name("lock", &self.lock);
        checked.name("owner", &self.owner);
        checked.token("token", self.lease.token);
        checked.times([("grant", self.lease.grant), ("expire", self.lease.expire)]);
        checked.at_most("lease_ms", self.lease_ms.0, LEASE_MAX.0);
    }

    /// Returns when the entry can be forgotten: not before its token lies in the past, so that
    /// later tokens are higher.
    fn forget(&self) -> Option<u64> {
        Some(self.lease.expire.after(RETENTION).0.max(self.lease.token + 1))
    }

    fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        let (owner, lease) = (self.owner.0.clone().into(), self.lease);
        let (length, is_released) = (self.lease_ms, self.released);
        let mut head = Vec::new();
        encode(&Tenure { owner, lease, length, is_released }, &mut head);
        to.set_partition::<Lock>(&self.lock.0);
        to.head(&head);
        Ok(())
    }
}
