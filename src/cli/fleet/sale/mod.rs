//! A flash sale: many buyers, few items.
//!
//! Each buyer knows the answers about its order. Their total is compared with the items on sale and
//! with the stock at the end.

mod buyer;

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tollgate_client::{Error, Stock};

use self::buyer::{Buyer, Manner, kinds};
use super::{
    calls::Calls,
    counters::{Counter, Counts},
    options::FleetOptions,
    progress::Level,
    report::{Course, Report},
    run::{Simulation, World},
    schedule::Stop,
};
use crate::decision::text::{grouped, length};

/// Maximum number of reservations in flight of all buyers, and of payments and cancellations. It
/// bounds the memory of a run and keeps below the limits of a server.
const IN_FLIGHT_MAX: usize = 500;

/// A flash sale.
#[derive(Debug)]
pub(super) struct Sale {
    kinds: Vec<(Manner, bool)>,
    start: Option<Instant>,
    shared: Arc<Shared>,
}

/// What the buyers share. Answers count each, so a call that is made twice counts twice; buyers
/// count once.
#[derive(Debug, Default)]
struct Shared {
    sku: String,
    /// Number of items on sale.
    items: u64,
    hold: Duration,
    calls: Arc<Calls>,
    reservations: Counts,
    confirmations: Counts,
    cancellations: Counts,
    /// Buyers whose order is confirmed.
    bought: Counter,
    /// Buyers that paid and got no answer.
    unsure: Counter,
    /// Orders that two concurrent calls both reserved or both confirmed.
    doubled: Counter,
    /// Answers whose stock does not add up to the items on sale.
    astray: Counter,
    /// Time at which the last item was sold.
    sold_out: OnceLock<Instant>,
}

impl Shared {
    /// Whether a stock adds up to the items on sale: only the sale changes it.
    fn adds_up(&self, stock: &Stock) -> bool {
        stock.on_hand + stock.sold == self.items
    }

    /// Checks the stock of an answer.
    fn stock(&self, stock: &Stock) {
        if !self.adds_up(stock) {
            self.astray.add();
        }
    }

    /// Counts a buyer whose order is confirmed.
    fn buys(&self, now: Instant) {
        self.bought.add();
        if self.bought.get() >= self.items {
            self.sold_out.get_or_init(|| now);
        }
    }

    /// Compares the counts with the stock at the end, if it could be read.
    fn check(&self, left: Option<Stock>, report: &mut Report) {
        let (bought, unsure) = (self.bought.get(), self.unsure.get());
        let sold = left.as_ref().map_or(bought, |left| left.sold);
        let oversold = bought.max(sold) > self.items;
        report.check(oversold, "OVERSOLD");
        report.check(self.doubled.get() > 0, "AN ITEM WENT TO ONE ORDER TWICE");
        let adds_up = left.is_none_or(|left| self.adds_up(&left));
        let is_known = (bought..=bought + unsure).contains(&sold);
        let astray = self.astray.get() > 0 || !adds_up || !is_known;
        report.check(astray && !oversold, "THE STOCK DOES NOT ADD UP");
    }
}

impl Simulation for Sale {
    fn actors(options: &FleetOptions) -> (u32, usize) {
        (options.sale_options.buyers, IN_FLIGHT_MAX)
    }

    /// Sets the stock of the sale.
    async fn open(world: &World<'_>) -> Result<Sale, Error> {
        let options = &world.options.sale_options;
        let (sku, items) = (format!("sale/{:08x}", world.run), options.items.into());
        world.connection(0).set_stock(&sku, items).await?;
        let (hold, calls) = (options.hold, world.calls.clone());
        let shared = Shared { sku, items, hold, calls, ..Shared::default() };
        Ok(Sale { kinds: kinds(options, world.random(0)), start: None, shared: Arc::new(shared) })
    }

    fn title(&self, _: &World<'_>) -> String {
        format!("Sale of `{}`", self.shared.sku)
    }

    fn start(&mut self, world: &World<'_>, start: Instant, stop: &Stop) -> JoinSet<()> {
        self.start = Some(start);
        let mut actors = JoinSet::new();
        for (number, (manner, twice)) in (1..).zip(&self.kinds) {
            // Stream 0 decides the kinds of the buyers.
            let mut random = world.random(number as u64);
            let buyer = Buyer {
                connection: world.connection(number).clone(),
                order: format!("buyer-{number}"),
                manner: *manner,
                twice: *twice,
                arrives: start + world.options.sale_options.rush.mul_f64(random.fraction()),
                random,
                shared: self.shared.clone(),
                stop: stop.clone(),
            };
            actors.spawn(buyer.live());
        }
        actors
    }

    fn level(&self, _: &World<'_>) -> Level {
        let shared = &self.shared;
        let count = |name, outcome| (name, shared.reservations.get(outcome));
        Level {
            name: "sold",
            value: shared.bought.get(),
            per_second: false,
            cap: shared.items,
            counts: vec![
                count("reserved", "RESERVE_OUTCOME_RESERVED"),
                count("short", "RESERVE_OUTCOME_SHORT"),
            ],
        }
    }

    fn count(&self, report: &mut Report) {
        let of = |manner| self.kinds.iter().filter(|kind| kind.0 == manner).count() as u64;
        let parts = [
            ("paying", of(Manner::Pays)),
            ("paying late", of(Manner::PaysLate)),
            ("never paying", of(Manner::NeverPays)),
            ("cancelling", of(Manner::Cancels)),
            ("calling twice", self.kinds.iter().filter(|kind| kind.1).count() as u64),
        ];
        report.rows("Buyers", self.kinds.len() as u64, &parts);
        let shared = &self.shared;
        let names = ["reserved", "replayed", "short", "buyer limit", "already settled"];
        report.answers("ReserveStock", "RESERVE_OUTCOME_", &shared.reservations, &names);
        let names =
            ["confirmed", "retaken", "already confirmed", "expired", "cancelled", "unknown"];
        report.answers("ConfirmReservation", "CONFIRM_OUTCOME_", &shared.confirmations, &names);
        let names = ["cancelled", "already cancelled", "already confirmed", "expired", "unknown"];
        report.answers("CancelReservation", "CANCEL_OUTCOME_", &shared.cancellations, &names);
    }

    async fn check(&self, world: &World<'_>, _: &Course, report: &mut Report) -> (String, String) {
        let shared = &self.shared;
        shared.check(world.connection(0).get_stock(&shared.sku).await.ok(), report);
        let sold_out = shared.sold_out.get().zip(self.start);
        report.note(match sold_out {
            Some((at, start)) => {
                format!("Sold out after {}", length(at.saturating_duration_since(start)))
            }
            None => "Not sold out".to_owned(),
        });
        let (bought, items) = (grouped(shared.bought.get()), grouped(shared.items));
        (format!("Sold {bought} of {items}"), "none twice, never oversold".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::time::monotonic;

    #[test]
    fn one_item_too_many_is_a_violation() {
        let sale = |bought| {
            let shared = Shared { items: 50, ..Shared::default() };
            (0..bought).for_each(|_| shared.buys(monotonic()));
            shared
        };
        let verdict = |shared: &Shared, left: Option<(u64, u64)>| {
            let mut report = Report::default();
            let left = left.map(|(on_hand, sold)| Stock { on_hand, sold, ..Stock::default() });
            shared.check(left, &mut report);
            report.verdict("Sold", "held");
            report.to_string()
        };
        assert_eq!(verdict(&sale(49), Some((1, 49))), "Sold: held\n");
        assert_eq!(verdict(&sale(49), None), "Sold: held\n");
        assert_eq!(verdict(&sale(51), Some((0, 50))), "Sold: OVERSOLD\n");
        assert_eq!(verdict(&sale(50), Some((0, 51))), "Sold: OVERSOLD\n");
        for left in [(0, 50), (2, 49), (2, 48)] {
            let text = verdict(&sale(49), Some(left));
            assert_eq!(text, "Sold: THE STOCK DOES NOT ADD UP\n", "{left:?}");
        }
        // One buyer paid but got no answer.
        let unsure = sale(49);
        unsure.unsure.add();
        assert_eq!(verdict(&unsure, Some((0, 50))), "Sold: held\n");
        let doubled = sale(49);
        doubled.doubled.add();
        assert!(verdict(&doubled, Some((1, 49))).contains("TWICE"));
        let astray = sale(49);
        astray.stock(&Stock { on_hand: 2, sold: 49, ..Stock::default() });
        assert!(verdict(&astray, Some((1, 49))).contains("DOES NOT ADD UP"));
    }
}
