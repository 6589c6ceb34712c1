//! The reply of a script.

use crate::decision::{error::Error, time::Timestamp};

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
    /// A reply of these elements, decided at `now`.
    pub fn new(items: Vec<Item>, now: Timestamp) -> Reply {
        Reply { items: items.into_iter(), now }
    }

    /// The time of the decision, on the clock of Redis.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The next element, a number.
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

    /// The next element, a string.
    pub fn bytes(&mut self) -> Result<Vec<u8>, Error> {
        match self.items.next() {
            Some(Item::Bytes(bytes)) => Ok(bytes),
            other => {
                Err(Error::Corrupt(format!("expected a string in a script's reply, got {other:?}")))
            }
        }
    }

    /// Whether elements are left.
    pub fn has_more(&self) -> bool {
        self.items.len() > 0
    }
}

/// The status of a reply that has only one; `OK` of `lua/lib/prelude.lua`.
pub(crate) const OK: u64 = 0;

/// Names the status numbers of a script's replies. `tests/tidy.rs` compares them with the constants
/// of the same names in `lua/`.
macro_rules! statuses {
    ($($name:ident = $number:literal),+ $(,)?) => { $(const $name: u64 = $number;)+ };
}
pub(crate) use statuses;

/// A reply that no script gives.
pub(crate) fn unknown_status<T>(status: u64) -> Result<T, Error> {
    Err(Error::Corrupt(format!("a script replied with unknown status {status}")))
}
