//! How long a decision occupies Redis.

/// Redis time of a decision at the largest sizes that the contract allows, measured on one core of
/// a small machine. Redis serves no other client during a script call. The engine therefore splits
/// calls so that the costs of their decisions add up to at most [`Cost::CALL_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    micros: u32,
    is_bulk: bool,
}

impl Cost {
    /// Maximum cost of one script call, in µs. The bound is 5 ms; the difference is a margin for
    /// slower machines.
    pub const CALL_MAX: u32 = 3000;
    /// A decision that reads and writes a few keys of bounded size.
    pub const PLAIN: Cost = Cost::from_micros(60);
    /// Above this total, in µs, the decisions of one RPC are sent as bulk.
    const TOGETHER_MAX: u64 = 2 * Cost::CALL_MAX as u64;

    /// Returns the cost of a decision that takes this many µs.
    pub const fn from_micros(micros: u32) -> Cost {
        Cost { micros, is_bulk: false }
    }

    /// Returns a decision that travels separately, one script call at a time, so that it delays no
    /// others: a listing, or any other decision of similar cost.
    pub const fn bulk(micros: u32) -> Cost {
        Cost { micros, is_bulk: true }
    }

    /// Adds the cost of copying a value of this many bytes: 1 µs per 256 bytes.
    pub const fn with_bytes(self, bytes: usize) -> Cost {
        Cost { micros: self.micros + (bytes / 256) as u32, ..self }
    }

    /// Returns the cost in µs.
    pub fn micros(self) -> u32 {
        self.micros
    }

    /// Whether the decision travels separately.
    pub fn is_bulk(self) -> bool {
        self.is_bulk
    }

    /// Whether the decisions of one RPC together cost so much that they travel separately.
    pub fn are_bulk(costs: impl Iterator<Item = Cost>) -> bool {
        costs.map(|cost| u64::from(cost.micros)).sum::<u64>() > Cost::TOGETHER_MAX
    }

    /// Returns the same cost; travels separately if `is_bulk` or if it already did.
    pub fn apart(self, is_bulk: bool) -> Cost {
        Cost { is_bulk: self.is_bulk || is_bulk, ..self }
    }
}
