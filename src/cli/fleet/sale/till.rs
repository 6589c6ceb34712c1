//! A buyer's connection: makes each of its calls once or twice, and counts the answers.

use std::{sync::Arc, time::Duration};

use tokio::{join, sync::Semaphore};

use super::tally::Tally;
use crate::{
    decision::time::monotonic,
    grpc::client::{CallError, Client, Reserving},
    stock::{ConfirmOutcome, Reservation, ReserveOutcome, Stock},
};

/// The calls of one buyer.
#[derive(Debug)]
pub(super) struct Till {
    /// The connection, shared with other buyers.
    pub(super) client: Client,
    pub(super) sku: Arc<str>,
    /// Name of the buyer and of its order.
    pub(super) order: String,
    pub(super) hold: Duration,
    /// Whether each call is made twice.
    pub(super) twice: bool,
    /// Permits of the calls of all buyers.
    pub(super) in_flight: Arc<Semaphore>,
    pub(super) tally: Arc<Tally>,
}

/// The result of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The buyer has a hold.
    Held,
    /// An item may be available after this time.
    Short(Duration),
    /// All items are sold.
    Over,
    /// No answer.
    Failed,
}

impl Till {
    /// Reserves an item.
    pub(super) async fn reserve(&self) -> Asked {
        let wish = Reserving {
            sku: &self.sku,
            order: &self.order,
            quantity: 1,
            hold: Some(self.hold),
            buyer: &self.order,
            limit: Some(1),
        };
        let ask = || self.call(self.client.reserve_stock(&wish));
        let answers = self.make(ask).await;
        let fresh: Vec<&Reservation> = answers.iter().flatten().filter_map(fresh).collect();
        if let [one, other] = fresh[..]
            && one.grant.max(other.grant) < one.expire.min(other.expire)
        {
            self.tally.doubled.add();
        }
        answers.iter().flatten().for_each(|outcome| self.tally.reserved(outcome));
        let known = answers.iter().flatten().map(asked);
        // Of two answers, the better one counts.
        known
            .min_by_key(|asked| match asked {
                Asked::Held => 0,
                Asked::Short(_) => 1,
                Asked::Over | Asked::Failed => 2,
            })
            .unwrap_or(Asked::Failed)
    }

    /// Pays; false without an answer.
    pub(super) async fn confirm(&self) -> bool {
        let confirm = || self.call(self.client.confirm_reservation(&self.sku, &self.order));
        let answers = self.make(confirm).await;
        let sold = |outcome: &&ConfirmOutcome| matches!(outcome, ConfirmOutcome::Confirmed { .. });
        if answers.iter().flatten().filter(sold).count() > 1 {
            self.tally.doubled.add();
        }
        answers.iter().flatten().for_each(|outcome| self.tally.confirmed(*outcome));
        let is_buyer = |outcome: &ConfirmOutcome| {
            matches!(outcome, ConfirmOutcome::Confirmed { .. } | ConfirmOutcome::AlreadyConfirmed)
        };
        if answers.iter().flatten().any(is_buyer) {
            self.tally.buys(monotonic());
        }
        answers.iter().any(Option::is_some)
    }

    /// Cancels; false without an answer.
    pub(super) async fn cancel(&self) -> bool {
        let cancel = || self.call(self.client.cancel_reservation(&self.sku, &self.order));
        let answers = self.make(cancel).await;
        answers.iter().flatten().for_each(|outcome| self.tally.cancelled(*outcome));
        answers.iter().any(Option::is_some)
    }

    /// Makes a call once, or twice at once. `None` stands for a failed call.
    async fn make<T, F>(&self, call: impl Fn() -> F) -> [Option<T>; 2]
    where
        F: Future<Output = Option<T>>,
    {
        match self.twice {
            true => join!(call(), call()).into(),
            false => [call().await, None],
        }
    }

    async fn call<T>(
        &self,
        call: impl Future<Output = Result<(T, Stock), CallError>>,
    ) -> Option<T> {
        // The semaphore is never closed.
        let _place = self.in_flight.acquire().await.ok()?;
        let sent = monotonic();
        let answer = call.await;
        self.tally.calls.add();
        match answer {
            Ok((outcome, stock)) => {
                self.tally.latencies.add(sent.elapsed());
                self.tally.stock(stock);
                Some(outcome)
            }
            Err(error) => {
                tracing::debug!(order = self.order, %error, "call failed");
                self.tally.failed.add(error.code);
                None
            }
        }
    }
}

/// Returns the reservation if this answer made it.
fn fresh(outcome: &ReserveOutcome) -> Option<&Reservation> {
    match outcome {
        ReserveOutcome::Reserved { reservation, replayed: false } => Some(reservation),
        _ => None,
    }
}

fn asked(outcome: &ReserveOutcome) -> Asked {
    match outcome {
        ReserveOutcome::Reserved { .. } => Asked::Held,
        ReserveOutcome::Short { retry_after: Some(wait) } => Asked::Short(wait.duration()),
        ReserveOutcome::Short { retry_after: None }
        | ReserveOutcome::BuyerLimit { .. }
        | ReserveOutcome::AlreadySettled { .. } => Asked::Over,
    }
}
