//! What all lines of an export have in common.

use super::Text;
use crate::{
    names::{Name, SEPARATOR},
    record::Changes,
    time::Timestamp,
};

/// Largest instant (µs) and token: below 2^52, which is the year 2112. The scripts rely on this
/// bound.
const TIME_MAX: u64 = (1 << 52) - 1;

/// The line of a stored entry.
pub trait EntryLine {
    /// Refuses values that no engine can have stored.
    fn check(&self, checked: &mut Checked);
    /// Returns when the entry expires, in µs. `None` for an entry that never expires.
    fn forget(&self) -> Option<u64> {
        None
    }
    /// Appends the entries of this line to a write batch.
    fn record(&self, to: &mut Changes) -> Result<(), &'static str>;
}

/// The first violation of a line, if there is one.
#[derive(Debug)]
pub struct Checked(Result<(), String>);

impl Checked {
    /// Checks a line. The error names the field.
    pub fn line(line: &impl EntryLine) -> Result<(), String> {
        let mut checked = Checked(Ok(()));
        line.check(&mut checked);
        checked.0
    }

    /// Checks a name as in a request: 1 to 256 bytes of UTF-8 without control characters.
    pub(crate) fn name(&mut self, field: &str, name: &Text) {
        if let Err(why) = Name::parse(name.0.clone().into()) {
            self.refuse(format!("{field} {why}"));
        }
    }

    /// Checks a text that Redis stores between separators: it must not contain them.
    pub(crate) fn part(&mut self, field: &str, text: &[u8]) {
        if text.contains(&SEPARATOR) || text.contains(&0) {
            self.refuse(format!("{field} must not contain control characters"));
        }
    }

    /// Checks that instants are at most [`TIME_MAX`].
    pub(crate) fn times<const N: usize>(&mut self, times: [(&str, Timestamp); N]) {
        for (field, time) in times {
            self.at_most(field, time.0, TIME_MAX);
        }
    }

    /// Checks that a token is at most [`TIME_MAX`].
    pub(crate) fn token(&mut self, field: &str, token: u64) {
        self.at_most(field, token, TIME_MAX);
    }

    pub(crate) fn at_most(&mut self, field: &str, number: u64, most: u64) {
        if number > most {
            self.refuse(format!("{field} is {number}: must be at most {most}"));
        }
    }

    /// Records a violation; only the first one is kept.
    pub(crate) fn refuse(&mut self, why: String) {
        if self.0.is_ok() {
            self.0 = Err(why);
        }
    }
}
