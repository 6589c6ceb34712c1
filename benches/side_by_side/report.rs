//! The tables of a run, for the terminal and for benches/README.md.

use std::fmt::{self, Write};

use crate::{
    besides::Besides,
    kind::{DECISIONS_MAX, Kind},
    options::Options,
    peers::{PEERS, Store},
    results::Results,
    row::{CLUSTER, ECHO, EMBEDDED, LANES, OTHER, OTHER_LANES, PER_CALL},
    run::Run,
    table::{Table, or_dash, percent, rate, time},
    targets,
};

const ROWS: [&str; 7] = [ECHO, EMBEDDED, OTHER, PER_CALL, LANES, OTHER_LANES, CLUSTER];

/// All results of a run.
pub(crate) struct Report<'a> {
    pub(crate) options: &'a Options,
    pub(crate) results: &'a Results,
    pub(crate) besides: &'a Besides,
    /// Skipped rows, with reasons.
    pub(crate) skipped: &'a [(&'static str, String)],
    /// File name of the plot, if it is drawn.
    pub(crate) plot: Option<&'a str>,
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.options.no_loads {
            return write!(f, "{}", self.besides);
        }
        let main = self.main();
        writeln!(f, "### Calls a second, {main} in flight\n\n{}", self.rates(Some(main)))?;
        writeln!(f, "In brackets: relative to the echo.{}\n", self.note_on_bulk_rates())?;
        writeln!(f, "### Targets\n\n{}", targets::table(self.results, self.besides))?;
        if let Some(plot) = self.plot {
            writeln!(f, "### By calls in flight\n\n![calls a second]({plot})\n")?;
        } else {
            writeln!(f, "### By calls in flight\n")?;
        }
        writeln!(f, "{}", self.rates(None))?;
        writeln!(f, "### Latency and CPU, {main} in flight\n\n{}", self.costs(main))?;
        writeln!(
            f,
            "CPU of the server, of Redis and of the benchmark as their client, in µs per call; \
             scripts: the time that Redis itself has measured, in µs per call, and how many calls \
             each script call contained.{}\n",
            self.note_on_bulk_costs()
        )?;
        let peers = self.peers(main);
        if !peers.is_empty() {
            writeln!(f, "### Peers\n\n{peers}")?;
        }
        writeln!(f, "{}", self.besides)?;
        self.remarks(f)
    }
}

impl Report<'_> {
    /// Returns the number of calls in flight for tables with a single number. Loads with a lower
    /// maximum have that many instead.
    fn main(&self) -> u32 {
        let all = &self.options.in_flight;
        let wanted = if all.contains(&256) { 256 } else { all.iter().copied().max().unwrap_or(1) };
        let kinds = self.options.kinds().iter();
        kinds.map(|kind| kind.in_flight(wanted)).max().unwrap_or(wanted)
    }

    /// Returns the measured loads with several decisions per call.
    fn bulk(&self) -> impl Iterator<Item = Kind> {
        self.options.kinds().iter().copied().filter(|kind| kind.decisions() > 1)
    }

    fn note_on_bulk_rates(&self) -> String {
        let note = |kind: Kind| {
            format!(
                " {}: decisions a second; at most {} calls, which are {} decisions, are in flight.",
                kind.title(),
                kind.in_flight(u32::MAX),
                rate(f64::from(DECISIONS_MAX)),
            )
        };
        self.bulk().map(note).collect()
    }

    fn note_on_bulk_costs(&self) -> String {
        let note = |kind: Kind| {
            format!(" {}: p50 and p99 of a call, the rest per decision.", kind.title())
        };
        self.bulk().map(note).collect()
    }

    /// Returns the measured rows of this project.
    fn rows(&self) -> impl Iterator<Item = &'static str> {
        ROWS.into_iter().filter(|row| self.results.knows(row))
    }

    /// Returns the title of a load in a table under the heading "`main` in flight".
    fn title(kind: Kind, main: u32) -> String {
        match kind.in_flight(main) {
            same if same == main => kind.title().to_owned(),
            fewer => format!("{}, {fewer} in flight", kind.title()),
        }
    }

    /// Returns the rates with `main` calls in flight, or with each number of calls.
    fn rates(&self, main: Option<u32>) -> Table {
        let number = main.is_none().then_some("in flight");
        let mut table = Table::new(["load"].into_iter().chain(number).chain(self.rows()));
        let plan = self.options.plan();
        for kind in self.options.kinds() {
            let all = plan.iter().filter(|(of, _)| of == kind).map(|(_, in_flight)| *in_flight);
            let cells = |number| self.rows().map(move |row| self.rate_cell(*kind, number, row));
            if let Some(main) = main {
                let title = Self::title(*kind, main);
                table.line([title].into_iter().chain(cells(kind.in_flight(main))));
                continue;
            }
            for number in all {
                let title = [kind.title().to_owned(), number.to_string()];
                table.line(title.into_iter().chain(cells(number)));
            }
        }
        table
    }

    fn rate_cell(&self, kind: Kind, in_flight: u32, row: &'static str) -> String {
        let value = self.results.rate((kind, in_flight, row));
        match self.results.ratio(kind, in_flight, row, ECHO) {
            Some(part) if row != ECHO => format!("{} ({})", or_dash(value, rate), percent(part)),
            _ => or_dash(value, rate),
        }
    }

    fn costs(&self, main: u32) -> Table {
        let mut table = Table::new([
            "load", "row", "p50", "p99", "server", "Redis", "client", "scripts", "each",
        ]);
        for kind in self.options.kinds() {
            let in_flight = kind.in_flight(main);
            for row in self.rows() {
                if self.results.rate((*kind, in_flight, row)).is_some() {
                    let cells = [Self::title(*kind, main), row.to_owned()];
                    table.line(cells.into_iter().chain(self.cost((*kind, in_flight, row))));
                }
            }
        }
        table
    }

    fn cost(&self, place: (Kind, u32, &'static str)) -> [String; 7] {
        let of = |value: fn(&Run) -> f64| self.results.median(place, value);
        let micros = |value: Option<f64>| {
            or_dash(value.filter(|value| *value > 0.0), |value| format!("{value:.1}"))
        };
        let scripts = of(|run| run.scripts).filter(|scripts| *scripts > 0.0);
        [
            or_dash(of(|run| run.p50), time),
            or_dash(of(|run| run.p99), time),
            micros(of(|run| run.server)),
            micros(of(|run| run.redis)),
            micros(of(|run| run.generator)),
            micros(of(|run| run.script)),
            or_dash(scripts, |scripts| format!("{:.0}", 1.0 / scripts)),
        ]
    }

    /// Returns the peers, each beside our rows of the load closest to its call.
    fn peers(&self, in_flight: u32) -> Table {
        let heading = ["load", "row", "keeps counts in"];
        let numbers: Vec<String> =
            self.options.in_flight.iter().map(|number| format!("{number} in flight")).collect();
        let costs = ["p50", "p99", "server", "Redis", "client"];
        let numbers = numbers.iter().map(String::as_str);
        let mut table = Table::new(heading.into_iter().chain(numbers).chain(costs));
        let ours = [(ECHO, "–"), (EMBEDDED, "memory"), (LANES, "Redis")];
        for kind in [Kind::Fixed, Kind::Bucket] {
            let theirs = PEERS.iter().filter(|peer| peer.kind == kind).map(|peer| {
                (peer.name, if peer.store == Store::Redis { "Redis" } else { "memory" })
            });
            let has = |row| self.results.rate((kind, in_flight, row)).is_some();
            let theirs: Vec<_> = theirs.filter(|(name, _)| has(name)).collect();
            if theirs.is_empty() {
                continue;
            }
            for (row, store) in ours.into_iter().chain(theirs) {
                let cells = [kind.title().to_owned(), row.to_owned(), store.to_owned()];
                let rates = self.options.in_flight.iter();
                let rates =
                    rates.map(|number| or_dash(self.results.rate((kind, *number, row)), rate));
                let costs = self.cost((kind, in_flight, row)).into_iter().take(5);
                table.line(cells.into_iter().chain(rates).chain(costs));
            }
        }
        table
    }

    /// Remarks on the quality of the results.
    fn remarks(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spread = self.results.spread();
        if self.options.reps() > 1 {
            writeln!(
                f,
                "Medians of {} runs; the fastest and the slowest typically differ by {}.",
                self.options.reps(),
                percent(spread)
            )?;
        }
        let wrong = self.results.wrong();
        if wrong.is_empty() {
            writeln!(f, "Every call was answered as expected.")?;
        }
        for ((kind, in_flight, row), what, count) in wrong {
            writeln!(
                f,
                "WRONG, {count} times: {row}, {}, {in_flight} in flight: {what}",
                kind.title()
            )?;
        }
        for ((kind, in_flight, row), refused) in self.results.refused() {
            let refused = rate(refused);
            writeln!(
                f,
                "{row}, {}, {in_flight} in flight: {refused} a second refused",
                kind.title()
            )?;
        }
        let mut skipped = String::new();
        for (row, why) in self.skipped {
            writeln!(skipped, "Skipped: {row}: {why}")?;
        }
        f.write_str(&skipped)
    }
}
