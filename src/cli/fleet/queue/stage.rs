//! One run: starts the producer and the devices, shows the progress, and stops them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::watch::{Receiver, Sender, channel},
    task::JoinSet,
    time::sleep,
};

use super::{
    device::{Device, Memory},
    ledger::Ledger,
    lists,
    producer::{Names, Producer},
    report::Report,
    tally::Tally,
    witness::{Seen, Shared},
};
use crate::{
    cli::{
        caller::Follower,
        fleet::{
            FleetOptions,
            dice::Dice,
            plan::{self, Kind, Reports, Tasks},
            progress::{Level, Progress, Standing},
            random,
            report::Fleet,
            uplink::{InFlight, Uplink},
            watch,
        },
        signals::Signals,
    },
    decision::time::monotonic,
    grpc::client::{CallError, Client},
};

/// Maximum number of requests in flight of all devices, and of results. A higher number would
/// increase the latency but not the throughput.
const IN_FLIGHT_MAX: usize = 64;
/// First random stream that decides which attempts of a device fail.
const FAILURES: u64 = 1 << 40;
/// Time to wait for the last events.
const EVENTS_LATE: Duration = Duration::from_secs(10);

/// The inputs of a run.
#[derive(Debug)]
pub(in crate::cli::fleet) struct Stage<'a> {
    options: &'a FleetOptions,
    seed: u64,
    /// Connections, which the devices share; at least one.
    clients: Vec<Client>,
    names: Arc<Names>,
    ledger: Arc<Ledger>,
    tally: Arc<Tally>,
    witness: Shared,
}

impl<'a> Stage<'a> {
    /// Configures the pool and opens its stream of events.
    pub(in crate::cli::fleet) async fn open(
        options: &'a FleetOptions,
        seed: u64,
        clients: Vec<Client>,
    ) -> Result<Stage<'a>, CallError> {
        let queue = &options.queue;
        let (tasks, devices) = (queue.tasks, options.devices);
        // Names are unique per run, because the server still stores the tasks of the last run.
        let names = Names { run: random() as u32, devices, tasks, payload: queue.payload };
        let (tally, witness) = (Arc::<Tally>::default(), Shared::new(names.prefix()));
        if let Some(client) = clients.first() {
            let max_attempts = Some(queue.max_attempts);
            let set = client.configure_pool(&options.pool, options.capacity, max_attempts);
            tally.devices.usage(set.await?);
            let follower = Follower::open(client.clone(), &options.pool, None).await;
            match follower {
                Ok(follower) => drop(tokio::spawn(witness.clone().follow(follower))),
                Err(error) => witness.lack(error.to_string()),
            }
        }
        let ledger = Ledger::new(
            tasks as usize,
            devices as usize,
            queue.max_attempts,
            queue.payload as usize,
        );
        let (names, ledger) = (Arc::new(names), Arc::new(ledger));
        Ok(Stage { options, seed, clients, names, ledger, tally, witness })
    }

    /// Runs to the end and returns the report.
    pub(in crate::cli::fleet) async fn play(self, mut signals: Signals) -> Report {
        let kinds = plan::kinds(self.options, self.seed);
        let start = monotonic();
        let (stop, stopped) = channel(false);
        let (queued, all_queued) = channel(false);
        let mut work = self.launch(&kinds, start, &stopped, &all_queued);
        work.spawn(self.queue(queued, stopped));
        let mut progress = Progress::new();

        let standing = |finishing| self.standing(start, finishing);
        let end = start + self.options.duration;
        watch::work(&mut work, end, &mut progress, &mut signals, || standing(None)).await;
        // Fails only if all devices have already ended.
        let _ = stop.send(true);
        let finishing = |devices| standing(Some(devices));
        watch::finish(&mut work, &mut progress, &mut signals, finishing).await;
        progress.end();

        let (length, calls) = (start.elapsed(), self.tally.devices.calls.get());
        let lists = match self.clients.first() {
            Some(client) => {
                let (pool, may_lack) = (&self.options.pool, self.tally.lost.get() > 0);
                lists::compare(client, pool, &self.names, &self.ledger, may_lack).await.ok()
            }
            None => None,
        };
        let seen = self.seen().await;
        let (pool, server) = (&self.options.pool, &self.options.server);
        Report::new(&Fleet::of(&kinds), self.options.queue.tasks, &self.ledger, &self.tally)
            .at(format!("Pool `{pool}` at {server}, seed {}", self.seed))
            .took(length, calls)
            .compared(lists, seen)
    }

    /// Queues all tasks, then notifies the devices.
    fn queue(
        &self,
        all_queued: Sender<bool>,
        stop: Receiver<bool>,
    ) -> impl Future<Output = ()> + 'static {
        let producer = self.clients.first().map(|client| Producer {
            client: client.clone(),
            pool: self.options.pool.as_str().into(),
            names: self.names.clone(),
            ledger: self.ledger.clone(),
            tally: self.tally.clone(),
            witness: self.witness.clone(),
            stop,
        });
        async move {
            if let Some(producer) = producer {
                producer.work().await;
            }
            // Fails only if all devices have already ended.
            let _ = all_queued.send(true);
        }
    }

    fn launch(
        &self,
        kinds: &[Kind],
        start: Instant,
        stop: &Receiver<bool>,
        all_queued: &Receiver<bool>,
    ) -> JoinSet<()> {
        let pool: Arc<str> = self.options.pool.as_str().into();
        let in_flight = InFlight::most(IN_FLIGHT_MAX);
        let clients = self.clients.iter().cycle();
        let mut devices = JoinSet::new();
        for ((number, kind), client) in (0u32..).zip(kinds).zip(clients) {
            let device = Device {
                kind: *kind,
                tasks: Tasks::new(self.options, self.seed, number),
                reports: Reports::new(self.options, self.seed, number, start),
                dice: Dice::new(self.seed, FAILURES + u64::from(number)),
                fail: self.options.queue.fail,
                uplink: Uplink {
                    client: client.clone(),
                    pool: pool.clone(),
                    device: self.names.device(number as usize),
                    lease: self.options.lease,
                    twice: kind.twice,
                    in_flight: in_flight.clone(),
                    tally: self.tally.devices.clone(),
                },
                ledger: self.ledger.clone(),
                tally: self.tally.clone(),
                all_queued: all_queued.clone(),
                stop: stop.clone(),
                memory: Memory::default(),
            };
            devices.spawn(device.live());
        }
        devices
    }

    /// Waits for the events of all attempts, at most 10 s, and returns their sums.
    async fn seen(&self) -> Seen {
        let late = monotonic() + EVENTS_LATE;
        loop {
            let (seen, totals) = (self.witness.seen(), self.ledger.totals());
            let is_all = seen.dispatched >= totals.dispatched && seen.running == 0;
            if is_all || seen.lack.is_some() || monotonic() >= late {
                return seen;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn standing(&self, start: Instant, finishing: Option<usize>) -> Standing {
        let totals = self.ledger.totals();
        Standing {
            elapsed: start.elapsed(),
            total: self.options.duration,
            name: "done",
            level: Level::Now(totals.done),
            cap: self.options.queue.tasks.into(),
            counts: vec![
                ("dispatched", totals.dispatched),
                ("in flight", self.tally.devices.gauge.now() as u64),
                ("full", self.tally.devices.full.get()),
            ],
            calls: self.tally.devices.calls.get(),
            finishing,
        }
    }
}
