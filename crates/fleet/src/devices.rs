//! Devices that ask for slots. With `--queued` they get their oldest queued task, and the run ends
//! when every task is completed or dead.
//!
//! Each device knows when it was in flight. The maximum number that were in flight at the same time
//! is compared with the capacity of the pool. [`queue`] checks the attempts of queued tasks.

mod attempts;
mod concurrency;
mod device;
mod events;
mod plan;
mod queue;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::json;
use tokio::{sync::Semaphore, task::JoinSet};
use tollgate_client::{Admission, Error, Grant, Pool, Usage};

use self::{concurrency::Concurrency, device::Device, plan::DeviceManner, queue::TaskQueue};
use super::{
    counters::{AtomicCounter, NamedCounts, Times},
    options::FleetOptions,
    progress::Level,
    random::Kind,
    report::Report,
    run::{Simulation, World},
    schedule::Periodic,
};
use tollgate_telemetry::text::grouped;

/// Maximum number of requests in flight, and of results, for all devices with a queue. A higher
/// number would increase the latency but not the throughput.
const QUEUED_IN_FLIGHT: usize = 64;
/// The first of the random streams that decide which attempts of a device fail.
const FAILURES: u64 = 1 << 40;

/// The shared state of the devices. A lease counts once, but every answer counts, so a message that
/// is sent twice counts twice.
#[derive(Debug, Default)]
pub(super) struct Devices {
    kinds: Vec<Kind<DeviceManner>>,
    queue: Option<TaskQueue>,
    /// Devices in flight.
    concurrency: Concurrency,
    /// The highest capacity of the pool.
    capacity: AtomicCounter,
    /// Leases of devices.
    admitted: AtomicCounter,
    /// Leases with an answered report.
    reported: AtomicCounter,
    /// Leases that expired without a result.
    expired: AtomicCounter,
    /// Tasks that were waiting for a slot when the fleet stopped. They are missing from `waits`,
    /// whose values are therefore too low.
    unserved: AtomicCounter,
    /// Time from the first request to the admission of each task.
    waits: Times,
    /// Requests without an answer, each of which may have been granted a lease.
    lost: AtomicCounter,
    admissions: NamedCounts,
    verdicts: NamedCounts,
    /// How long leases had held slots, and how many tasks were completed, when the fleet stopped.
    stopped: OnceLock<(Duration, u64)>,
}

impl Devices {
    fn admission(&self, admission: &Admission<Grant>, usage: &Usage) {
        self.capacity.raise(usage.capacity.into());
        self.admissions.add(match admission {
            Admission::Admitted(permit) if permit.replayed => "REPLAYED",
            Admission::Admitted(_) => "ADMITTED",
            Admission::Full { .. } => "FULL",
            Admission::Paused { .. } => "PAUSED",
            Admission::NoTask => "NO_TASK",
            Admission::AlreadyCompleted => "ALREADY_COMPLETED",
        });
    }
}

fn pool(world: &World, actor: usize) -> Pool {
    world.connection(actor).pool(&world.options.device.pool)
}

impl Simulation for Devices {
    fn actors(options: &FleetOptions) -> (u32, usize) {
        // A device without a queue has at most two calls in flight.
        let in_flight = if options.queued { QUEUED_IN_FLIGHT } else { Semaphore::MAX_PERMITS };
        (options.device.devices, in_flight)
    }

    /// Sets the capacity of the pool if `--capacity` is set, and reads it.
    async fn open(world: &World) -> Result<Devices, Error> {
        let (options, pool) = (&world.options.device, pool(world, 0));
        let attempts = world.options.queued.then_some(world.options.queue.max_attempts);
        let usage = if options.capacity.is_some() || attempts.is_some() {
            pool.configure(options.capacity, attempts).await?
        } else {
            pool.usage().await?
        };
        let queue =
            if world.options.queued { Some(TaskQueue::open(world, &pool).await) } else { None };
        let shares = [
            (DeviceManner::Silent, options.silent),
            (DeviceManner::Late, options.late),
            (DeviceManner::Crashing, options.crashes),
        ];
        let mut random = world.random(0);
        let kinds =
            random.kinds(options.devices, &shares, DeviceManner::Regular, options.duplicates);
        let devices = Devices { kinds, queue, ..Devices::default() };
        devices.capacity.raise(usage.capacity.into());
        Ok(devices)
    }

    fn title(&self, world: &World) -> String {
        format!("Pool `{}`", world.options.device.pool)
    }

    fn start(self: &Arc<Self>, world: &Arc<World>) -> JoinSet<()> {
        let (options, mut actors) = (&world.options.device, JoinSet::new());
        for (number, kind) in self.kinds.iter().enumerate() {
            // Stream 0 decides the kinds; each device has two more.
            let stream = 2 * number as u64;
            let reports = world.random(stream + 2);
            let device = Device {
                pool: pool(world, number),
                name: format!("{}/device-{number}", world.run),
                kind: *kind,
                plans: world.random(stream + 1),
                reports: Periodic::new(reports, world.start, options.report_interval),
                random: world.random(FAILURES + number as u64),
                world: world.clone(),
                fleet: self.clone(),
                held: None,
                lost_since: None,
                asked_since: None,
            };
            actors.spawn(device.live());
        }
        let (fleet, world) = (self.clone(), world.clone());
        actors.spawn(async move {
            if let Some(queue) = &fleet.queue {
                queue.produce(&world, &pool(&world, 0)).await;
            }
        });
        actors
    }

    fn stops(&self) {
        let completed = || self.verdicts.get("COMPLETE_VERDICT_COMPLETED");
        self.stopped.get_or_init(|| (self.concurrency.slot_time(), completed()));
    }

    fn level(&self, _: &World) -> Level {
        let in_flight = self.concurrency.now() as u64;
        let full = ("full", self.admissions.get("FULL"));
        match &self.queue {
            Some(queue) => queue.level(vec![("in flight", in_flight), full]),
            None => Level {
                name: "in flight",
                value: in_flight,
                per_second: false,
                cap: self.capacity.get(),
                counts: vec![("admitted", self.admitted.get()), full],
            },
        }
    }

    fn count(&self, _: &World, report: &mut Report) {
        let manners = [
            ("regular", DeviceManner::Regular),
            ("silent", DeviceManner::Silent),
            ("late", DeviceManner::Late),
            ("crashing", DeviceManner::Crashing),
        ];
        report.kinds("Devices", &self.kinds, &manners, "sending twice");
        match &self.queue {
            Some(queue) => queue.count(report),
            None => {
                let (admitted, reported) = (self.admitted.get(), self.reported.get());
                let expired = self.expired.get();
                let running = admitted.saturating_sub(reported + expired);
                let ends = [("reported", reported), ("expired, no result", expired)];
                report.rows("Leases admitted", admitted, &ends);
                report.row("  left running", running);
            }
        }
        let answers = ["full", "paused", "replayed", "no task", "already completed"];
        report.answers("AdmitTask", "", &self.admissions, &answers);
        let verdicts = ["completed", "late", "already completed", "stale token", "unknown"];
        report.answers("CompleteTask", "COMPLETE_VERDICT_", &self.verdicts, &verdicts);
    }

    fn chart(&self, _: &World, working: Duration, report: &mut Report) {
        if self.queue.is_none() {
            let more = match self.unserved.get() {
                0 => String::new(),
                unserved => format!("; {} still waited at the end", grouped(unserved)),
            };
            report.times("Wait for a slot", &self.waits, &more);
        }
        let (held, completed) = self.stopped.get().copied().unwrap_or_default();
        let working = working.as_secs_f64();
        let slots = self.capacity.get() as f64 * working;
        let used = if slots > 0.0 { held.as_secs_f64() / slots } else { 0.0 };
        let per_second = completed as f64 / working;
        report.line(&format!("{:<24}{:>10.1} %", "Utilisation", used * 100.0));
        report.line(&format!("{:<24}{per_second:>12.1}", "Completed per second"));
        report.value("utilisation", json!(used));
        report.value("completedPerSecond", json!(per_second));
    }

    async fn check(&self, world: &World, report: &mut Report) -> (String, String) {
        let (most, capacity) = (self.concurrency.most() as u64, self.capacity.get());
        let mut held = "the cap held".to_owned();
        let seen = match &self.queue {
            Some(queue) => Some(queue.seen(report).await),
            None => None,
        };
        let over_cap = most > capacity || seen.as_ref().is_some_and(|seen| seen.over_cap > 0);
        report.check(over_cap, "THE CAP WAS EXCEEDED");
        if let (Some(queue), Some(seen)) = (&self.queue, seen) {
            let lost = self.lost.get();
            let lists = queue.lists(&pool(world, 0), lost > 0).await.ok();
            queue.check(lists, &seen, lost, report);
            held += "\nEach task ran as often as its attempts say, and is done or dead";
        }
        let (most, capacity) = (grouped(most), grouped(capacity));
        (format!("In flight at most {most}, cap {capacity}"), held)
    }
}
