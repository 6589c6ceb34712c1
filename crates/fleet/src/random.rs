//! Seeded random numbers, which are the same on every machine.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{RngCore, SeedableRng},
};

/// How an actor behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kind<M> {
    /// What it does with a task or an item.
    pub(super) manner: M,
    /// Whether it makes each call twice.
    pub(super) twice: bool,
}

/// One independent stream of random numbers.
#[derive(Debug, Clone)]
pub(super) struct Random(ChaCha8Rng);

impl Random {
    /// Creates a stream. Streams with the same seed are independent of each other.
    pub(super) fn new(seed: u64, stream: u64) -> Random {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        Random(random)
    }

    /// Draws a number that is uniform in [0, 1).
    pub(super) fn fraction(&mut self) -> f64 {
        // A double represents 53 bits exactly.
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a number that is exponentially distributed with mean 1.
    pub(super) fn exponential(&mut self) -> f64 {
        -(1.0 - self.fraction()).ln()
    }

    /// Draws a number that is normally distributed with mean 0 and deviation 1 (Box and Muller).
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (2.0 * self.exponential()).sqrt();
        radius * (std::f64::consts::TAU * self.fraction()).cos()
    }

    /// Assigns a manner to each of `count` actors: `rest` to those outside `shares`. The fraction
    /// `twice` of them, whatever their manner, makes each call twice.
    pub(super) fn kinds<M: Copy>(
        &mut self,
        count: u32,
        shares: &[(M, f64)],
        rest: M,
        twice: f64,
    ) -> Vec<Kind<M>> {
        let manners = self.deal(count, shares, rest);
        let twice = self.deal(count, &[(true, twice)], false);
        manners.into_iter().zip(twice).map(|(manner, twice)| Kind { manner, twice }).collect()
    }

    /// Assigns a value to each of `count` actors in random order: `rest` to those outside `shares`.
    /// Fractions are exact: 10 % of 2,000 are 200 actors.
    fn deal<T: Copy>(&mut self, count: u32, shares: &[(T, f64)], rest: T) -> Vec<T> {
        let count = count as usize;
        let (mut dealt, mut sum) = (Vec::with_capacity(count), 0.0);
        for (behaviour, share) in shares {
            // Fractions are summed before rounding, so that 100 % are exactly all actors.
            sum += share;
            let up_to = ((sum * count as f64).round() as usize).min(count);
            dealt.resize(up_to, *behaviour);
        }
        dealt.resize(count, rest);
        // Fisher and Yates.
        for last in (1..count).rev() {
            dealt.swap(last, (self.fraction() * (last + 1) as f64) as usize);
        }
        dealt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_means() {
        let mut random = Random::new(1, 0);
        let mut mean = |draw: fn(&mut Random) -> f64| {
            (0..10_000).map(|_| draw(&mut random)).sum::<f64>() / 10_000.0
        };
        assert!((mean(Random::fraction) - 0.5).abs() < 0.02);
        assert!((mean(Random::exponential) - 1.0).abs() < 0.05);
        assert!(mean(Random::normal).abs() < 0.05);
        assert!((mean(|random| random.normal().powi(2)) - 1.0).abs() < 0.05);
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream| {
            let mut random = Random::new(seed, stream);
            [random.fraction(), random.fraction()]
        };
        assert_eq!(draw(7, 3), draw(7, 3));
        assert_ne!(draw(7, 3), draw(7, 4));
        assert_ne!(draw(7, 3), draw(8, 3));
    }

    #[test]
    fn shares_are_exact_for_every_seed() {
        for seed in 0..20 {
            let shares = [('a', 0.1), ('b', 0.1), ('c', 0.05)];
            let dealt = Random::new(seed, 0).deal(2000, &shares, 'd');
            let count = |kind| dealt.iter().filter(|dealt| **dealt == kind).count();
            assert_eq!(['a', 'b', 'c', 'd'].map(count), [200, 200, 100, 1500]);
            let halves = Random::new(seed, 0).deal(3, &[('a', 0.5), ('b', 0.5)], 'd');
            assert!(!halves.contains(&'d'), "{halves:?}");
        }
    }
}
