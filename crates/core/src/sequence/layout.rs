//! Layouts: the format of serials.
//!
//! A serial is text for people and files; its value is a number that rises. Serials of one layout
//! sort like their values only in some patterns: the units go from coarse to fine, and the number
//! is padded.

use std::fmt::Write;

use super::{calendar::Unit, dating::Dating};

/// The format of a serial: text, calendar units and the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The pieces, in order.
    pub(super) pieces: Vec<Piece>,
    /// The calendar; `None` for a layout without one.
    pub(super) dating: Option<Dating>,
}

/// A piece of a serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Literal text.
    Text(String),
    /// A unit of the calendar. A year has two or four digits.
    Unit(Unit),
    /// The number, zero-padded to this many digits.
    Number(usize),
}

impl Layout {
    /// Returns the calendar, which determines how values are numbered; `None` without a calendar.
    pub fn dating(&self) -> Option<&Dating> {
        self.dating.as_ref()
    }

    /// Formats a value as a serial.
    pub fn serial(&self, value: u64) -> String {
        let dating = self.dating.as_ref();
        let (numbers, number) = dating.map_or(([0; 7], value), |dating| dating.split(value));
        let mut serial = String::with_capacity(32);
        for piece in &self.pieces {
            // Writing to a String cannot fail.
            let _ = match piece {
                Piece::Text(text) => serial.write_str(text),
                Piece::Unit(Unit::Year) if dating.is_some_and(|dating| dating.long_year) => {
                    write!(serial, "{}", 2000 + numbers[0])
                }
                Piece::Unit(unit) => {
                    let width = unit.digits() as usize;
                    write!(serial, "{:0width$}", numbers[*unit as usize])
                }
                Piece::Number(width) => write!(serial, "{number:0width$}"),
            };
        }
        serial
    }
}
