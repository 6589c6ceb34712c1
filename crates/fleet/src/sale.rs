//! A flash sale: many buyers, few items.
//!
//! Each buyer knows what became of its order. The total is compared with the items on sale and with
//! the stock at the end.

mod buyer;

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use tokio::task::JoinSet;
use tollgate_client::{Error, Stock};

use self::buyer::{BuyerManner, SaleBuyer};
use super::{
    counters::{AtomicCounter, NamedCounts},
    options::FleetOptions,
    progress::Level,
    random::Kind,
    report::Report,
    run::{Simulation, World},
};
use tollgate_core::time::monotonic;
use tollgate_telemetry::text::{grouped, length};

/// Maximum number of reservations in flight for all buyers, and of payments and cancellations. It
/// bounds the memory of a run and stays below the limits of a server.
const IN_FLIGHT_MAX: usize = 500;

/// The shared state of the buyers. Every answer counts, so a call that is made twice counts twice,
/// but a buyer counts once.
#[derive(Debug, Default)]
pub(super) struct Sale {
    kinds: Vec<Kind<BuyerManner>>,
    sku: String,
    /// Number of items on sale.
    items: u64,
    reservations: NamedCounts,
    confirmations: NamedCounts,
    cancellations: NamedCounts,
    /// Buyers whose order is confirmed.
    bought: AtomicCounter,
    /// Buyers who paid but got no answer.
    unsure: AtomicCounter,
    /// Orders that two concurrent calls both reserved or both confirmed.
    doubled: AtomicCounter,
    /// Answers whose stock does not add up to the items on sale.
    astray: AtomicCounter,
    /// When the last item was sold.
    sold_out: OnceLock<Instant>,
}

impl Sale {
    /// Whether a stock adds up to the items on sale, since only the sale changes it.
    fn adds_up(&self, stock: &Stock) -> bool {
        stock.on_hand + stock.sold == self.items
    }

    /// Checks the stock in an answer.
    fn stock(&self, stock: &Stock) {
        if !self.adds_up(stock) {
            self.astray.add();
        }
    }

    /// Counts a buyer whose order is confirmed.
    fn buys(&self) {
        self.bought.add();
        if self.bought.get() >= self.items {
            self.sold_out.get_or_init(monotonic);
        }
    }

    /// Compares the counts with the stock at the end, if it could be read.
    fn compare(&self, left: Option<Stock>, report: &mut Report) {
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
    async fn open(world: &World) -> Result<Sale, Error> {
        let options = &world.options.sale_options;
        let (sku, items) = (format!("sale/{}", world.run), options.items.into());
        world.connection(0).set_stock(&sku, items).await?;
        let shares = [
            (BuyerManner::NeverPays, options.never_pay),
            (BuyerManner::PaysLate, options.pay_late),
            (BuyerManner::Cancels, options.cancel),
        ];
        let kinds =
            world.random(0).kinds(options.buyers, &shares, BuyerManner::Pays, options.repeat);
        Ok(Sale { kinds, sku, items, ..Sale::default() })
    }

    fn title(&self, _: &World) -> String {
        format!("Sale of `{}`", self.sku)
    }

    fn start(self: &Arc<Self>, world: &Arc<World>) -> JoinSet<()> {
        let mut actors = JoinSet::new();
        for (number, kind) in (1..).zip(&self.kinds) {
            // Stream 0 decides the kinds of the buyers.
            let mut random = world.random(number as u64);
            let arrives = world.options.sale_options.rush.mul_f64(random.fraction());
            let buyer = SaleBuyer {
                connection: world.connection(number).clone(),
                order: format!("buyer-{number}"),
                kind: *kind,
                arrives: world.start + arrives,
                random,
                world: world.clone(),
                sale: self.clone(),
            };
            actors.spawn(buyer.live());
        }
        actors
    }

    fn level(&self, _: &World) -> Level {
        let count = |name, outcome| (name, self.reservations.get(outcome));
        Level {
            name: "sold",
            value: self.bought.get(),
            per_second: false,
            cap: self.items,
            counts: vec![
                count("reserved", "RESERVE_OUTCOME_RESERVED"),
                count("short", "RESERVE_OUTCOME_SHORT"),
            ],
        }
    }

    fn count(&self, _: &World, report: &mut Report) {
        let manners = [
            ("paying", BuyerManner::Pays),
            ("paying late", BuyerManner::PaysLate),
            ("never paying", BuyerManner::NeverPays),
            ("cancelling", BuyerManner::Cancels),
        ];
        report.kinds("Buyers", &self.kinds, &manners, "calling twice");
        let names = ["reserved", "replayed", "short", "buyer limit", "already settled"];
        report.answers("ReserveStock", "RESERVE_OUTCOME_", &self.reservations, &names);
        let names =
            ["confirmed", "retaken", "already confirmed", "expired", "cancelled", "unknown"];
        report.answers("ConfirmReservation", "CONFIRM_OUTCOME_", &self.confirmations, &names);
        let names = ["cancelled", "already cancelled", "already confirmed", "expired", "unknown"];
        report.answers("CancelReservation", "CANCEL_OUTCOME_", &self.cancellations, &names);
    }

    async fn check(&self, world: &World, report: &mut Report) -> (String, String) {
        let stock = world.connection(0).get_stock(&self.sku).await;
        self.compare(stock.ok().map(|(stock, _)| stock), report);
        report.add_note(match self.sold_out.get() {
            Some(at) => {
                format!("Sold out after {}", length(at.saturating_duration_since(world.start)))
            }
            None => "Not sold out".to_owned(),
        });
        let (bought, items) = (grouped(self.bought.get()), grouped(self.items));
        (format!("Sold {bought} of {items}"), "none twice, never oversold".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_item_too_many_is_a_violation() {
        let sale = |bought| {
            let sale = Sale { items: 50, ..Sale::default() };
            (0..bought).for_each(|_| sale.buys());
            sale
        };
        let verdict = |sale: &Sale, left: Option<(u64, u64)>| {
            let mut report = Report::default();
            let left = left.map(|(on_hand, sold)| Stock { on_hand, sold, ..Stock::default() });
            sale.compare(left, &mut report);
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
