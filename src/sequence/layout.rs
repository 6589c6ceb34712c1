//! How a value is written as a serial.

use std::fmt::Write;

use super::{calendar::Unit, dating::Dating};

/// A serial's form: text, a calendar, and the number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    pub(super) pieces: Vec<Piece>,
    pub(super) dating: Option<Dating>,
}

/// A part of a serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// Text as it is.
    Text(String),
    /// A unit of the calendar; a year has four digits or two.
    Unit(Unit),
    /// The number, zero-padded to so many digits.
    Number(usize),
}

impl Layout {
    /// Its calendar, and how it numbers the values; none where values only count.
    pub fn dating(&self) -> Option<&Dating> {
        self.dating.as_ref()
    }

    /// A value as a serial.
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
