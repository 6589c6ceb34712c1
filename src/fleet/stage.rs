//! One run: the devices set going, watched, and stopped.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep_until},
};

use super::{
    FleetOptions, Report,
    device::Device,
    plan::{self, Kind, Reports, Tasks},
    progress::{Progress, Standing},
    random,
    report::Fleet,
    signals::Signals,
    tally::Tally,
    uplink::Uplink,
};
use crate::{grpc::client::Client, time::monotonic};

/// What a run is played with.
#[derive(Debug)]
pub(super) struct Stage<'a> {
    pub(super) options: &'a FleetOptions,
    pub(super) seed: u64,
    /// Connections, shared out among the devices; at least one.
    pub(super) clients: Vec<Client>,
    pub(super) tally: Arc<Tally>,
}

impl Stage<'_> {
    /// Plays to the end.
    pub(super) async fn play(&self, mut signals: Signals) -> Report {
        let kinds = plan::kinds(self.options, self.seed);
        let start = monotonic();
        let (stop, stopped) = watch::channel(false);
        let mut devices = self.launch(&kinds, start, &stopped);
        let mut progress = Progress::new();

        self.ask(&mut progress, start, &mut signals).await;
        let (asked_for, calls_asking) = (start.elapsed(), self.tally.calls.get());
        // The devices hold receivers; without any there is nobody to tell.
        let _ = stop.send(true);
        self.finish(&mut devices, &mut progress, start, &mut signals).await;
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

    fn launch(&self, kinds: &[Kind], start: Instant, stop: &watch::Receiver<bool>) -> JoinSet<()> {
        let pool: Arc<str> = self.options.pool.as_str().into();
        // Names of their own for each run: the server remembers the tasks of
        // the last one as completed.
        let run = random() as u32;
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
                    tally: self.tally.clone(),
                },
                stop: stop.clone(),
            };
            devices.spawn(device.live());
        }
        devices
    }

    /// Waits while new work is asked for.
    async fn ask(&self, progress: &mut Progress, start: Instant, signals: &mut Signals) {
        let mut tick = ticks(progress.period());
        let end = sleep_until((start + self.options.duration).into());
        tokio::pin!(end);
        loop {
            tokio::select! {
                () = &mut end => return,
                () = signals.next() => return,
                _ = tick.tick() => progress.show(&self.standing(start, None)),
            }
        }
    }

    /// Waits while tasks in hand are finished; a signal drops them.
    async fn finish(
        &self,
        devices: &mut JoinSet<()>,
        progress: &mut Progress,
        start: Instant,
        signals: &mut Signals,
    ) {
        let mut tick = ticks(progress.period());
        loop {
            tokio::select! {
                ended = devices.join_next() => if ended.is_none() { return },
                () = signals.next() => return devices.abort_all(),
                _ = tick.tick() => progress.show(&self.standing(start, Some(devices.len()))),
            }
        }
    }

    fn standing(&self, start: Instant, finishing: Option<usize>) -> Standing {
        Standing {
            elapsed: start.elapsed(),
            total: self.options.duration,
            in_flight: self.tally.gauge.now() as u64,
            capacity: self.tally.capacity(),
            admitted: self.tally.admitted.get(),
            full: self.tally.full.get(),
            calls: self.tally.calls.get(),
            finishing,
        }
    }
}

/// The first comes after one period: there is nothing to show at once.
fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.reset();
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
