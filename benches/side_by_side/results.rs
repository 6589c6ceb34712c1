//! All runs by load, calls in flight and row.

use std::collections::BTreeMap;

use crate::{
    kind::Kind,
    run::{Run, median},
};

/// Key of a run: load, calls in flight, row.
pub(crate) type Place = (Kind, u32, &'static str);

/// Runs, and figures over several of them.
#[derive(Debug, Default)]
pub(crate) struct Results {
    runs: BTreeMap<Place, Vec<Run>>,
}

impl Results {
    pub(crate) fn add(&mut self, place: Place, run: Run) {
        self.runs.entry(place).or_default().push(run);
    }

    /// Whether a row has any run.
    pub(crate) fn knows(&self, row: &str) -> bool {
        self.runs.keys().any(|(_, _, of)| *of == row)
    }

    /// Returns the median of `value` over the runs; `None` without runs.
    pub(crate) fn median(&self, place: Place, value: impl Fn(&Run) -> f64) -> Option<f64> {
        let runs = self.runs.get(&place)?;
        Some(median(runs.iter().map(value)))
    }

    /// Calls a second.
    pub(crate) fn rate(&self, place: Place) -> Option<f64> {
        self.median(place, |run| run.rate)
    }

    /// Rate of a row divided by that of another one, for the same load.
    pub(crate) fn ratio(
        &self,
        kind: Kind,
        in_flight: u32,
        row: &'static str,
        to: &'static str,
    ) -> Option<f64> {
        Some(self.rate((kind, in_flight, row))? / self.rate((kind, in_flight, to))?)
    }

    /// Highest rate of a row for a load, with any number of calls in flight.
    pub(crate) fn peak(&self, kind: Kind, row: &'static str) -> Option<f64> {
        let theirs = self.runs.keys().filter(|(of, _, name)| *of == kind && *name == row);
        theirs.filter_map(|place| self.rate(*place)).reduce(f64::max)
    }

    /// Typical distance of the fastest and the slowest run, as a fraction of their median.
    pub(crate) fn spread(&self) -> f64 {
        let spreads = self.runs.values().map(|runs| {
            let rates = || runs.iter().map(|run| run.rate);
            let (least, most) = rates().fold((f64::MAX, 0.0), |(least, most): (f64, f64), rate| {
                (least.min(rate), most.max(rate))
            });
            (most - least) / median(rates())
        });
        median(spreads)
    }

    /// Unexpected replies by key, with their numbers.
    pub(crate) fn wrong(&self) -> Vec<(Place, String, u64)> {
        let mut all: BTreeMap<(Place, &str), u64> = BTreeMap::new();
        for (place, runs) in &self.runs {
            for (what, count) in runs.iter().flat_map(|run| &run.wrong) {
                *all.entry((*place, what)).or_default() += count;
            }
        }
        all.into_iter().map(|((place, what), count)| (place, what.to_owned(), count)).collect()
    }

    /// Keys with calls refused by RESOURCE_EXHAUSTED, and their rates.
    pub(crate) fn refused(&self) -> Vec<(Place, f64)> {
        let refused = |place: &Place| Some((*place, self.median(*place, |run| run.refused)?));
        self.runs.keys().filter_map(refused).filter(|(_, rate)| *rate > 0.0).collect()
    }
}
