//! One run: starts the actors, shows the progress, stops the actors and reports.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep_until},
};
use tollgate_client::{Connection, Error};

use super::{
    calls::Calls,
    options::FleetOptions,
    progress::{Course, Level, RunProgress},
    random::Random,
    report::Report,
    schedule::Stop,
};
use tollgate_cli::signals::Signals;

/// The shared state of all actors in a run.
#[derive(Debug)]
pub(super) struct World {
    pub(super) options: FleetOptions,
    pub(super) seed: u64,
    /// At least one.
    pub(super) connections: Vec<Connection>,
    pub(super) calls: Calls,
    /// Random text that makes the names of this run unique, because the server still stores the
    /// tasks, counts and sales of earlier runs.
    pub(super) run: String,
    /// The instant at which the actors start.
    pub(super) start: Instant,
    pub(super) stop: Stop,
}

impl World {
    /// Returns a random stream with the seed of the run.
    pub(super) fn random(&self, stream: u64) -> Random {
        Random::new(self.seed, stream)
    }

    /// Returns the connection of an actor.
    pub(super) fn connection(&self, actor: usize) -> &Connection {
        &self.connections[actor % self.connections.len()]
    }
}

/// A kind of fleet, with its actors, counters and checks.
pub(super) trait Simulation: Sized {
    /// Returns the number of actors, and the maximum number of requests, and of results, in flight.
    fn actors(options: &FleetOptions) -> (u32, usize);

    /// Prepares the server. Fails with an error that every call would have.
    async fn open(world: &World) -> Result<Self, Error>;

    /// Describes the run.
    fn title(&self, world: &World) -> String;

    /// Starts the actors.
    fn start(self: &Arc<Self>, world: &Arc<World>) -> JoinSet<()>;

    /// Called at least once when no more new work is started.
    fn stops(&self) {}

    /// Returns the counters to show.
    fn level(&self, world: &World) -> Level;

    /// Adds the rows with counts.
    fn count(&self, world: &World, report: &mut Report);

    /// Adds lines between the calls and the title. `working` is how long new work was started.
    fn chart(&self, _world: &World, _working: Duration, _report: &mut Report) {}

    /// Checks the contract. Returns the measured values as a sentence, and the verdict if there is
    /// no violation.
    async fn check(&self, world: &World, report: &mut Report) -> (String, String);
}

/// Runs until the duration has passed, all actors have ended, or a signal arrives, and then lets
/// the actors finish their work. A second signal aborts the calls in flight.
pub(super) async fn play<S: Simulation>(
    world: World,
    simulation: S,
    mut signals: Signals,
) -> Report {
    let (world, simulation) = (Arc::new(world), Arc::new(simulation));
    let course = || Course { elapsed: world.start.elapsed(), calls: world.calls.made.get() };
    let mut actors = simulation.start(&world);
    let mut progress = RunProgress::new(world.options.duration);
    let mut ticks = interval(progress.period());
    // The first tick is after one period, because there is nothing to show earlier.
    ticks.reset();
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut working, mut interrupted) = (None, false);
    loop {
        let end = sleep_until((world.start + world.options.duration).into());
        tokio::select! {
            ended = actors.join_next() => match ended {
                Some(_) => continue,
                None => break,
            },
            () = end, if working.is_none() => {}
            () = signals.next() => {
                interrupted = true;
                if working.is_some() {
                    actors.abort_all();
                }
            }
            _ = ticks.tick() => {
                let finishing = working.map(|_| actors.len());
                progress.show(&simulation.level(&world), course(), finishing);
                continue;
            }
        }
        simulation.stops();
        working.get_or_insert_with(course);
        world.stop.set();
    }
    progress.end();
    simulation.stops();
    let Course { elapsed: working, calls } = working.unwrap_or_else(course);
    let finishing = world.start.elapsed().saturating_sub(working);

    let mut report = Report::new(interrupted);
    let (measured, held) = simulation.check(&world, &mut report).await;
    simulation.count(&world, &mut report);
    report.calls(&world.calls, calls as f64 / working.as_secs_f64());
    simulation.chart(&world, working, &mut report);
    report.line("");
    let title = simulation.title(&world);
    report.line(&format!("{title} at {}, seed {}", world.options.server, world.seed));
    let (working, finishing) = (working.as_secs_f64(), finishing.as_secs_f64());
    report.line(&format!("Ran for {working:.1} s, then finished in {finishing:.1} s"));
    report.value("server", json!(world.options.server));
    report.value("seed", json!(world.seed.to_string()));
    report.value("workingSeconds", json!(working));
    report.value("finishingSeconds", json!(finishing));
    report.verdict(&measured, &held);
    report
}
