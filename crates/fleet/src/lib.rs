//! `tollgate fleet`: simulates clients against a running server over gRPC, for demonstrations,
//! capacity planning and load.
//!
//! There are three kinds: [`devices`] ask for slots or run queued tasks, callers ([`rates`]) check
//! their rate, and buyers take part in a flash [`sale`]. Each kind has its own actors, counters and
//! checks. The schedule, the counters of calls, the progress display and the report are common to
//! all ([`run`]).
//!
//! The actors check the server against their own observations. Their counts are lower bounds, so a
//! violation proves that the server is at fault, unless an operator has evicted tasks, reset keys
//! or changed stock during the run, or the server's clock was set forward.

mod calls;
mod counters;
mod devices;
mod options;
mod progress;
mod random;
mod rates;
mod report;
mod run;
mod sale;
mod schedule;
mod sweep;
mod task_duration;

use std::{
    hash::{BuildHasher, RandomState},
    io::{Write, stderr},
};

pub use options::{
    CallerOptions, Capacities, DeviceOptions, FleetOptions, HELP, QueueOptions, SaleOptions,
};
pub use report::Report;
pub use sweep::sweep;
pub use task_duration::TaskDuration;

use self::{
    calls::Calls,
    run::{Simulation, World},
    schedule::Stop,
};
use tollgate_cli::{
    client::{ClientError, advice, connect, failed},
    signals::Signals,
};
use tollgate_core::time::monotonic;
use tollgate_telemetry::text::escaped;

const ACTORS_PER_CONNECTION: u32 = 250;
const CONNECTIONS_MAX: u32 = 16;

/// Runs the fleet until its duration has passed or a signal ends it early. A second signal aborts
/// the calls in flight.
pub async fn run(options: &FleetOptions) -> Result<Report, ClientError> {
    let signals = Signals::new().map_err(|error| ClientError(error.to_string()))?;
    if options.rate {
        play::<rates::RateCallers>(options, signals).await
    } else if options.sale {
        play::<sale::Sale>(options, signals).await
    } else {
        play::<devices::Devices>(options, signals).await
    }
}

async fn play<S: Simulation>(
    options: &FleetOptions,
    signals: Signals,
) -> Result<Report, ClientError> {
    let server = &options.server;
    let (actors, in_flight) = S::actors(options);
    let mut connections = Vec::new();
    for _ in 0..actors.div_ceil(ACTORS_PER_CONNECTION).min(CONNECTIONS_MAX) {
        connections.push(connect(server, &options.access, "run the fleet").await?);
    }
    // Seeded by the operating system.
    let random = || RandomState::new().hash_one(0u8);
    let mut world = World {
        options: options.clone(),
        seed: options.seed.unwrap_or_else(random),
        connections,
        calls: Calls::new(in_flight),
        run: format!("{:08x}", random() as u32),
        start: monotonic(),
        stop: Stop::default(),
    };
    let opened = S::open(&world).await;
    let simulation =
        opened.map_err(|error| failed("run the fleet", server, &error, advice(error.code)))?;
    world.start = monotonic();
    let start = format!("{}, {actors} actors, at {server}", simulation.title(&world));
    // Ignored: standard error may be closed.
    let _ = writeln!(stderr(), "{}, seed {}; Ctrl-C ends early", escaped(&start), world.seed);
    Ok(run::play(world, simulation, signals).await)
}
