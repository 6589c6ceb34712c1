//! The holders of a full pool, for the denial cache.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

/// The most holders that a FULL answer lists. `lua/lib/full.lua` has the same number.
pub(super) const HOLDERS_MAX: u32 = 128;
/// The length of a lease behind its task in the list of holders, bytes.
const LEASE_BYTES: usize = 28;

/// Digests of the tasks that hold the slots of a pool, in order. The denial cache refuses none of
/// them. Another task with the same digest only asks the store needlessly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotHolders(Arc<[u64]>);

impl SlotHolders {
    /// The holders with these members.
    pub(super) fn from_members<'m>(members: impl Iterator<Item = &'m [u8]>) -> SlotHolders {
        let mut digests: Vec<u64> = members.map(digest).collect();
        digests.sort_unstable();
        SlotHolders(digests.into())
    }

    /// Reads the list of a script; `None` if it is malformed.
    pub(super) fn parse(mut leases: &[u8]) -> Option<SlotHolders> {
        let mut members = Vec::new();
        while !leases.is_empty() {
            let mut ends = leases.iter().enumerate().filter(|(_, byte)| **byte == b'\x1f');
            let (_, (end, _)) = (ends.next()?, ends.next()?);
            members.push(&leases[..end]);
            leases = leases.get(end + 1 + LEASE_BYTES..)?;
        }
        Some(SlotHolders::from_members(members.into_iter()))
    }

    /// Whether a member may be among the holders.
    pub(super) fn may_contain(&self, member: &[u8]) -> bool {
        self.0.binary_search(&digest(member)).is_ok()
    }
}

/// The digest of a member, the same on each server.
fn digest(member: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(member);
    hasher.finish()
}
