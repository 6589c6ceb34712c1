//! Options of `tollgate rate`, with validation.

use clap::{Args, value_parser};

use super::super::{
    flags::{self, RULE_FLAGS, RuleFlags},
    output::OutputFlags,
};
use tollgate_core::rate::COUNT_MAX;

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  Whether another call of this user may pass, at most 10 per minute:
    tollgate rate user:17

  A warning from the 3rd call, a refusal from the 5th, a ban of 5 minutes from
  the 7th:
    tollgate rate user:17 --max 4 --warn-above 2 --ban-above 6 --ban-for 5m \\
        --count 8

  Against a policy of the server's configuration:
    tollgate rate ip:192.0.2.7 --policy login

Each call prints a line with its number, the verdict, how much of the limit is used and how
much is left, the time until the usage has expired, and for a refusal the time until a
retry. With --output json the line is a CheckRateResponse. The server keeps the usage of a
key between commands.

Exit status: 0 if the last call was allowed; 1 if it was refused; 64 if the command line is
invalid; 69 if the server does not answer.";

/// Options of `tollgate rate`.
#[derive(Debug, Clone, Args)]
pub struct RateOptions {
    /// Key to count, such as `user:17` or `ip:192.0.2.7`
    #[arg(value_name = "KEY", value_parser = flags::name)]
    pub key: String,

    /// The inline rule.
    #[command(flatten)]
    pub rule: RuleFlags,

    /// Use a policy from the configuration of the server instead of a rule
    #[arg(long, value_name = "NAME", conflicts_with_all = RULE_FLAGS, value_parser = flags::name)]
    pub policy: Option<String>,

    /// Cost of each call; 0 reads the usage without counting
    #[arg(long, value_name = "CALLS", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u64).range(0..=u64::from(COUNT_MAX)))]
    pub cost: u64,

    /// Number of calls, made one after another
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    pub count: u32,

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

impl RateOptions {
    /// Checks rules that involve several flags.
    pub fn check(&self) -> Result<(), String> {
        match self.policy {
            Some(_) => Ok(()),
            None => self.rule.spec().map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn a_policy_brings_its_own_rule() {
        let options: RateOptions = parse("k --policy login").expect("good");
        assert_eq!(options.check(), Ok(()));
        for flag in ["--max 3", "--window 1s", "--algorithm token-bucket", "--ban-above 3"] {
            let error = parse::<RateOptions>(&format!("k --policy login {flag}")).expect_err(flag);
            assert!(error.contains("cannot be used with"), "{error}");
        }
    }

    #[test]
    fn errors_name_the_flag() {
        for (flags, part) in [
            ("", "<KEY>"),
            ("k --max=-1", "--max"),
            ("k --window 0s", "--window"),
            ("k --algorithm leaky", "token-bucket"),
            ("k --burst 0", "--burst"),
            ("k --ban-for 5m", "--ban-above"),
            ("k --ban-above 20 --ban-for 5", "--ban-for"),
            ("k --cost 1000000001", "--cost"),
            ("k --count 0", "--count"),
            ("k --server ftp://x", "--server"),
        ] {
            let error = parse::<RateOptions>(flags).expect_err(flags);
            assert!(error.contains(part), "{flags}: {error}");
        }
    }
}
