//! One simulated buyer: asks until it has an item or all are sold, and then may pay.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep_until;
use tollgate_client::{
    ConfirmOutcome, Connection, Order, ReserveOutcome,
    pb::{Reservation, ReserveStockResponse},
    time,
};

use super::Sale;
use crate::{
    random::{Kind, Random},
    run::World,
};
use tollgate_core::time::monotonic;

/// Pause after a failed call.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// Maximum number of attempts at a payment or cancellation that gets no answer.
const TRIES_MAX: usize = 20;
/// How long after the end of the hold a late payment is made.
const BEYOND: Duration = Duration::from_millis(20);

/// How a buyer with a hold behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BuyerManner {
    /// Pays in time.
    Pays,
    /// Pays after the hold has lapsed.
    PaysLate,
    /// Never pays and never cancels.
    NeverPays,
    /// Cancels.
    Cancels,
}

/// A buyer of the sale.
#[derive(Debug)]
pub(super) struct SaleBuyer {
    pub(super) connection: Connection,
    /// Name of the buyer and of its order.
    pub(super) order: String,
    pub(super) kind: Kind<BuyerManner>,
    /// When it makes its first call.
    pub(super) arrives: Instant,
    pub(super) random: Random,
    pub(super) world: Arc<World>,
    pub(super) sale: Arc<Sale>,
}

/// The result of a reservation, in order of preference: of two answers the lower one applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reserved {
    /// The buyer has a hold.
    Held,
    /// An item may be available after this time.
    Short(Duration),
    /// All items are sold.
    Over,
}

impl SaleBuyer {
    /// Runs until the buyer has an item or cannot get one.
    pub(super) async fn live(mut self) {
        let mut until = self.arrives;
        while self.world.stop.pause(until).await {
            until = match self.reserve().await {
                Some(Reserved::Held) => return self.settle().await,
                Some(Reserved::Over) => return,
                // A random delay, so that not all buyers retry at the moment when a hold may lapse.
                Some(Reserved::Short(wait)) => {
                    monotonic() + wait + self.part_of(self.hold_duration() / 2)
                }
                None => monotonic() + AFTER_FAILURE + self.part_of(AFTER_FAILURE),
            };
        }
    }

    /// Reserves an item. Returns `None` if there is no answer.
    async fn reserve(&self) -> Option<Reserved> {
        let (sale, calls) = (&self.sale, &self.world.calls);
        let order = Order {
            sku: &sale.sku,
            order: &self.order,
            quantity: 1,
            hold: Some(self.hold_duration()),
            buyer: &self.order,
            buyer_limit: Some(1),
        };
        let call = || self.connection.reserve_stock(&order);
        let answers = calls.repeat(self.kind.twice, &calls.requests, call).await;
        let fresh: Vec<_> = answers.iter().filter_map(|(it, _)| fresh(it)).collect();
        if let [one, other] = fresh[..]
            && overlap(one, other)
        {
            sale.doubled.add();
        }
        for (answer, stock) in &answers {
            sale.stock(stock);
            let is_repeat = answer.outcome() == ReserveOutcome::Reserved && answer.replayed;
            let outcome = answer.outcome().as_str_name();
            sale.reservations.add(if is_repeat { "RESERVE_OUTCOME_REPLAYED" } else { outcome });
        }
        answers.iter().map(|(answer, _)| reserved(answer)).min()
    }

    /// Pays or cancels according to its behaviour. If the sale has ended, it pays immediately.
    async fn settle(mut self) {
        let (now, hold) = (monotonic(), self.hold_duration());
        let (late, thought) = match self.kind.manner {
            BuyerManner::NeverPays => return,
            BuyerManner::PaysLate => (true, now + hold + BEYOND + self.part_of(hold / 2)),
            BuyerManner::Pays | BuyerManner::Cancels => (false, now + self.part_of(hold / 2)),
        };
        if !self.world.stop.pause(thought).await && late {
            return;
        }
        let pays = self.kind.manner != BuyerManner::Cancels;
        for _ in 0..TRIES_MAX {
            let is_answered = if pays { self.confirm().await } else { self.cancel().await };
            if is_answered {
                return;
            }
            sleep_until((monotonic() + AFTER_FAILURE).into()).await;
        }
        if pays {
            // The payment may have been executed.
            self.sale.unsure.add();
        }
    }

    /// Pays. Returns false if there is no answer.
    async fn confirm(&self) -> bool {
        let (sale, calls) = (&self.sale, &self.world.calls);
        let call = || self.connection.confirm_reservation(&sale.sku, &self.order);
        let answers = calls.repeat(self.kind.twice, &calls.results, call).await;
        let (mut confirmed, mut is_buyer) = (0, false);
        for (answer, stock) in &answers {
            sale.stock(stock);
            let outcome = answer.outcome();
            let is_confirmed = outcome == ConfirmOutcome::Confirmed;
            let is_retaken = is_confirmed && answer.retaken;
            let name = if is_retaken { "CONFIRM_OUTCOME_RETAKEN" } else { outcome.as_str_name() };
            sale.confirmations.add(name);
            confirmed += u8::from(is_confirmed);
            is_buyer |= is_confirmed || outcome == ConfirmOutcome::AlreadyConfirmed;
        }
        if confirmed > 1 {
            sale.doubled.add();
        }
        if is_buyer {
            sale.buys();
        }
        !answers.is_empty()
    }

    /// Cancels. Returns false if there is no answer.
    async fn cancel(&self) -> bool {
        let (sale, calls) = (&self.sale, &self.world.calls);
        let call = || self.connection.cancel_reservation(&sale.sku, &self.order);
        let answers = calls.repeat(self.kind.twice, &calls.results, call).await;
        for (outcome, stock) in &answers {
            sale.stock(stock);
            sale.cancellations.add(outcome.as_str_name());
        }
        !answers.is_empty()
    }

    fn hold_duration(&self) -> Duration {
        self.world.options.sale_options.hold
    }

    /// Returns a random fraction of a duration.
    fn part_of(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.random.fraction())
    }
}

/// Returns the reservation if this answer made it.
fn fresh(answer: &ReserveStockResponse) -> Option<&Reservation> {
    let is_fresh = answer.outcome() == ReserveOutcome::Reserved && !answer.replayed;
    answer.reservation.as_ref().filter(|_| is_fresh)
}

/// Whether two reservations held an item at the same time.
fn overlap(one: &Reservation, other: &Reservation) -> bool {
    let starts = time::time(one.reserve_time).ok().max(time::time(other.reserve_time).ok());
    let ends = [one, other].map(|it| time::time(it.expire_time).ok());
    starts < ends[0].min(ends[1])
}

fn reserved(answer: &ReserveStockResponse) -> Reserved {
    let wait = time::length(answer.retry_after, "retry_after");
    match (answer.outcome(), wait) {
        (ReserveOutcome::Reserved, _) => Reserved::Held,
        (ReserveOutcome::Short, Ok(wait)) => Reserved::Short(wait),
        _ => Reserved::Over,
    }
}
