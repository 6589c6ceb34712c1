//! Callers, one per key, each of which checks its rate repeatedly.
//!
//! Each caller knows when its allowed calls were sent and answered. The maximum number that
//! certainly fell into one window is compared with what the algorithm permits.

mod caller;
mod chart;
mod window;

use std::{sync::Arc, time::Duration};

use clap::ValueEnum;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::JoinSet};
use tollgate_client::{Against, Error};

use self::{caller::RateCaller, chart::Timeline, window::WatchedWindow};
use super::{
    counters::{AtomicCounter, NamedCounts},
    options::FleetOptions,
    progress::Level,
    report::Report,
    run::{Simulation, World},
    schedule::Arrivals,
};
use tollgate_cli::flags::RuleFlags;
use tollgate_telemetry::text::grouped;

/// The shared state of the callers.
#[derive(Debug)]
pub(super) struct RateCallers {
    against: Against,
    verdicts: NamedCounts,
    /// Answers with any verdict that ask for a notice.
    notices: AtomicCounter,
    /// Times of allowed calls.
    timeline: Timeline,
    /// Maximum number of allowed calls of a key in a window.
    most: AtomicCounter,
}

impl Simulation for RateCallers {
    fn actors(options: &FleetOptions) -> (u32, usize) {
        // Calls are limited per caller instead.
        (options.callers.keys, Semaphore::MAX_PERMITS)
    }

    async fn open(world: &World) -> Result<RateCallers, Error> {
        let rule = &world.options.callers.rule;
        let against = rule.against();
        let against = against.map_err(|message| Error {
            code: "INVALID_ARGUMENT",
            message,
            ..Error::default()
        })?;
        // A first call reports a permanent error immediately, instead of every call failing.
        world.connection(0).check("fleet", &against, 0).await?;
        Ok(RateCallers {
            against,
            verdicts: NamedCounts::default(),
            notices: AtomicCounter::default(),
            timeline: Timeline::new(world.options.duration, rule.window.duration()),
            most: AtomicCounter::default(),
        })
    }

    fn title(&self, world: &World) -> String {
        let options = &world.options.callers;
        let window = humantime::format_duration(options.rule.window.duration());
        let algorithm = options.rule.algorithm.to_possible_value();
        let algorithm = algorithm.as_ref().map_or("", |value| value.get_name());
        let most = grouped(options.ceiling());
        format!("At most {most} in {window}, {algorithm}{}", levels(&options.rule))
    }

    fn start(self: &Arc<Self>, world: &Arc<World>) -> JoinSet<()> {
        let (options, mut actors) = (&world.options.callers, JoinSet::new());
        let volley = options.volley.map(|size| (options.volley_every, size));
        for number in 0..options.keys as usize {
            let caller = RateCaller {
                connection: world.connection(number).clone(),
                key: format!("fleet/{}/{number}", world.run),
                window: Mutex::new(WatchedWindow::new(world.start, options.rule.window.duration())),
                world: world.clone(),
                fleet: self.clone(),
            };
            let stream = 2 * number as u64;
            let random = [world.random(stream), world.random(stream + 1)];
            let schedule = Arrivals::new(random, world.start, options.hits, volley);
            actors.spawn(Arc::new(caller).live(schedule));
        }
        actors
    }

    fn level(&self, world: &World) -> Level {
        let of = |name: &str| self.verdicts.get(name);
        let allowed = of("RATE_VERDICT_ALLOW") + of("RATE_VERDICT_WARN");
        Level {
            name: "allowed/s",
            value: allowed,
            per_second: true,
            cap: world.options.callers.sustained().round() as u64,
            counts: vec![
                ("allowed", allowed),
                ("throttled", of("RATE_VERDICT_THROTTLE")),
                ("banned", of("RATE_VERDICT_BAN")),
            ],
        }
    }

    fn count(&self, world: &World, report: &mut Report) {
        report.row("Keys", world.options.callers.keys.into());
        let names = ["allow", "warn", "throttle", "ban"];
        report.answers("CheckRate", "RATE_VERDICT_", &self.verdicts, &names);
        report.row("  with a notice", self.notices.get());
    }

    fn chart(&self, world: &World, working: Duration, report: &mut Report) {
        let options = &world.options.callers;
        let title = match options.keys {
            1 => "Allowed per second",
            _ => "Allowed per second, all keys together",
        };
        let columns = self.timeline.columns(working);
        report.line(&format!("\n{}", columns.draw(title, options.sustained())));
    }

    async fn check(&self, world: &World, report: &mut Report) -> (String, String) {
        let options = &world.options.callers;
        let (most, permitted) = (self.most.get(), options.permitted());
        report.check(most > permitted, "THE LIMIT WAS EXCEEDED");
        let window = humantime::format_duration(options.rule.window.duration());
        let (most, permitted) = (grouped(most), grouped(permitted));
        let measured =
            format!("Of one key at most {most} allowed in any {window}, {permitted} permitted");
        (measured, "the limit held".to_owned())
    }
}

/// Describes the warning and ban levels of a rule.
fn levels(rule: &RuleFlags) -> String {
    let level = |name: &str, above: Option<u32>| {
        above.map(|above| format!(", {name} above {}", grouped(above.into()))).unwrap_or_default()
    };
    level("warning", rule.warn_above) + &level("ban", rule.ban_above)
}
