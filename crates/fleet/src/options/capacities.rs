//! The capacities of `--sweep`.

use std::str::FromStr;

use tollgate_core::admission::CAPACITY_MAX;

/// Maximum number of runs.
const RUNS_MAX: u32 = 100;
/// Number of runs if it is not specified.
const RUNS: u32 = 5;
const EXPECTED: &str = "expected `20..100` or `20..100/9`: capacities of 1 to 1,000,000, the lower \
                        one first, and 2 to 100 runs";

/// A range of capacities, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacities {
    from: u32,
    to: u32,
    runs: u32,
}

impl Capacities {
    /// Returns the distinct capacities, evenly spaced and in ascending order.
    pub(crate) fn all(self) -> Vec<u32> {
        let Capacities { from, to, runs } = self;
        let at = |run: u32| {
            let share = u64::from(to - from) * u64::from(run) / u64::from(runs - 1);
            from + share as u32
        };
        let mut all: Vec<u32> = (0..runs).map(at).collect();
        all.dedup();
        all
    }
}

impl FromStr for Capacities {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Capacities, &'static str> {
        let parse = |number: &str| number.parse::<u32>().map_err(|_| EXPECTED);
        let (range, runs) = match text.split_once('/') {
            Some((range, runs)) => (range, parse(runs)?),
            None => (text, RUNS),
        };
        let (from, to) = range.split_once("..").ok_or(EXPECTED)?;
        let capacities = Capacities { from: parse(from)?, to: parse(to)?, runs };
        let Capacities { from, to, runs } = capacities;
        let is_valid =
            1 <= from && from < to && to <= CAPACITY_MAX && (2..=RUNS_MAX).contains(&runs);
        if is_valid { Ok(capacities) } else { Err(EXPECTED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_evenly_spaced_from_end_to_end() {
        let all = |text: &str| text.parse::<Capacities>().map(Capacities::all);
        assert_eq!(all("20..100"), Ok(vec![20, 40, 60, 80, 100]));
        assert_eq!(all("1..10/4"), Ok(vec![1, 4, 7, 10]));
        assert_eq!(all("1..3"), Ok(vec![1, 2, 3]));
        for bad in ["", "20", "100..20", "5..5", "0..5", "1..1000001", "1..5/1", "1..5/101", "a..b"]
        {
            assert_eq!(all(bad), Err(EXPECTED), "{bad}");
        }
    }
}
