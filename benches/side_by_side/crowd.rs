//! Cost of many keys: CheckRate with a thousand keys on one server, and with a million keys on
//! another.

use std::{fmt, sync::Arc};

use crate::{
    call::Load,
    closed_loop::{self, Callers, Timing},
    kind::{self, Kind},
    loads,
    options::Options,
    row::Row,
    run::{Run, median, otherwise},
    table::rate,
};

/// Numbers of keys.
const KEYS: [u64; 2] = [1_000, 1_000_000];
const IN_FLIGHT: usize = 256;
/// Maximum number of runs until a server has all keys.
const FILLING_MAX: usize = 100;

/// Results for few keys and for many.
#[derive(Debug)]
pub(crate) struct Crowd {
    rates: [f64; 2],
    /// CPU of the server, µs a call.
    servers: [f64; 2],
    /// Memory, in 10^6 bytes.
    residents: [f64; 2],
}

impl Crowd {
    pub(crate) async fn measure(options: &Options) -> Result<Crowd, String> {
        let timing = options.timing();
        let mut rows = Vec::new();
        for keys in KEYS {
            let (program, folder) = (loads::program(options), loads::folder());
            let file = folder.join("tollgate.toml");
            let kinds = [Kind::Fixed];
            let mut row = Row::tollgate("crowd", program, &file, &[], &kinds).await?;
            let load = Arc::new(Load::of(kind::check("fixed"), keys));
            for _ in 0..FILLING_MAX {
                run(&mut row, &load, timing).await;
                if row.numbers_used > keys {
                    break;
                }
            }
            if row.numbers_used <= keys {
                return Err(format!("{} of {keys} keys are there", row.numbers_used));
            }
            rows.push((row, load));
        }
        let mut runs = [Vec::new(), Vec::new()];
        for _ in 0..options.reps() {
            for ((row, load), runs) in rows.iter_mut().zip(&mut runs) {
                runs.push(run(row, load, timing).await);
            }
        }
        if let Some(run) = runs.iter().flatten().find(|run| !run.wrong.is_empty()) {
            return Err(otherwise(&run.wrong));
        }
        let of = |value: fn(&Run) -> f64| runs.each_ref().map(|all| median(all.iter().map(value)));
        let resident = |row: usize| rows[row].0.resident() as f64 * 1.024 / 1000.0;
        let residents = [0, 1].map(resident);
        Ok(Crowd { rates: of(|run| run.rate), servers: of(|run| run.server), residents })
    }

    /// Server CPU of a call with many keys, divided by that with few.
    pub(crate) fn ratio(&self) -> f64 {
        self.servers[1] / self.servers[0]
    }
}

async fn run(row: &mut Row, load: &Arc<Load>, timing: Timing) -> Run {
    closed_loop::run(row, load, Callers::in_flight(IN_FLIGHT), timing).await
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Crowd { rates, servers, residents } = self;
        write!(
            f,
            "{} and {} calls a second, {:.1} and {:.1} µs of the server's, {:.1} and {:.1} MB",
            rate(rates[0]),
            rate(rates[1]),
            servers[0],
            servers[1],
            residents[0],
            residents[1]
        )
    }
}
