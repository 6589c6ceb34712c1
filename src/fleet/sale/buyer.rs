//! One buyer's life: ask until it has an item or all are sold, then pay, or not.

use std::time::{Duration, Instant};

use tokio::{sync::watch, time::sleep_until};

use super::{
    options::SaleOptions,
    till::{Asked, Till},
};
use crate::{fleet::dice::Dice, time::monotonic};

/// Between tries of a call that failed.
const AFTER_FAILURE: Duration = Duration::from_millis(200);
/// Tries of a payment or a cancellation that nobody answers.
const TRIES_MAX: usize = 20;
/// What a late buyer waits beyond the end of its hold.
const BEYOND: Duration = Duration::from_millis(20);

/// What a buyer does with what is held for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// It pays in time.
    Pays,
    /// It pays when the hold has lapsed.
    PaysLate,
    /// It goes away without a word.
    NeverPays,
    /// It cancels.
    Cancels,
}

/// The manner of each buyer, and whether it makes its calls twice. Shares are exact.
pub(super) fn kinds(options: &SaleOptions, seed: u64) -> Vec<(Manner, bool)> {
    let buyers = options.buyers as usize;
    // Added up before they are rounded: together they never need one buyer too many.
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
    /// When it comes.
    pub(super) arrives: Instant,
    pub(super) till: Till,
    pub(super) dice: Dice,
    /// Turns true when nobody is to ask any more.
    pub(super) stop: watch::Receiver<bool>,
}

impl Buyer {
    /// Lives until it has what it wanted, or cannot have it.
    pub(super) async fn live(mut self) {
        let mut until = self.arrives;
        while self.pause(until).await {
            until = match self.till.reserve().await {
                Asked::Held => return self.held().await,
                Asked::Over => return,
                // Not all at the very instant at which an item may come back.
                Asked::Short(wait) => monotonic() + wait + self.some(self.till.hold / 2),
                Asked::Failed => monotonic() + AFTER_FAILURE + self.some(AFTER_FAILURE),
            };
        }
    }

    /// With an item that is held for it. Once the sale is over, it pays at once.
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
            // It may have been paid, or not.
            self.till.tally.unsure.add();
        }
    }

    /// Pays or cancels until there is an answer; whether there was one.
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

    /// A part of that time.
    fn some(&mut self, most: Duration) -> Duration {
        most.mul_f64(self.dice.fraction())
    }

    /// Waits; false at once when the sale is over.
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
        fleet: crate::fleet::FleetOptions,
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
