//! The options of `tollgate fleet`, checked.

use std::time::Duration;

use clap::{Args, value_parser};

use super::{callers::CallerOptions, sale::SaleOptions, task_duration::TaskDuration};
use crate::{
    admission::{CAPACITY_MAX, LEASE_MAX, LEASE_MIN},
    caller::{between, name, server},
};

const DEVICES: &str = "Devices (without --rate or --sale)";
/// What is played instead of devices.
const MODES: [&str; 2] = ["rate", "sale"];
/// Shares such as 0.7 + 0.2 + 0.1 add up to a little more than 1.
pub(super) const SHARES_MAX: f64 = 1.0 + 1e-9;
const DEVICES_MAX: i64 = 100_000;
const REPORT_INTERVAL_MIN: Duration = Duration::from_millis(10);
const REPORT_INTERVAL_MAX: Duration = Duration::from_secs(86_400);
const DURATION_MAX: Duration = Duration::from_secs(30 * 86_400);

/// What follows the options in `--help`.
pub const HELP: &str = "\
Examples:
  A first look at a running server:
    tollgate fleet

  2,000 devices, some of them ill-behaved, on a system that takes 60 at once:
    tollgate fleet --pool ar:0571 --capacity 60 --devices 2000 \\
        --report-interval 1s --task-duration 300ms..1s --lease 2s \\
        --silent 10% --late 10% --duplicates 5% --crashes 5% --duration 15s

  100 callers, each also firing 30 calls at once every 4 seconds, on a limit of
  10 a second:
    tollgate fleet --rate --keys 100 --volley 30 --volley-every 4s --max 10

  A flash sale: 50 items, 10,000 buyers:
    tollgate fleet --sale

Each device reports once per interval. With no task in hand it then asks for
its current one; on FULL it asks again at its next report or when retry_after
has passed, whichever is later. Each caller calls under a key of its own, new in
every run; with many calls unanswered it falls behind. The same seed plays the
same behaviour. A sale is of a sku of its own, and over when all is sold: buyers
that find nothing left come back when a hold may have lapsed.

Exit status: 0 when the server kept to the cap, the limit or the stock; 1 when more
devices were in flight than the cap allows, more calls of a key allowed in a window
than the algorithm permits, or more sold than there was, or one twice; 64 for a wrong command line, 69 when the
server cannot be reached.";

/// What fleet to play, against which server.
#[derive(Debug, Clone, Args)]
pub struct FleetOptions {
    /// Play callers that keep asking whether they are within their rate,
    /// instead of devices
    #[arg(long, conflicts_with = "sale")]
    pub rate: bool,

    /// Play a flash sale: buyers that want the same few items, instead of devices
    #[arg(long)]
    pub sale: bool,

    /// The server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = server)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub server: String,

    /// How long new calls are made; what is in hand is then finished
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub duration: Duration,

    /// Decides who misbehaves, how long tasks run and when callers call
    /// [default: a random one]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// The pool to ask for slots in
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "NAME", default_value = "fleet", value_parser = name)]
    pub pool: String,

    /// How many devices
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = value_parser!(u32).range(1..=DEVICES_MAX))]
    pub devices: u32,

    /// How often a device reports; varied by a tenth, starts spread over one
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = report_interval)]
    pub report_interval: Duration,

    /// How long a task runs: `3s`, or drawn from `2s..5s` (uniform), `exp:3s`
    /// (exponential), `normal:3s,500ms` (mean, deviation)
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "DURATION", default_value = "2s..5s")]
    pub task_duration: TaskDuration,

    /// The lease to ask for; refused devices are sent away until one ends
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = lease)]
    pub lease: Duration,

    /// Set the pool's slots before the start [default: leave them]
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SLOTS")]
    #[arg(value_parser = value_parser!(u32).range(0..=i64::from(CAPACITY_MAX)))]
    pub capacity: Option<u32>,

    /// Share of devices that take a task and never report back: 0..1 or `10%`
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub silent: f64,

    /// Share of devices that report only after their lease's end
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub late: f64,

    /// Share of devices that crash in mid-task, restart and run it again
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub crashes: f64,

    /// Share of devices, of whatever kind, that send every message twice
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    pub duplicates: f64,

    /// What --rate plays.
    #[command(flatten)]
    pub callers: CallerOptions,

    /// What --sale plays.
    #[command(flatten)]
    pub sale_options: SaleOptions,
}

impl FleetOptions {
    /// What no flag can tell alone.
    pub fn check(&self) -> Result<(), String> {
        if self.rate {
            return self.callers.check();
        } else if self.sale {
            return self.sale_options.check();
        }
        let sum = self.silent + self.late + self.crashes;
        if sum > SHARES_MAX {
            return Err(format!(
                "--silent, --late and --crashes exclude each other and must add up to at most \
                 100%, not {}%",
                (sum * 1e4).round() / 100.0
            ));
        }
        Ok(())
    }
}

pub(super) fn share(text: &str) -> Result<f64, String> {
    let (digits, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let share = digits.trim().parse::<f64>().ok().map(|number| number / whole);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a share, 0 to 1 or 0% to 100%".to_owned())
}

fn lease(text: &str) -> Result<Duration, String> {
    between(text, LEASE_MIN.duration(), LEASE_MAX.duration())
}

fn report_interval(text: &str) -> Result<Duration, String> {
    between(text, REPORT_INTERVAL_MIN, REPORT_INTERVAL_MAX)
}

fn duration(text: &str) -> Result<Duration, String> {
    between(text, Duration::from_millis(1), DURATION_MAX)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        fleet: FleetOptions,
    }

    fn parse(flags: &[&str]) -> Result<FleetOptions, String> {
        let arguments = ["fleet"].iter().chain(flags);
        Cli::try_parse_from(arguments).map(|cli| cli.fleet).map_err(|error| error.to_string())
    }

    #[test]
    fn shares_are_fractions_or_percents() {
        for (text, value) in [("0", 0.0), ("0.25", 0.25), ("1", 1.0), ("10%", 0.1), ("100 %", 1.0)]
        {
            assert_eq!(share(text), Ok(value));
        }
        for bad in ["", "%", "ten", "-0.1", "1.01", "10", "101%", "NaN", "inf"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn errors_name_the_flag() {
        for (flag, value) in [
            ("--server", "https://tollgate:443"),
            ("--pool", ""),
            ("--devices", "0"),
            ("--devices", "100001"),
            ("--report-interval", "1ms"),
            ("--task-duration", "5s..2s"),
            ("--lease", "99ms"),
            ("--capacity", "1000001"),
            ("--silent", "11"),
            ("--late", "-5%"),
            ("--crashes", "x"),
            ("--duplicates", "2"),
            ("--duration", "0s"),
            ("--seed", "1.5"),
        ] {
            let error = parse(&[&format!("{flag}={value}")]).expect_err(flag);
            assert!(error.contains(flag), "{flag} {value}: {error}");
        }
    }

    #[test]
    fn options_of_one_mode_are_not_taken_in_the_other() {
        for flags in [
            "--pool=x",
            "--devices=5",
            "--report-interval=1s",
            "--task-duration=1s",
            "--lease=1s",
            "--capacity=1",
            "--silent=1",
            "--late=1",
            "--crashes=1",
            "--duplicates=1",
        ] {
            for mode in ["--rate", "--sale"] {
                let error = parse(&[mode, flags]).expect_err(flags);
                let flag = flags.split('=').next().unwrap_or_default();
                assert!(error.contains("cannot be used with") && error.contains(flag), "{error}");
            }
        }
        assert!(parse(&["--rate", "--sale"]).is_err());
        for flags in ["--items=5", "--buyers=5", "--rush=1s", "--hold=1s", "--never-pay=1"] {
            let error = parse(&[flags]).expect_err(flags);
            assert!(error.contains("required") && error.contains("--sale"), "{error}");
        }
        for flags in [
            "--keys=5",
            "--hits=5",
            "--volley=5",
            "--patient",
            "--max=5",
            "--window=1s",
            "--algorithm=fixed-window",
            "--burst=5",
            "--warn-above=5",
            "--ban-above=5",
        ] {
            let error = parse(&[flags]).expect_err(flags);
            assert!(error.contains("required") && error.contains("--rate"), "{error}");
        }
        let both = parse(&["--rate", "--seed=1", "--duration=1s", "--max=5"]).expect("parses");
        assert_eq!(both.check(), Ok(()));
    }

    #[test]
    fn shares_that_exclude_each_other_have_room_for_all() {
        let most = ["--silent=70%", "--late=20%", "--crashes=10%", "--duplicates=100%"];
        assert_eq!(parse(&most).expect("parses").check(), Ok(()));
        let over = parse(&["--silent=70%", "--late=31%"]).expect("parses").check();
        let error = over.expect_err("more than all devices");
        assert!(error.contains("--silent") && error.contains("101%"), "{error}");
    }
}
