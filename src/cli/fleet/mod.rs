//! `tollgate fleet`: simulates clients against a running server over gRPC, for demonstrations,
//! capacity planning and load. There are four kinds: devices that ask for slots, devices that run
//! queued tasks, callers that check their rate, and buyers in a flash sale.
//!
//! The devices check the server. Each device knows when it was in flight, and the maximum number in
//! flight at once is compared with the capacity of the pool. That number is a lower bound of the
//! leases that the server granted. So a number above the cap proves a fault of the server. Two
//! events would make the result wrong: an operator who evicts running tasks, and a server clock
//! that is set forward, both during the run.

mod callers;
mod device;
mod dice;
mod gauge;
mod options;
mod plan;
mod progress;
mod queue;
mod report;
mod sale;
mod share;
mod stage;
mod tally;
mod task_duration;
mod uplink;
mod watch;

use std::{
    collections::hash_map::RandomState,
    fmt,
    hash::BuildHasher,
    io::{Write, stderr},
    sync::Arc,
};

pub use callers::CallerOptions;
pub use options::{FleetOptions, HELP};
pub use queue::QueueOptions;
pub use sale::SaleOptions;
pub use task_duration::TaskDuration;

use crate::{
    cli::signals::Signals,
    decision::text::escaped,
    grpc::client::{CallError, Client},
};
use stage::Stage;
use tally::Tally;

const PLAYERS_PER_CONNECTION: u32 = 250;
const CONNECTIONS_MAX: u32 = 16;

/// A run that could not start: the error and what to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetError(String);

impl fmt::Display for FleetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FleetError {}

/// The result of a run. `Display` prints the whole report.
#[derive(Debug, Clone)]
pub struct Report {
    text: String,
    held: bool,
}

impl Report {
    fn new(report: &impl fmt::Display, held: bool) -> Report {
        Report { text: report.to_string(), held }
    }

    /// The exit code: 0 if the server kept its contract, otherwise 1.
    pub fn exit_status(&self) -> u8 {
        if self.held { 0 } else { 1 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Runs the fleet until its duration has passed or a signal ends it early. A second signal aborts
/// the calls in flight.
pub async fn run(options: &FleetOptions) -> Result<Report, FleetError> {
    let signals = Signals::new().map_err(|error| FleetError(error.to_string()))?;
    let seed = options.seed.unwrap_or_else(random);
    if options.rate {
        call(options, seed, signals).await
    } else if options.sale {
        sell(options, seed, signals).await
    } else if options.queued {
        work_off(options, seed, signals).await
    } else {
        admit(options, seed, signals).await
    }
}

/// Runs devices that ask for slots.
async fn admit(options: &FleetOptions, seed: u64, signals: Signals) -> Result<Report, FleetError> {
    let tally = Arc::new(Tally::default());
    let unreachable = |error: CallError| unreachable(options, &error);
    let clients = connect(options, options.devices).await.map_err(unreachable)?;
    capacity(options, &clients, &tally).await.map_err(unreachable)?;
    say(format_args!(
        "{} devices, seed {seed}, pool `{}` at {}; Ctrl-C ends early",
        options.devices, options.pool, options.server
    ));
    let report = Stage { options, seed, clients, tally }.play(signals).await;
    Ok(Report::new(&report, report.cap_held()))
}

/// Runs callers that check their rate.
async fn call(options: &FleetOptions, seed: u64, signals: Signals) -> Result<Report, FleetError> {
    let against = options.callers.against().map_err(FleetError)?;
    let unreachable = |error: CallError| unreachable(options, &error);
    let clients = connect(options, options.callers.keys).await.map_err(unreachable)?;
    if let Some(client) = clients.first() {
        // A first call reports a permanent error at once, instead of in each call.
        client.check_rate("fleet", &against, 0).await.map_err(unreachable)?;
    }
    say(format_args!(
        "{} keys, seed {seed}, at {}; Ctrl-C ends early",
        options.callers.keys, options.server
    ));
    let report = callers::Stage { options, seed, clients, against }.play(signals).await;
    Ok(Report::new(&report, report.limit_held()))
}

/// Runs buyers in a flash sale.
async fn sell(options: &FleetOptions, seed: u64, signals: Signals) -> Result<Report, FleetError> {
    let unreachable = |error: CallError| unreachable(options, &error);
    let sale = &options.sale_options;
    let clients = connect(options, sale.buyers).await.map_err(unreachable)?;
    let stage = sale::Stage::open(options, seed, clients).await.map_err(unreachable)?;
    say(format_args!(
        "{} buyers, {} items, seed {seed}, at {}; Ctrl-C ends early",
        sale.buyers, sale.items, options.server
    ));
    let report = stage.play(signals).await;
    Ok(Report::new(&report, report.stock_held()))
}

/// Runs devices with queued tasks.
async fn work_off(
    options: &FleetOptions,
    seed: u64,
    signals: Signals,
) -> Result<Report, FleetError> {
    let unreachable = |error: CallError| unreachable(options, &error);
    let clients = connect(options, options.devices).await.map_err(unreachable)?;
    let stage = queue::Stage::open(options, seed, clients).await.map_err(unreachable)?;
    say(format_args!(
        "{} tasks for {} devices, seed {seed}, pool `{}` at {}; Ctrl-C ends early",
        options.queue.tasks, options.devices, options.pool, options.server
    ));
    let report = stage.play(signals).await;
    Ok(Report::new(&report, report.queue_held()))
}

/// Prints the start of the run to standard error. A failure is ignored, because standard error may
/// be closed.
fn say(what: fmt::Arguments<'_>) {
    let _ = writeln!(stderr(), "{}", escaped(&what.to_string()));
}

/// Opens one connection for each 250 players, at most 16.
async fn connect(options: &FleetOptions, players: u32) -> Result<Vec<Client>, CallError> {
    let count = players.div_ceil(PLAYERS_PER_CONNECTION).min(CONNECTIONS_MAX);
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(Client::connect(&options.server).await?);
    }
    Ok(clients)
}

/// Sets the capacity of the pool if the option is given, and reads it.
async fn capacity(
    options: &FleetOptions,
    clients: &[Client],
    tally: &Tally,
) -> Result<(), CallError> {
    if let Some(client) = clients.first() {
        tally.usage(match options.capacity {
            Some(_) => client.configure_pool(&options.pool, options.capacity, None).await?,
            None => client.usage(&options.pool).await?,
        });
    }
    Ok(())
}

fn unreachable(options: &FleetOptions, error: &CallError) -> FleetError {
    FleetError(format!(
        "cannot play against {}: {error}; start a server with `tollgate serve`, or name another \
         with --server",
        options.server
    ))
}

/// Returns a random number of the operating system, for values that do not depend on the seed.
fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}
