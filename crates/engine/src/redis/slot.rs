//! Hash slots of a Redis Cluster: CRC-16 of the key's hash tag, modulo 16,384.

use std::sync::LazyLock;

use crc::{CRC_16_XMODEM, Crc};

const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The number of slots.
pub(super) const SLOTS: usize = 16_384;
/// All slots have a tag below this.
const TAGS_MAX: u32 = 109_758;

/// The numbers of [`Slot::scan_tag`], by slot. They are computed once, because listings need one
/// for each step.
static SCAN_TAGS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut tags = vec![0; SLOTS];
    for tag in 0..TAGS_MAX {
        let Slot(slot) = Slot::from_key(format!("scan:{tag}").as_bytes());
        tags[usize::from(slot)] = tag;
    }
    tags
});

/// A hash slot. Without a Cluster, all keys use the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(pub(super) u16);

impl Slot {
    /// Returns the slot of a key: of the text in its first braces if that is not empty, otherwise
    /// of the whole key.
    pub(super) fn from_key(key: &[u8]) -> Slot {
        let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
            let rest = &key[open + 1..];
            let close = rest.iter().position(|byte| *byte == b'}')?;
            (close > 0).then_some(&rest[..close])
        });
        Slot(CRC.checksum(tag.unwrap_or(key)) % SLOTS as u16)
    }

    /// Returns the smallest number that is in this slot when used as a hash tag; it tries some
    /// thousands.
    pub(super) fn tag(self) -> u32 {
        // Each slot has one, as a test verifies.
        (0..TAGS_MAX)
            .find(|tag| Slot::from_key(tag.to_string().as_bytes()) == self)
            .unwrap_or_default()
    }

    /// Returns a number N for which the hash tag `scan:N` is in this slot.
    pub(super) fn scan_tag(self) -> u32 {
        SCAN_TAGS.get(usize::from(self.0)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn slots_match_redis() {
        // The answers of CLUSTER KEYSLOT.
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("tollgate:{foo}:task:{bar}", 12_182),
            ("foo{}bar", 14_292),
            ("", 0),
        ] {
            assert_eq!(Slot::from_key(key.as_bytes()), Slot(slot), "{key}");
        }
    }

    #[test]
    fn every_slot_has_a_tag() {
        let slots: HashSet<Slot> =
            (0..TAGS_MAX).map(|tag| Slot::from_key(tag.to_string().as_bytes())).collect();
        assert_eq!(slots.len(), SLOTS);
        for slot in (0..SLOTS as u16).map(Slot) {
            assert_eq!(
                Slot::from_key(format!("t:{{scan:{}}}:node", slot.scan_tag()).as_bytes()),
                slot
            );
        }
        for slot in [0, 1, 5461, 16_383].map(Slot) {
            assert_eq!(Slot::from_key(format!("probe{{{}}}", slot.tag()).as_bytes()), slot);
        }
    }
}
