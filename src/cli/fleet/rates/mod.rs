//! Callers: one per key, each checks its rate again and again.
//!
//! Each caller knows when its allowed calls were sent and answered. The maximum number that
//! certainly fell into one window is compared with the maximum that the algorithm permits.

mod caller;
mod chart;

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use clap::ValueEnum;
use tokio::{sync::Semaphore, task::JoinSet};
use tollgate_client::{Against, Error};

use self::{
    caller::{Caller, Key},
    chart::{Chart, Timeline},
};
use super::{
    calls::Calls,
    counters::{Counter, Counts},
    options::{CallerOptions, FleetOptions},
    progress::Level,
    report::{Course, Report},
    run::{Simulation, World},
    schedule::{Arrivals, Stop},
    witness::Window,
};
use crate::{cli::flags::RuleFlags, decision::text::grouped};

/// A fleet of callers.
#[derive(Debug)]
pub(super) struct Callers {
    options: CallerOptions,
    shared: Arc<Shared>,
}

/// What the callers share.
#[derive(Debug)]
struct Shared {
    against: Against,
    calls: Arc<Calls>,
    verdicts: Counts,
    /// Answers that ask for a notice, with any verdict.
    notices: Counter,
    /// Times of allowed calls.
    timeline: Timeline,
    /// Maximum number of allowed calls of a key in a window.
    most: Counter,
}

impl Shared {
    fn allowed(&self) -> u64 {
        self.verdicts.get("RATE_VERDICT_ALLOW") + self.verdicts.get("RATE_VERDICT_WARN")
    }
}

impl Simulation for Callers {
    fn actors(options: &FleetOptions) -> (u32, usize) {
        // Each caller has its own maximum.
        (options.callers.keys, Semaphore::MAX_PERMITS)
    }

    async fn open(world: &World<'_>) -> Result<Callers, Error> {
        let options = world.options.callers.clone();
        let against = options.against();
        let against = against.map_err(|message| Error { code: "INVALID_ARGUMENT", message })?;
        // A first call reports a permanent error at once, instead of in each call.
        world.connection(0).check("fleet", &against, 0).await?;
        let shared = Shared {
            against,
            calls: world.calls.clone(),
            verdicts: Counts::default(),
            notices: Counter::default(),
            timeline: Timeline::new(world.options.duration, options.rule.window.duration()),
            most: Counter::default(),
        };
        Ok(Callers { options, shared: Arc::new(shared) })
    }

    fn title(&self, _: &World<'_>) -> String {
        let rule = &self.options.rule;
        let window = humantime::format_duration(rule.window.duration());
        let algorithm = rule.algorithm.to_possible_value();
        let algorithm = algorithm.as_ref().map_or("", |value| value.get_name());
        let most = grouped(self.options.ceiling());
        format!("At most {most} in {window}, {algorithm}{}", levels(rule))
    }

    fn start(&mut self, world: &World<'_>, start: Instant, stop: &Stop) -> JoinSet<()> {
        let (options, mut actors) = (&self.options, JoinSet::new());
        let volley = options.volley.map(|size| (options.volley_every, size));
        for number in 0..options.keys as usize {
            let key = Key {
                connection: world.connection(number).clone(),
                name: format!("fleet/{:08x}/{number}", world.run),
                start,
                window: Mutex::new(Window::new(start, options.rule.window.duration())),
                shared: self.shared.clone(),
            };
            let stream = 2 * number as u64;
            let random = [world.random(stream), world.random(stream + 1)];
            let caller = Caller {
                schedule: Arrivals::new(random, start, options.hits, volley),
                key: Arc::new(key),
                in_flight: options.in_flight(),
                patient: options.patient,
                stop: stop.clone(),
            };
            actors.spawn(caller.live());
        }
        actors
    }

    fn level(&self, _: &World<'_>) -> Level {
        let (allowed, verdicts) = (self.shared.allowed(), &self.shared.verdicts);
        Level {
            name: "allowed/s",
            value: allowed,
            per_second: true,
            cap: self.options.sustained().round() as u64,
            counts: vec![
                ("allowed", allowed),
                ("throttled", verdicts.get("RATE_VERDICT_THROTTLE")),
                ("banned", verdicts.get("RATE_VERDICT_BAN")),
            ],
        }
    }

    fn count(&self, report: &mut Report) {
        report.row("Keys", self.options.keys.into());
        let names = ["allow", "warn", "throttle", "ban"];
        report.answers("CheckRate", "RATE_VERDICT_", &self.shared.verdicts, &names);
        report.row("  with a notice", self.shared.notices.get());
    }

    fn chart(&self, course: &Course, report: &mut Report) {
        let title = match self.options.keys {
            1 => "Allowed per second",
            _ => "Allowed per second, all keys together",
        };
        let columns = self.shared.timeline.columns(course.working);
        let chart = Chart { title, columns: &columns, limit: self.options.sustained() };
        report.line(&format!("\n{}", chart.to_string().trim_end()));
    }

    async fn check(&self, _: &World<'_>, _: &Course, report: &mut Report) -> (String, String) {
        let (most, permitted) = (self.shared.most.get(), self.options.permitted());
        report.check(most > permitted, "THE LIMIT WAS EXCEEDED");
        let window = humantime::format_duration(self.options.rule.window.duration());
        let (most, permitted) = (grouped(most), grouped(permitted));
        let measured =
            format!("Of one key at most {most} allowed in any {window}, {permitted} permitted");
        (measured, "the limit held".to_owned())
    }
}

/// Describes the warn and ban levels of a rule.
fn levels(rule: &RuleFlags) -> String {
    let level = |name: &str, above: Option<u32>| {
        above.map(|above| format!(", {name} above {}", grouped(above.into()))).unwrap_or_default()
    };
    level("warning", rule.warn_above) + &level("ban", rule.ban_above)
}
