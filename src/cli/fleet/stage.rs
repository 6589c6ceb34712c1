//! One run: starts the devices, shows the progress, and stops them.

use std::{sync::Arc, time::Instant};

use tokio::{
    sync::{
        Semaphore,
        watch::{Receiver, channel},
    },
    task::JoinSet,
};

use super::{
    FleetOptions,
    device::Device,
    plan::{self, Kind, Reports, Tasks},
    progress::{Level, Progress, Standing},
    random,
    report::{Fleet, Report},
    tally::Tally,
    uplink::{InFlight, Uplink},
    watch,
};
use crate::{cli::signals::Signals, decision::time::monotonic, grpc::client::Client};

/// The inputs of a run.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) options: &'a FleetOptions,
    pub(super) seed: u64,
    /// Connections, which the devices share; at least one.
    pub(super) clients: Vec<Client>,
    pub(super) tally: Arc<Tally>,
}

impl Stage<'_> {
    /// Runs to the end and returns the report.
    pub(super) async fn play(&self, mut signals: Signals) -> Report {
        let kinds = plan::kinds(self.options, self.seed);
        let start = monotonic();
        let (stop, stopped) = channel(false);
        let mut devices = self.launch(&kinds, start, &stopped);
        let mut progress = Progress::new();

        let end = start + self.options.duration;
        watch::until(end, &mut progress, &mut signals, || self.standing(start, None)).await;
        let (asked_for, calls_asking) = (start.elapsed(), self.tally.calls.get());
        // Fails only if all devices have already ended.
        let _ = stop.send(true);
        let finishing = |devices| self.standing(start, Some(devices));
        watch::finish(&mut devices, &mut progress, &mut signals, finishing).await;
        progress.end();

        let mut report = Report {
            server: self.options.server.clone(),
            pool: self.options.pool.clone(),
            seed: self.seed,
            fleet: Fleet::of(&kinds),
            asked_for,
            finished_in: start.elapsed().saturating_sub(asked_for),
            calls_asking,
            ..Report::default()
        };
        report.count(&self.tally);
        report
    }

    fn launch(&self, kinds: &[Kind], start: Instant, stop: &Receiver<bool>) -> JoinSet<()> {
        let pool: Arc<str> = self.options.pool.as_str().into();
        // Names are unique per run, because the server still stores the tasks of the last run as
        // completed.
        let run = random() as u32;
        let in_flight = InFlight::most(Semaphore::MAX_PERMITS);
        let clients = self.clients.iter().cycle();
        let mut devices = JoinSet::new();
        for ((number, kind), client) in (0u32..).zip(kinds).zip(clients) {
            let device = Device {
                kind: *kind,
                tasks: Tasks::new(self.options, self.seed, number),
                reports: Reports::new(self.options, self.seed, number, start),
                uplink: Uplink {
                    client: client.clone(),
                    pool: pool.clone(),
                    device: format!("{run:08x}/device-{number}"),
                    lease: self.options.lease,
                    twice: kind.twice,
                    // A device has at most two calls in flight.
                    in_flight: in_flight.clone(),
                    tally: self.tally.clone(),
                },
                stop: stop.clone(),
            };
            devices.spawn(device.live());
        }
        devices
    }

    fn standing(&self, start: Instant, finishing: Option<usize>) -> Standing {
        Standing {
            elapsed: start.elapsed(),
            total: self.options.duration,
            name: "in flight",
            level: Level::Now(self.tally.gauge.now() as u64),
            cap: self.tally.capacity().into(),
            counts: vec![("admitted", self.tally.admitted.get()), ("full", self.tally.full.get())],
            calls: self.tally.calls.get(),
            finishing,
        }
    }
}
