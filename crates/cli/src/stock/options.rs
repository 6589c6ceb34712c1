//! Options of `tollgate stock`, with validation.

use std::time::Duration;

use clap::{Args, Subcommand, value_parser};

use super::super::{
    flags::{self, PrefixFlags},
    output::OutputFlags,
};
use tollgate_core::{
    stock::{HOLD_MAX, HOLD_MIN, QUANTITY_MAX, RESERVE_MAX},
    time::Millis,
};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  Set the stock of a television, then reserve two for an order:
    tollgate stock set tv-55 50
    tollgate stock reserve tv-55 order-1 2

  Sell or cancel the reservation:
    tollgate stock confirm tv-55 order-1
    tollgate stock cancel tv-55 order-1

  At most one per buyer, held for 5 minutes:
    tollgate stock reserve tv-55 order-2 --hold 5m --buyer ann --buyer-limit 1

  A delivery, which counts once if the command is repeated:
    tollgate stock add tv-55 20 --request-id truck-17

  The stock of all skus whose names begin with `tv-`:
    tollgate stock list --prefix tv-

Prints a line with the outcome, such as RESERVED or SHORT, and the stock of the sku after it.
With --output json the line is the response, such as a ReserveStockResponse; list prints a
Stock on each line.
A hold that is neither confirmed nor cancelled lapses. reserve, confirm and cancel can be
repeated safely, and so can add with the same --request-id within 5 minutes.

Exit status: 0 if the requested state is reached, by this call or an earlier one; 1 if
the call was refused: reserve with SHORT, BUYER_LIMIT, ALREADY_SETTLED or QUANTITY_DIFFERS,
confirm with EXPIRED, CANCELLED or UNKNOWN, cancel with ALREADY_CONFIRMED, EXPIRED or
UNKNOWN; 64 if the command line is invalid; 69 if the server does not answer or fails, for
example with NOT_FOUND for a sku that was never set.";

/// Options of `tollgate stock`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(disable_help_subcommand = true)]
pub struct StockOptions {
    /// The verb.
    #[command(subcommand)]
    pub command: StockCommand,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// URL of the server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = flags::server)]
    #[arg(default_value = "http://127.0.0.1:50051", global = true)]
    pub server: String,

    /// TLS and token.
    #[command(flatten)]
    pub access: flags::AccessFlags,
}

/// Verbs of `tollgate stock`.
#[derive(Debug, Clone, Subcommand)]
pub enum StockCommand {
    /// A verb for one sku.
    #[command(flatten)]
    One(StockVerb),
    /// List the stock of all skus, in no particular order
    List(PrefixFlags),
}

/// Verbs for one sku.
#[derive(Debug, Clone, PartialEq, Eq, Subcommand)]
pub enum StockVerb {
    /// Set the quantity on hand, including reserved items; creates the sku
    Set {
        /// The sku, such as `tv-55`
        #[arg(value_parser = flags::name)]
        sku: String,
        /// Quantity, 0 to 2^53-1
        #[arg(value_parser = value_parser!(u64).range(0..=QUANTITY_MAX))]
        on_hand: u64,
    },
    /// Add to the quantity on hand, or subtract from it
    #[command(allow_negative_numbers = true)]
    Add {
        /// The sku
        #[arg(value_parser = flags::name)]
        sku: String,
        /// Quantity to add; negative to subtract; not 0
        #[arg(value_parser = delta)]
        delta: i64,
        /// Id of the request; a repeat with the same id changes nothing
        #[arg(long, value_name = "ID", value_parser = flags::name)]
        request_id: Option<String>,
    },
    /// Reserve a quantity for an order; exits 1 if it is refused
    Reserve {
        /// The sku
        #[arg(value_parser = flags::name)]
        sku: String,
        /// The order, which can have one reservation per sku
        #[arg(value_parser = flags::name)]
        order: String,
        /// Quantity, 1 to 1,000,000,000
        #[arg(default_value_t = 1)]
        #[arg(value_parser = value_parser!(u32).range(1..=RESERVE_MAX as i64))]
        quantity: u32,
        /// Duration of the hold, 1ms to 30days [default: 15m]
        #[arg(long, value_name = "DURATION", value_parser = parse_hold)]
        hold: Option<Millis>,
        /// The buyer
        #[arg(long, value_name = "NAME", value_parser = flags::name)]
        buyer: Option<String>,
        /// Maximum quantity of the sku that the buyer may have reserved and bought
        #[arg(long, value_name = "N", requires = "buyer")]
        #[arg(value_parser = value_parser!(u64).range(1..=QUANTITY_MAX))]
        buyer_limit: Option<u64>,
    },
    /// Sell what an order has reserved; exits 1 if it is not sold
    Confirm {
        /// The sku
        #[arg(value_parser = flags::name)]
        sku: String,
        /// The order
        #[arg(value_parser = flags::name)]
        order: String,
    },
    /// Cancel the reservation of an order; exits 1 if it is not cancelled
    Cancel {
        /// The sku
        #[arg(value_parser = flags::name)]
        sku: String,
        /// The order
        #[arg(value_parser = flags::name)]
        order: String,
    },
    /// Show the stock
    Get {
        /// The sku
        #[arg(value_parser = flags::name)]
        sku: String,
    },
}

impl StockVerb {
    /// Returns the sku of the verb.
    pub fn sku(&self) -> &str {
        match self {
            StockVerb::Set { sku, .. }
            | StockVerb::Add { sku, .. }
            | StockVerb::Reserve { sku, .. }
            | StockVerb::Confirm { sku, .. }
            | StockVerb::Cancel { sku, .. }
            | StockVerb::Get { sku } => sku,
        }
    }

    /// Describes the verb in errors.
    pub(super) fn what(&self) -> String {
        let sku = self.sku();
        match self {
            StockVerb::Set { .. } => format!("set the stock of `{sku}`"),
            StockVerb::Add { .. } => format!("add to the stock of `{sku}`"),
            StockVerb::Reserve { order, .. } => format!("reserve `{sku}` for `{order}`"),
            StockVerb::Confirm { order, .. } => format!("confirm `{sku}` for `{order}`"),
            StockVerb::Cancel { order, .. } => format!("cancel `{sku}` for `{order}`"),
            StockVerb::Get { .. } => format!("get the stock of `{sku}`"),
        }
    }

    /// Whether repeating the call has no further effect.
    pub(super) fn is_repeatable(&self) -> bool {
        !matches!(self, StockVerb::Set { .. } | StockVerb::Add { request_id: None, .. })
    }
}

fn delta(text: &str) -> Result<i64, String> {
    let delta = text.parse::<i64>().ok();
    delta.filter(|delta| *delta != 0 && delta.unsigned_abs() <= QUANTITY_MAX).ok_or_else(|| {
        format!("expected a number such as `20` or `-5`, -{QUANTITY_MAX} to {QUANTITY_MAX}, not 0")
    })
}

/// Parses a hold, rounded up to milliseconds.
fn parse_hold(text: &str) -> Result<Millis, String> {
    let length: Duration = flags::between(text, HOLD_MIN.duration(), HOLD_MAX.duration())?;
    Ok(Millis(length.as_nanos().div_ceil(1_000_000) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn the_bounds_match_the_contract() {
        for flags in [
            "set s 0",
            "set s 9007199254740991",
            "add s -9007199254740991",
            "add s 9007199254740991 --request-id r",
            "reserve s o",
            "reserve s o 1000000000 --hold 30days --buyer b --buyer-limit 9007199254740991",
            "reserve s o --hold 1ms --server tollgate:1",
            "--server tollgate:1 get s",
            "list",
            "list --prefix tv- --output json",
        ] {
            let parsed = parse::<StockOptions>(flags);
            assert!(parsed.is_ok(), "{flags}: {parsed:?}");
        }
        let one = parse::<StockOptions>("reserve s o").expect("one").command;
        let expected = StockVerb::Reserve {
            sku: "s".to_owned(),
            order: "o".to_owned(),
            quantity: 1,
            hold: None,
            buyer: None,
            buyer_limit: None,
        };
        assert!(matches!(one, StockCommand::One(verb) if verb == expected));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let long = format!("get {}", "x".repeat(257));
        for (flags, part) in [
            ("", "VERB"),
            ("sell s", "sell"),
            ("get", "<SKU>"),
            (&*long, "<SKU>"),
            ("set s", "<ON_HAND>"),
            ("set s -1", "-1"),
            ("set s 9007199254740992", "<ON_HAND>"),
            ("add s 0", "<DELTA>"),
            ("add s -9007199254740992", "<DELTA>"),
            ("reserve s", "<ORDER>"),
            ("reserve s o 0", "[QUANTITY]"),
            ("reserve s o 1000000001", "[QUANTITY]"),
            ("reserve s o --hold 0ms", "--hold"),
            ("reserve s o --buyer-limit 1", "--buyer"),
            ("reserve s o --buyer b --buyer-limit 0", "--buyer-limit"),
            ("confirm s", "<ORDER>"),
            ("cancel s", "<ORDER>"),
            ("get s --server ftp://x", "--server"),
        ] {
            let error = parse::<StockOptions>(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
    }
}
