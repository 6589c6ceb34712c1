//! Hash slots of a Redis Cluster: CRC-16 of the key's hash tag, modulo 16,384.

use crc::{CRC_16_XMODEM, Crc};

const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The number of slots.
pub(super) const SLOTS: usize = 16_384;

/// A hash slot. Without a Cluster all keys use the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Slot(pub(super) u16);

impl Slot {
    /// The slot of a key: of the text in its first braces if that is not empty, else of the whole
    /// key.
    pub(super) fn of(key: &[u8]) -> Slot {
        let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
            let rest = &key[open + 1..];
            let close = rest.iter().position(|byte| *byte == b'}')?;
            (close > 0).then_some(&rest[..close])
        });
        Slot(CRC.checksum(tag.unwrap_or(key)) % SLOTS as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // The answers of CLUSTER KEYSLOT.
        for (key, slot) in [
            ("123456789", 12_739),
            ("foo", 12_182),
            ("{foo}bar", 12_182),
            ("tollgate:{foo}:task:{bar}", 12_182),
            ("foo{}bar", 14_292),
            ("", 0),
        ] {
            assert_eq!(Slot::of(key.as_bytes()), Slot(slot), "{key}");
        }
    }
}
