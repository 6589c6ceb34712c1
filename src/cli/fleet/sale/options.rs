//! Options of `tollgate fleet --sale`, with validation.

use std::time::Duration;

use clap::{Args, value_parser};

use crate::{
    cli::{
        caller::between,
        fleet::share::{SHARES_MAX, share},
    },
    stock::HOLD_MIN,
};

const ITEMS_MAX: i64 = 1_000_000;
const BUYERS_MAX: i64 = 100_000;
const LENGTH_MAX: Duration = Duration::from_secs(86_400);

/// Options of the flash sale.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Buyers (with --sale)")]
pub struct SaleOptions {
    /// Number of items on sale
    #[arg(long, value_name = "N", default_value_t = 50, requires = "sale")]
    #[arg(value_parser = value_parser!(u32).range(1..=ITEMS_MAX))]
    pub items: u32,

    /// Number of buyers; each wants one item
    #[arg(long, value_name = "N", default_value_t = 10_000, requires = "sale")]
    #[arg(value_parser = value_parser!(u32).range(1..=BUYERS_MAX))]
    pub buyers: u32,

    /// Time within which all buyers arrive
    #[arg(long, value_name = "DURATION", default_value = "1s", requires = "sale")]
    #[arg(value_parser = rush)]
    pub rush: Duration,

    /// Duration of a hold; paying buyers pay within half of it
    #[arg(long, value_name = "DURATION", default_value = "2s", requires = "sale")]
    #[arg(value_parser = hold)]
    pub hold: Duration,

    /// Share of buyers that never pay, so that their hold lapses: 0..1 or `10%`
    #[arg(long, value_name = "SHARE", default_value = "10%", requires = "sale")]
    #[arg(value_parser = share)]
    pub never_pay: f64,

    /// Share of buyers that pay after their hold has lapsed
    #[arg(long, value_name = "SHARE", default_value = "10%", requires = "sale")]
    #[arg(value_parser = share)]
    pub pay_late: f64,

    /// Share of buyers that cancel
    #[arg(long, value_name = "SHARE", default_value = "10%", requires = "sale")]
    #[arg(value_parser = share)]
    pub cancel: f64,

    /// Share of buyers, of any kind, that make every call twice at once
    #[arg(long, value_name = "SHARE", default_value = "20%", requires = "sale")]
    #[arg(value_parser = share)]
    pub repeat: f64,
}

impl SaleOptions {
    /// Checks rules that concern several flags at once.
    pub(in crate::cli::fleet) fn check(&self) -> Result<(), String> {
        let sum = self.never_pay + self.pay_late + self.cancel;
        if sum > SHARES_MAX {
            return Err(format!(
                "--never-pay, --pay-late and --cancel exclude each other and must add up to at \
                 most 100%, not {}%",
                (sum * 1e4).round() / 100.0
            ));
        }
        Ok(())
    }
}

fn hold(text: &str) -> Result<Duration, String> {
    between(text, HOLD_MIN.duration(), LENGTH_MAX)
}

fn rush(text: &str) -> Result<Duration, String> {
    between(text, Duration::from_millis(1), LENGTH_MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::cli::fleet::FleetOptions;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        fleet: FleetOptions,
    }

    fn parse(flags: &str) -> Result<FleetOptions, String> {
        let arguments = ["fleet", "--sale"].into_iter().chain(flags.split_whitespace());
        let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string())?;
        cli.fleet.check().map(|()| cli.fleet)
    }

    #[test]
    fn errors_name_the_flag() {
        for flag in [
            "--items=0",
            "--items=1000001",
            "--buyers=0",
            "--buyers=100001",
            "--rush=0s",
            "--hold=0ms",
            "--never-pay=11",
            "--pay-late=-1%",
            "--cancel=x",
            "--repeat=2",
            "--pay-late=91%",
        ] {
            let error = parse(flag).expect_err(flag);
            let name = flag.split('=').next().unwrap_or_default();
            assert!(error.contains(name), "{flag}: {error}");
        }
    }

    #[test]
    fn a_sale_is_of_fifty_items_for_ten_thousand() {
        let sale = parse("").expect("good").sale_options;
        assert_eq!((sale.items, sale.buyers), (50, 10_000));
        assert!(parse("--never-pay 70% --pay-late 20% --cancel 10% --repeat 100%").is_ok());
    }
}
