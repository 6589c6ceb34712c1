//! The holders of a full pool, for the denial cache.

use std::{
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

/// Maximum number of holders in a FULL answer. `lua/lib/full.lua` has the same number.
pub(super) const HOLDERS_MAX: u32 = 128;
/// The length of a lease after its task in the list of holders, bytes.
const LEASE_BYTES: usize = 28;
/// Separates device and task, and follows the task.
const SEPARATOR: u8 = b'\x1f';

/// Digests of the tasks that hold the slots of a pool, in order. The denial cache refuses none of
/// them. If the digest of another task collides with one of these, that task merely asks the store
/// needlessly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotHolders(Arc<[u64]>);

impl SlotHolders {
    /// Returns the holders with these members.
    pub(super) fn from_members<'m>(members: impl Iterator<Item = &'m [u8]>) -> SlotHolders {
        let digest = |member: &'m [u8]| {
            let end = member.iter().position(|byte| *byte == SEPARATOR).unwrap_or(member.len());
            let (device, task) = member.split_at(end);
            digest(device, task.get(1..).unwrap_or_default())
        };
        let mut digests: Vec<u64> = members.map(digest).collect();
        digests.sort_unstable();
        SlotHolders(digests.into())
    }

    /// Reads the list of a script; `None` if it is malformed.
    pub(super) fn parse(mut leases: &[u8]) -> Option<SlotHolders> {
        let mut members = Vec::new();
        while !leases.is_empty() {
            let mut ends = leases.iter().enumerate().filter(|(_, byte)| **byte == SEPARATOR);
            let (_, (end, _)) = (ends.next()?, ends.next()?);
            members.push(&leases[..end]);
            leases = leases.get(end + 1 + LEASE_BYTES..)?;
        }
        Some(SlotHolders::from_members(members.into_iter()))
    }

    /// Whether a task may be among the holders.
    pub(super) fn may_contain(&self, device: &[u8], task: &[u8]) -> bool {
        self.0.binary_search(&digest(device, task)).is_ok()
    }
}

/// Returns the digest of a task.
fn digest(device: &[u8], task: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(device);
    hasher.write_u8(SEPARATOR);
    hasher.write(task);
    hasher.finish()
}
