//! One run: starts the buyers, shows the progress, and stops them.

use std::{sync::Arc, time::Instant};

use tokio::{
    sync::{
        Semaphore,
        watch::{Receiver, channel},
    },
    task::JoinSet,
};

use super::{
    SaleOptions,
    buyer::{Buyer, kinds},
    report::Report,
    tally::Tally,
    till::Till,
};
use crate::{
    cli::{
        fleet::{
            FleetOptions,
            dice::Dice,
            progress::{Level, Progress, Standing},
            random, watch,
        },
        signals::Signals,
    },
    decision::time::monotonic,
    grpc::client::{CallError, Client},
};

/// Maximum number of calls in flight of all buyers. It bounds the memory of a run and keeps below
/// the limits of a server.
const IN_FLIGHT_MAX: usize = 1000;

/// The inputs of a run.
#[derive(Debug)]
pub(in crate::cli::fleet) struct Stage<'a> {
    pub(in crate::cli::fleet) options: &'a FleetOptions,
    pub(in crate::cli::fleet) seed: u64,
    /// Connections, which the buyers share; at least one.
    pub(in crate::cli::fleet) clients: Vec<Client>,
    /// New in every run, because the sold quantity of a sku stays counted.
    sku: Arc<str>,
}

impl<'a> Stage<'a> {
    /// Sets the stock of the sale.
    pub(in crate::cli::fleet) async fn open(
        options: &'a FleetOptions,
        seed: u64,
        clients: Vec<Client>,
    ) -> Result<Stage<'a>, CallError> {
        let sku: Arc<str> = format!("sale/{:08x}", random() as u32).into();
        if let Some(client) = clients.first() {
            client.set_stock(&sku, options.sale_options.items.into()).await?;
        }
        Ok(Stage { options, seed, clients, sku })
    }

    /// Runs to the end and returns the report.
    pub(in crate::cli::fleet) async fn play(self, mut signals: Signals) -> Report {
        let kinds = kinds(self.sale(), self.seed);
        let tally = Arc::new(Tally::new(self.sale().items.into()));
        let start = monotonic();
        let (stop, stopped) = channel(false);
        let mut buyers = self.launch(&kinds, &tally, start, &stopped);
        let mut progress = Progress::new();

        let standing = |finishing| self.standing(&tally, start, finishing);
        let end = start + self.options.duration;
        watch::work(&mut buyers, end, &mut progress, &mut signals, || standing(None)).await;
        // Fails only if all buyers have already ended.
        let _ = stop.send(true);
        let finishing = |buyers| standing(Some(buyers));
        watch::finish(&mut buyers, &mut progress, &mut signals, finishing).await;
        progress.end();

        let (length, calls) = (start.elapsed(), tally.calls.get());
        let left = match self.clients.first() {
            Some(client) => client.get_stock(&self.sku).await.ok(),
            None => None,
        };
        let sold_out = tally.sold_out.get().map(|at| at.saturating_duration_since(start));
        Report::new(&kinds, &tally, left)
            .at(format!("Sale of `{}` at {}, seed {}", self.sku, self.options.server, self.seed))
            .took(length, sold_out, calls)
    }

    fn sale(&self) -> &SaleOptions {
        &self.options.sale_options
    }

    fn launch(
        &self,
        kinds: &[(super::buyer::Manner, bool)],
        tally: &Arc<Tally>,
        start: Instant,
        stop: &Receiver<bool>,
    ) -> JoinSet<()> {
        let in_flight = Arc::new(Semaphore::new(IN_FLIGHT_MAX));
        let clients = self.clients.iter().cycle();
        let mut buyers = JoinSet::new();
        for ((number, (manner, twice)), client) in (1u64..).zip(kinds).zip(clients) {
            // Stream 0 decides the kinds of the buyers.
            let mut dice = Dice::new(self.seed, number);
            let till = Till {
                client: client.clone(),
                sku: self.sku.clone(),
                order: format!("buyer-{number}"),
                hold: self.sale().hold,
                twice: *twice,
                in_flight: in_flight.clone(),
                tally: tally.clone(),
            };
            let arrives = start + self.sale().rush.mul_f64(dice.fraction());
            let buyer = Buyer { manner: *manner, arrives, till, dice, stop: stop.clone() };
            buyers.spawn(buyer.live());
        }
        buyers
    }

    fn standing(&self, tally: &Tally, start: Instant, finishing: Option<usize>) -> Standing {
        Standing {
            elapsed: start.elapsed(),
            total: self.options.duration,
            name: "sold",
            level: Level::Now(tally.bought.get()),
            cap: tally.items(),
            counts: vec![("reserved", tally.reserved.get()), ("short", tally.short.get())],
            calls: tally.calls.get(),
            finishing,
        }
    }
}
