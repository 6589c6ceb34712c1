//! One simulated buyer: asks until it has an item or all are sold, then pays or not.

use std::time::{Duration, Instant};

use tokio::{sync::watch, time::sleep_until};

use super::{
    options::SaleOptions,
    till::{Asked, Till},
};
use crate::{cli::fleet::dice::Dice, decision::time::monotonic};

/// Pause after a failed call.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// Maximum number of tries of a payment or cancellation without an answer.
const TRIES_MAX: usize = 20;
/// Delay of a late payment after the end of the hold.
const BEYOND: Duration = Duration::from_millis(20);

/// Behaviour of a buyer that has a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Pays in time.
    Pays,
    /// Pays after the hold has lapsed.
    PaysLate,
    /// Never pays and never cancels.
    NeverPays,
    /// Cancels.
    Cancels,
}

/// Returns the behaviour of each buyer, and whether it makes each call twice. Shares are exact.
pub(super) fn kinds(options: &SaleOptions, seed: u64) -> Vec<(Manner, bool)> {
    let buyers = options.buyers as usize;
    // Shares are summed before rounding, so that they never exceed the number of buyers.
    let upto = |share: f64| ((share * buyers as f64).round() as usize).min(buyers);
    let never = upto(options.never_pay);
    let late = upto(options.never_pay + options.pay_late);
    let cancelling = upto(options.never_pay + options.pay_late + options.cancel);
    let manner = |rank| match rank {
        rank if rank < never => Manner::NeverPays,
        rank if rank < late => Manner::PaysLate,
        rank if rank < cancelling => Manner::Cancels,
        _ => Manner::Pays,
    };
    let mut manners: Vec<Manner> = (0..buyers).map(manner).collect();
    let mut twice: Vec<bool> = (0..buyers).map(|rank| rank < upto(options.repeat)).collect();
    let mut dice = Dice::new(seed, 0);
    dice.shuffle(&mut manners);
    dice.shuffle(&mut twice);
    manners.into_iter().zip(twice).collect()
}

/// A buyer of the sale.
#[derive(Debug)]
pub(super) struct Buyer {
    pub(super) manner: Manner,
    /// Time of its first call.
    pub(super) arrives: Instant,
    pub(super) till: Till,
    pub(super) dice: Dice,
    /// Becomes true when no new calls are to be made.
    pub(super) stop: watch::Receiver<bool>,
}

impl Buyer {
    /// Runs until the buyer has an item or cannot get one.
    pub(super) async fn live(mut self) {
        let mut until = self.arrives;
        while self.pause(until).await {
            until = match self.till.reserve().await {
                Asked::Held => return self.held().await,
                Asked::Over => return,
                // A random delay, so that not all buyers retry at the instant at which a hold may
                // lapse.
                Asked::Short(wait) => monotonic() + wait + self.some(self.till.hold / 2),
                Asked::Failed => monotonic() + AFTER_FAILURE + self.some(AFTER_FAILURE),
            };
        }
    }

    /// Pays or cancels according to its behaviour. Once the sale is over, it pays at once.
    async fn held(mut self) {
        let (now, hold) = (monotonic(), self.till.hold);
        match self.manner {
            Manner::NeverPays => {}
            Manner::Cancels => {
                let thought = now + self.some(hold / 2);
                self.pause(thought).await;
                self.insist(false).await;
            }
            Manner::Pays => {
                let thought = now + self.some(hold / 2);
                self.pause(thought).await;
                self.pay().await;
            }
            Manner::PaysLate => {
                let late = now + hold + BEYOND + self.some(hold / 2);
                if self.pause(late).await {
                    self.pay().await;
                }
            }
        }
    }

    async fn pay(&mut self) {
        if !self.insist(true).await {
            // The payment may have been executed.
            self.till.tally.unsure.add();
        }
    }

    /// Pays or cancels until the server answers; false if it never does.
    async fn insist(&mut self, pays: bool) -> bool {
        for _ in 0..TRIES_MAX {
            let answered = if pays { self.till.confirm().await } else { self.till.cancel().await };
            if answered {
                return true;
            }
            sleep_until((monotonic() + AFTER_FAILURE).into()).await;
        }
        false
    }

    /// Returns a random part of a duration.
    fn some(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.dice.fraction())
    }

    /// Waits until an instant; false as soon as the sale is over.
    async fn pause(&mut self, until: Instant) -> bool {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => false,
            () = sleep_until(until.into()) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        fleet: crate::cli::fleet::FleetOptions,
    }

    #[test]
    fn shares_are_exact_and_the_same_for_a_seed() {
        let flags = ["fleet", "--sale", "--buyers=1000", "--never-pay=10%", "--pay-late=5%"];
        let options = Cli::try_parse_from(flags).expect("good flags").fleet.sale_options;
        let kinds_of = |seed| kinds(&options, seed);
        let count = |manner| kinds_of(1).iter().filter(|kind| kind.0 == manner).count();
        let manners = [Manner::Pays, Manner::PaysLate, Manner::NeverPays, Manner::Cancels];
        assert_eq!(manners.map(count), [750, 50, 100, 100]);
        assert_eq!(kinds_of(1).iter().filter(|kind| kind.1).count(), 200);
        assert_eq!(kinds_of(1), kinds_of(1));
        assert_ne!(kinds_of(1), kinds_of(2));
    }
}
