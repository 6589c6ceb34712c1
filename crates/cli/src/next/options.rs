//! Options of `tollgate next`, with validation.

use clap::{Args, value_parser};

use super::super::{flags, output::OutputFlags};
use tollgate_core::sequence::{COUNT_MAX, VALUE_MAX};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  The next number of `order`:
    tollgate next order

  500 numbers, none of them below 120000, into a file:
    tollgate next order --count 500 --floor 120000 > numbers.txt

  A number for a checkout, which is the same one if the command is repeated:
    tollgate next invoice --request-id checkout-17

Prints the numbers in order, one per line: in the layout that the server has configured for
the name, such as ORD-20261121-000042, or else in decimal. With --output json it prints one
NextSequenceResponse. No other caller gets the same numbers: on the embedded engine without
a data directory until the server restarts, on Redis as long as its writes are durable. A
repeat with the same --request-id within 5 minutes prints the same numbers, whatever its
other options.

Exit status: 0 if the numbers were issued; 64 if the command line is invalid; 69 if the
server does not answer, answers with an error such as OUT_OF_RANGE, or the numbers could not
be printed.";

/// Options of `tollgate next`.
#[derive(Debug, Clone, Args)]
pub struct NextOptions {
    /// Name of the sequence, such as `order`
    #[arg(value_name = "NAME", value_parser = flags::name)]
    pub name: String,

    /// Number of values, 1 to 10,000
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..=COUNT_MAX as i64))]
    pub count: u32,

    /// Difference between two values, and between the last issued value and the first one; at most
    /// 1,000,000 with a calendar
    #[arg(long, value_name = "S", default_value_t = 1)]
    #[arg(value_parser = value_parser!(i64).range(1..))]
    pub step: i64,

    /// Smallest acceptable value, or the digits of a serial with a calendar
    #[arg(long, value_name = "F", value_parser = value_parser!(u64).range(0..=VALUE_MAX))]
    pub floor: Option<u64>,

    /// Id of the request; a repeat with the same id gets the same numbers
    #[arg(long, value_name = "ID", value_parser = flags::name)]
    pub request_id: Option<String>,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// URL of the server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = flags::server)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub server: String,

    /// TLS and token.
    #[command(flatten)]
    pub access: flags::AccessFlags,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn the_bounds_match_the_contract() {
        let most = format!("n --count 10000 --step {VALUE_MAX} --floor {VALUE_MAX}");
        let most: NextOptions = parse(&most).expect("the most of each");
        assert_eq!((most.count, most.step, most.floor), (10_000, i64::MAX, Some(VALUE_MAX)));
        let least: NextOptions =
            parse("n --count 1 --step 1 --floor 0").expect("the least of each");
        assert_eq!((least.count, least.step, least.floor), (1, 1, Some(0)));
        let none: NextOptions = parse("n").expect("a name is enough");
        assert_eq!((none.count, none.step, none.floor, none.request_id), (1, 1, None, None));
    }

    #[test]
    fn errors_name_the_flag() {
        let long = "x".repeat(257);
        for (flags, part) in [
            ("", "<NAME>"),
            (&*long, "<NAME>"),
            ("n --count 0", "--count"),
            ("n --count 10001", "--count"),
            ("n --step 0", "--step"),
            ("n --step 9223372036854775808", "--step"),
            ("n --floor=-1", "--floor"),
            ("n --floor 9223372036854775808", "--floor"),
            ("n --request-id=", "--request-id"),
            ("n --server ftp://x", "--server"),
        ] {
            let error = parse::<NextOptions>(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
    }
}
