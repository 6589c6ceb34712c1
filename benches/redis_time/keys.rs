//! The names that a row uses.

/// Number of names of a row with many keys.
pub(crate) const MANY: u64 = 20_000;
/// Distance between the numbers of consecutive decisions, so that their keys are not adjacent in the
/// memory of Redis. It has no factor in common with [`MANY`], so all names are used.
const STRIDE: u64 = 7_919;

/// The names that the decisions of a row use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// One name.
    One,
    /// [`MANY`] names in turn; all of them are stored before the first round.
    Many,
    /// A new name for each decision.
    New,
}

impl Keys {
    /// Returns the number in the name of a decision.
    pub(crate) fn number(self, decision: u64) -> u64 {
        match self {
            Keys::One => 0,
            Keys::Many => 1 + decision * STRIDE % MANY,
            Keys::New => decision,
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Keys::One => "1",
            Keys::Many => "20,000",
            Keys::New => "new",
        }
    }
}

/// Returns a name of 16 bytes; `kind` has 4 bytes.
pub(crate) fn name(kind: &str, number: u64) -> String {
    format!("{kind}{number:012}")
}
