//! How long a decision holds Redis.

/// Redis time of a decision at the largest sizes that the contract allows, as measured on one
/// core of a small machine. Redis serves nobody else meanwhile: script calls are cut so that
/// what their decisions cost together stays within [`Cost::CALL_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    micros: u32,
    is_bulk: bool,
}

impl Cost {
    /// Microseconds of one script call at most. No call may hold Redis for more than 5 ms: the
    /// rest is for slower machines.
    pub const CALL_MAX: u32 = 3000;
    /// A decision that reads and writes a few keys of bounded size.
    pub const PLAIN: Cost = Cost::of(60);
    /// Decisions of one call that cost more microseconds together go in bulk.
    const TOGETHER_MAX: u64 = 2 * Cost::CALL_MAX as u64;

    /// A decision of so many microseconds.
    pub const fn of(micros: u32) -> Cost {
        Cost { micros, is_bulk: false }
    }

    /// A decision that travels apart from the others, one script call at a time: a listing, or
    /// what else may take as long.
    pub const fn bulk(micros: u32) -> Cost {
        Cost { micros, is_bulk: true }
    }

    /// The same with a value of so many bytes, which Redis copies.
    pub const fn with_bytes(self, bytes: usize) -> Cost {
        Cost { micros: self.micros + (bytes / 256) as u32, ..self }
    }

    /// Microseconds.
    pub fn micros(self) -> u32 {
        self.micros
    }

    /// Whether it travels apart from the others.
    pub fn is_bulk(self) -> bool {
        self.is_bulk
    }

    /// Whether decisions of one call travel apart from those of others.
    pub fn are_bulk(costs: impl Iterator<Item = Cost>) -> bool {
        costs.map(|cost| u64::from(cost.micros)).sum::<u64>() > Cost::TOGETHER_MAX
    }

    /// The same, apart from the others where `is_bulk`.
    pub fn apart(self, is_bulk: bool) -> Cost {
        Cost { is_bulk: self.is_bulk || is_bulk, ..self }
    }
}
