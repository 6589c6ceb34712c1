//! Persistence of a lock: its last holder and lease, as the head. There are no parts.
//!
//! Waiters are not stored: they end with the process, like their calls.

use super::Lock;
use crate::record::{Recorded, Unreadable, decode, encode, unknown_part};

impl Recorded for Lock {
    const KIND: u8 = 6;

    fn head(&self, to: &mut Vec<u8>) {
        if let Some(last) = &self.last {
            encode(last, to);
        }
    }

    fn restore(&mut self, part: &[u8], value: &[u8]) -> Result<(), Unreadable> {
        if !part.is_empty() {
            return unknown_part(part);
        }
        self.last = Some(decode(value)?);
        Ok(())
    }
}
