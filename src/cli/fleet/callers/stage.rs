//! One run: starts the callers, shows the progress, and stops them.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use tokio::{
    sync::watch::{Receiver, channel},
    task::JoinSet,
};

use super::{
    CallerOptions,
    caller::{Caller, Key},
    report::Report,
    schedule::Schedule,
    tally::Tally,
    witness::Witness,
};
use crate::{
    cli::{
        fleet::{
            FleetOptions,
            progress::{Level, Progress, Standing},
            random, watch,
        },
        signals::Signals,
    },
    decision::time::monotonic,
    grpc::client::{Against, Client},
};

/// The inputs of a run.
#[derive(Debug)]
pub(in crate::cli::fleet) struct Stage<'a> {
    pub(in crate::cli::fleet) options: &'a FleetOptions,
    pub(in crate::cli::fleet) seed: u64,
    /// Connections, which the callers share; at least one.
    pub(in crate::cli::fleet) clients: Vec<Client>,
    pub(in crate::cli::fleet) against: Against,
}

impl Stage<'_> {
    /// Runs to the end and returns the report.
    pub(in crate::cli::fleet) async fn play(self, mut signals: Signals) -> Report {
        let start = monotonic();
        let run = self.options.duration;
        let tally = Arc::new(Tally::new(start, run, self.callers().rule.window.duration()));
        let (stop, stopped) = channel(false);
        let mut callers = self.launch(&tally, start, &stopped);
        let mut progress = Progress::new();

        let standing = |finishing| self.standing(&tally, start, finishing);
        watch::until(start + run, &mut progress, &mut signals, || standing(None)).await;
        let (called_for, calls) = (start.elapsed(), tally.calls.get());
        // Fails only if all callers have already ended.
        let _ = stop.send(true);
        let finishing = |callers| standing(Some(callers));
        watch::finish(&mut callers, &mut progress, &mut signals, finishing).await;
        progress.end();

        Report::new(self.options, self.seed, &tally, called_for, calls)
    }

    fn callers(&self) -> &CallerOptions {
        &self.options.callers
    }

    fn launch(&self, tally: &Arc<Tally>, start: Instant, stop: &Receiver<bool>) -> JoinSet<()> {
        let options = self.callers();
        let against = Arc::new(self.against.clone());
        // Keys are unique per run, because the server still counts the calls of the last run.
        let run = random() as u32;
        let clients = self.clients.iter().cycle();
        let mut callers = JoinSet::new();
        for (number, client) in (0..options.keys).zip(clients) {
            let key = Key {
                client: client.clone(),
                name: format!("fleet/{run:08x}/{number}"),
                against: against.clone(),
                witness: Mutex::new(Witness::new(start, options.rule.window.duration())),
                tally: tally.clone(),
            };
            let caller = Caller {
                schedule: Schedule::new(options, self.seed, number, start),
                key: Arc::new(key),
                in_flight: options.in_flight(),
                patient: options.patient,
                stop: stop.clone(),
            };
            callers.spawn(caller.live());
        }
        callers
    }

    fn standing(&self, tally: &Tally, start: Instant, finishing: Option<usize>) -> Standing {
        Standing {
            elapsed: start.elapsed(),
            total: self.options.duration,
            name: "allowed/s",
            level: Level::PerSecond(tally.allowed()),
            cap: self.callers().sustained().round() as u64,
            counts: vec![
                ("allowed", tally.allowed()),
                ("throttled", tally.throttle.get()),
                ("banned", tally.ban.get()),
            ],
            calls: tally.calls.get(),
            finishing,
        }
    }
}
