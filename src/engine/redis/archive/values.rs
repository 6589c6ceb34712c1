//! Reads stored values.

use redis::{FromRedisValue, Value};

/// The value of a key, with the part of the key after the hash tag.
pub(super) struct Stored {
    pub(super) part: Vec<u8>,
    pub(super) value: Value,
}

impl Stored {
    /// The string; `None` if the key has expired since the SCAN.
    pub(super) fn text(&self) -> Option<Vec<u8>> {
        Option::<Vec<u8>>::from_redis_value(self.value.clone()).ok().flatten()
    }

    /// The pairs of a hash, or members and scores of a zset.
    pub(super) fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let flat = Vec::<Vec<u8>>::from_redis_value(self.value.clone()).unwrap_or_default();
        let (pairs, _) = flat.as_chunks::<2>();
        pairs.iter().map(|[one, other]| (one.clone(), other.clone())).collect()
    }
}

/// Reads packed binary values, little-endian.
pub(super) struct Packed<'a>(pub(super) &'a [u8]);

impl<'a> Packed<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(bytes)
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.bytes(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    /// Reads up to a 0 byte.
    pub(super) fn terminated(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0)?;
        let bytes = self.bytes(end)?;
        self.bytes(1)?;
        Some(bytes)
    }
}

/// Parses a whole number in decimal digits.
pub(super) fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The same; `Some(None)` if the text is empty.
pub(super) fn optional(text: &[u8]) -> Option<Option<u64>> {
    if text.is_empty() { Some(None) } else { number(text).map(Some) }
}
