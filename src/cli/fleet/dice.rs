//! Seeded random numbers: the same seed gives the same numbers on every machine.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore, SeedableRng},
};

/// One independent stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Dice(ChaCha8Rng);

impl Dice {
    /// Creates a stream. Streams of one seed are independent, however many numbers are taken from
    /// each.
    pub(super) fn new(seed: u64, stream: u64) -> Dice {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Dice(random)
    }

    /// Uniform in [0, 1).
    pub(super) fn fraction(&mut self) -> f64 {
        // The 53 bits that a double holds exactly.
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Exponential with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.fraction()).ln()
    }

    /// Normal with mean 0 and deviation 1 (Box and Muller).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.fraction()).cos()
    }

    /// Shuffles uniformly (Fisher and Yates).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, (self.fraction() * (last + 1) as f64) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(mut throw: impl FnMut() -> f64) -> f64 {
        (0..10_000).map(|_| throw()).sum::<f64>() / 10_000.0
    }

    #[test]
    fn throws_have_their_means() {
        let mut dice = Dice::new(1, 0);
        assert!((mean(|| dice.fraction()) - 0.5).abs() < 0.02);
        assert!((mean(|| dice.exponential()) - 1.0).abs() < 0.05);
        assert!(mean(|| dice.normal()).abs() < 0.05);
        assert!((mean(|| dice.normal().powi(2)) - 1.0).abs() < 0.05);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let throws = |seed, stream| -> Vec<f64> {
            let mut dice = Dice::new(seed, stream);
            (0..8).map(|_| dice.fraction()).collect()
        };
        assert_eq!(throws(7, 3), throws(7, 3));
        assert_ne!(throws(7, 3), throws(7, 4));
        assert_ne!(throws(7, 3), throws(8, 3));
    }
}
