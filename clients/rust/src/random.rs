//! Jitter and unique ids.

use std::time::Duration;

/// Returns a random duration from 0 to `most`.
pub(crate) fn up_to(most: Duration) -> Duration {
    most.mul_f64(fastrand::f64())
}

/// Returns `length` times a random factor from `low` to `high`.
pub(crate) fn between(length: Duration, low: f64, high: f64) -> Duration {
    length.mul_f64(low + fastrand::f64() * (high - low))
}

/// Returns an id that no other call gets.
pub(crate) fn id() -> String {
    format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_within_their_bounds_and_ids_differ() {
        let length = Duration::from_secs(1);
        for _ in 0..100 {
            assert!(up_to(length) <= length);
            let spread = between(length, 0.3, 0.4);
            assert!(spread >= length.mul_f64(0.3) && spread <= length.mul_f64(0.4), "{spread:?}");
        }
        assert_ne!(id(), id());
        assert_eq!(id().len(), 32);
    }
}
