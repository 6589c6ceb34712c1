//! Options of `tollgate fleet --rate`.

use std::time::Duration;

use clap::Args;

use super::{DAY, MILLISECOND};
use tollgate_cli::flags::{AlgorithmName, RuleFlags, duration, number};

const KEYS_MAX: u32 = 10_000;
const VOLLEY_MAX: u32 = 1_000;
/// Maximum number of calls in flight for all callers, which bounds the memory of a run.
const IN_FLIGHT_MAX: u32 = 20_000;
/// Maximum number of calls in flight for one caller, in addition to a volley.
const IN_FLIGHT_EACH: u32 = 16;
const HITS_MAX: f64 = 100_000.0;

/// Options of simulated callers.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Callers (with --rate)")]
// The default of `tollgate rate`, one minute, would be longer than a run.
#[command(mut_arg("window", |window| window.default_value("1s")))]
#[command(mut_group("RuleFlags", |flags| flags.requires("rate")))]
pub struct CallerOptions {
    /// Number of keys, with one caller each
    #[arg(long, value_name = "N", default_value_t = 10, requires = "rate")]
    #[arg(value_parser = number(1..=KEYS_MAX))]
    pub keys: u32,

    /// Average number of calls per second and caller, at random times
    #[arg(long, value_name = "CALLS", default_value = "20", requires = "rate")]
    #[arg(value_parser = hits)]
    pub hits: f64,

    /// Size of the volleys of concurrent calls that each caller makes, in addition to --hits
    #[arg(long, value_name = "CALLS", requires = "rate")]
    #[arg(value_parser = number(1..=VOLLEY_MAX))]
    pub volley: Option<u32>,

    /// Interval between two volleys
    #[arg(long, value_name = "DURATION", default_value = "5s", requires = "volley")]
    #[arg(value_parser = duration(MILLISECOND, DAY))]
    pub volley_every: Duration,

    /// Let callers wait for `retry_after` after a refusal [default: they ignore it]
    #[arg(long, requires = "rate")]
    pub patient: bool,

    /// The rule of every key.
    #[command(flatten)]
    pub rule: RuleFlags,
}

impl CallerOptions {
    /// Checks rules that involve several flags.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.hits == 0.0 && self.volley.is_none() {
            return Err("--hits 0 requires --volley".to_owned());
        }
        if self.keys.saturating_mul(self.volley.unwrap_or(0)) > IN_FLIGHT_MAX {
            return Err(format!("--keys times --volley must be at most {IN_FLIGHT_MAX}"));
        }
        self.rule.spec().map(drop)
    }

    /// Returns the maximum number of calls in flight for one caller. If the server is slow, the
    /// caller falls behind instead of making more calls.
    pub(crate) fn in_flight(&self) -> usize {
        let share = (IN_FLIGHT_MAX / self.keys.max(1)).clamp(1, IN_FLIGHT_EACH);
        share.max(self.volley.unwrap_or(0)) as usize
    }

    /// Returns the number of calls that may pass in a window that starts without usage.
    pub(crate) fn ceiling(&self) -> u64 {
        self.rule.max().min(self.rule.ban_above.unwrap_or(u32::MAX)).into()
    }

    /// Returns the maximum number of calls for one key that may pass in any interval as long as the
    /// window.
    pub(crate) fn permitted(&self) -> u64 {
        match self.rule.algorithm {
            AlgorithmName::SlidingWindow => self.ceiling(),
            AlgorithmName::FixedWindow | AlgorithmName::CalendarWindow => 2 * self.ceiling(),
            // A rate of zero permits no burst.
            AlgorithmName::TokenBucket if self.rule.max() == 0 => 0,
            AlgorithmName::TokenBucket => {
                let max = self.rule.max();
                u64::from(self.rule.burst.unwrap_or(max)) + u64::from(max)
            }
        }
    }

    /// Returns the number of calls for all keys that may pass per second in the long run.
    pub(crate) fn sustained(&self) -> f64 {
        let window = self.rule.window.duration().as_secs_f64();
        f64::from(self.keys) * self.ceiling() as f64 / window
    }
}

fn hits(text: &str) -> Result<f64, String> {
    let hits = text.parse::<f64>().ok().filter(|hits| (0.0..=HITS_MAX).contains(hits));
    hits.ok_or_else(|| format!("expected calls per second such as `20` or `0.5`, 0 to {HITS_MAX}"))
}
