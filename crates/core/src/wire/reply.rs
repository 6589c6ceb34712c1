//! The reply of a script.

use crate::{
    error::Error,
    names::{NAME_BYTES_MAX, SEPARATOR, check_text},
    time::Timestamp,
};

/// The longest stored value: a payload or a result of 64 KiB, and the rest of its record.
const VALUE_BYTES_MAX: usize = 65 * 1024;
/// The longest stored text: two names and the separators between them.
const TEXT_BYTES_MAX: usize = 2 * NAME_BYTES_MAX + 64;
/// The number of bytes of an unreadable text that an error repeats.
const REPEATED_MAX: usize = 64;

/// One element of the flat reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// A Lua number.
    Number(i64),
    /// A Lua string.
    Bytes(Vec<u8>),
}

/// The flat reply to one item, read from front to back.
#[derive(Debug, Clone)]
pub struct Reply {
    items: std::vec::IntoIter<Item>,
    now: Timestamp,
}

impl Reply {
    /// Creates a reply of these elements, decided at `now`.
    pub fn new(items: Vec<Item>, now: Timestamp) -> Reply {
        Reply { items: items.into_iter(), now }
    }

    /// Returns the time of the decision, on the clock of Redis.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the next element, a number.
    pub fn number(&mut self) -> Result<u64, Error> {
        match self.items.next() {
            Some(Item::Number(number)) => u64::try_from(number).map_err(|_| {
                Error::Corrupt(format!("a script replied with the negative number {number}"))
            }),
            other => {
                Err(Error::Corrupt(format!("expected a number in a script's reply, got {other:?}")))
            }
        }
    }

    /// Reads the status of a script that has only [`OK`]. Fails with [`Error::Corrupt`] on any other.
    pub fn ok(&mut self) -> Result<(), Error> {
        match self.number()? {
            OK => Ok(()),
            status => unknown_status(status),
        }
    }

    /// Returns the next element, names or other short texts with separators between them. Fails
    /// with [`Error::Corrupt`] for a text that no caller can have stored.
    pub fn text(&mut self) -> Result<Vec<u8>, Error> {
        let bytes = self.bytes()?;
        let is_text = bytes.len() <= TEXT_BYTES_MAX
            && bytes.split(|byte| *byte == SEPARATOR).all(|part| check_text(part).is_ok());
        if is_text {
            return Ok(bytes);
        }
        let start = String::from_utf8_lossy(bytes.get(..REPEATED_MAX).unwrap_or(&bytes));
        Err(Error::Corrupt(format!(
            "a stored name of {} bytes is not a name: `{}`",
            bytes.len(),
            start.escape_debug()
        )))
    }

    /// Returns the next element, a string. Fails with [`Error::Corrupt`] for one that is longer
    /// than any stored value.
    pub fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        let bytes = self.any_bytes()?;
        if bytes.len() > VALUE_BYTES_MAX {
            return Err(Error::Corrupt(format!(
                "a stored value of {} bytes, at most {VALUE_BYTES_MAX} are expected",
                bytes.len()
            )));
        }
        Ok(bytes)
    }

    /// Returns the next element, a string of any length: entries that the caller skips unless they
    /// are names, or joined entries.
    pub fn any_bytes(&mut self) -> Result<Vec<u8>, Error> {
        match self.items.next() {
            Some(Item::Bytes(bytes)) => Ok(bytes),
            other => {
                Err(Error::Corrupt(format!("expected a string in a script's reply, got {other:?}")))
            }
        }
    }

    /// Whether a plain script declined the decision: nothing was written.
    pub fn is_declined(&self) -> bool {
        matches!(self.items.as_slice(), [Item::Number(status), ..] if *status == PLAIN_DECLINED)
    }

    /// Returns the reply of a plain script that declines a decision.
    pub fn declined(now: Timestamp) -> Reply {
        Reply::new(vec![Item::Number(PLAIN_DECLINED)], now)
    }

    /// Whether elements are left.
    pub fn has_more(&self) -> bool {
        self.items.len() > 0
    }
}

/// The status of a decision that a plain script declines; of the same name in `lua/lib/plain.lua`.
const PLAIN_DECLINED: i64 = 255;

/// The status of a reply that has only one; `OK` of `lua/lib/prelude.lua`.
pub const OK: u64 = 0;

/// Names the status numbers of a script's replies. `tests/tidy.rs` compares them with the constants
/// of the same names in `lua/`.
#[macro_export]
macro_rules! statuses {
    ($($name:ident = $number:literal),+ $(,)?) => { $(const $name: u64 = $number;)+ };
}

/// Returns the error for a reply that no script gives.
pub fn unknown_status<T>(status: u64) -> Result<T, Error> {
    Err(Error::Corrupt(format!("a script replied with unknown status {status}")))
}
