//! Options of `tollgate fleet`, with validation.

use std::time::Duration;

use clap::{Args, value_parser};

use super::{
    callers::CallerOptions,
    queue::QueueOptions,
    sale::SaleOptions,
    share::{SHARES_MAX, share},
    task_duration::TaskDuration,
};
use crate::{
    admission::{CAPACITY_MAX, LEASE_MAX, LEASE_MIN},
    cli::caller::{between, name, server},
};

const DEVICES: &str = "Devices (without --rate or --sale)";
/// Modes without devices.
const MODES: [&str; 2] = ["rate", "sale"];
const DEVICES_MAX: i64 = 100_000;
const REPORT_INTERVAL_MIN: Duration = Duration::from_millis(10);
const REPORT_INTERVAL_MAX: Duration = Duration::from_secs(86_400);
const DURATION_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  A first try:
    tollgate fleet

  2,000 devices, some of them faulty, on a pool of 60 slots:
    tollgate fleet --pool ar:0571 --capacity 60 --devices 2000 \\
        --report-interval 1s --task-duration 300ms..1s --lease 2s \\
        --silent 10% --late 10% --duplicates 5% --crashes 5% --duration 15s

  100 callers on a limit of 10 per second, each also makes 30 calls at once every
  4 seconds:
    tollgate fleet --rate --keys 100 --volley 30 --volley-every 4s --max 10

  A flash sale: 50 items, 10,000 buyers:
    tollgate fleet --sale

  1,000 tasks, queued for 100 devices, until all are completed or dead:
    tollgate fleet --queued --capacity 20

Each device reports once per interval. A device without a task then asks for its current
one; after FULL it asks again at its next report or after retry_after, whichever is later.
Each caller uses its own key, new in every run; with many unanswered calls it falls
behind. The same seed gives the same behaviour. A sale uses its own sku and ends when all
items are sold: a buyer that finds none left retries when a hold may have lapsed.

With --queued, the answer to a device's report is its oldest task. Silent devices report
again after their lease has ended, so that their tasks are dispatched again until they are
dead; half of the late results arrive after the task was dispatched again. The run ends
when no task is left, or at --duration. Then the attempts that the devices have seen are
compared with the server's lists and with the events of the pool.

Exit status: 0 if the server kept the cap, the limit, the stock or the queue; 1 if more
devices were in flight than the cap allows, more calls of a key were allowed in a window
than the algorithm permits, more was sold than the stock or one item twice, or a queued
task did not run as often as its attempts say, or is neither completed nor dead; 64 for a
wrong command line; 69 if the server is unreachable.";

/// Options of `tollgate fleet`.
#[derive(Debug, Clone, Args)]
pub struct FleetOptions {
    /// Simulate callers that check their rate, instead of devices
    #[arg(long, conflicts_with_all = ["sale", "queued"])]
    pub rate: bool,

    /// Simulate a flash sale instead of devices: buyers that want the same few items
    #[arg(long, conflicts_with = "queued")]
    pub sale: bool,

    /// Queue tasks for the devices, which run them; defaults that differ are in parentheses
    #[arg(long)]
    pub queued: bool,

    /// URL of the server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = server)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub server: String,

    /// Time during which new calls are made; running tasks are then finished (10m)
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    #[arg(default_value_if("queued", "true", "10m"))]
    pub duration: Duration,

    /// Seed of the behaviour of devices, the durations of tasks and the times of calls [default:
    /// random]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// The pool to ask for slots
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "NAME", default_value = "fleet", value_parser = name)]
    pub pool: String,

    /// Number of devices
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = value_parser!(u32).range(1..=DEVICES_MAX))]
    pub devices: u32,

    /// Interval between two reports of a device; varied by a tenth, starts spread over one interval
    /// (200ms)
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = report_interval)]
    #[arg(default_value_if("queued", "true", "200ms"))]
    pub report_interval: Duration,

    /// Duration of a task: `3s`, or drawn from `2s..5s` (uniform), `exp:3s` (exponential),
    /// `normal:3s,500ms` (mean, deviation) (50ms..150ms)
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "DURATION", default_value = "2s..5s")]
    #[arg(default_value_if("queued", "true", "50ms..150ms"))]
    pub task_duration: TaskDuration,

    /// Requested lease; a full pool refuses devices until a lease ends or a task is reported
    /// (500ms)
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = lease)]
    #[arg(default_value_if("queued", "true", "500ms"))]
    pub lease: Duration,

    /// Set the capacity of the pool before the start [default: unchanged]
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SLOTS")]
    #[arg(value_parser = value_parser!(u32).range(0..=i64::from(CAPACITY_MAX)))]
    pub capacity: Option<u32>,

    /// Share of devices that take a task and never report: 0..1 or `10%` (5%)
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    #[arg(default_value_if("queued", "true", "5%"))]
    pub silent: f64,

    /// Share of devices that report only after the end of the lease (5%)
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    #[arg(default_value_if("queued", "true", "5%"))]
    pub late: f64,

    /// Share of devices that crash during a task, restart and run it again (5%)
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    #[arg(default_value_if("queued", "true", "5%"))]
    pub crashes: f64,

    /// Share of devices, of any kind, that send every message twice (5%)
    #[arg(help_heading = DEVICES, conflicts_with_all = MODES)]
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    #[arg(default_value_if("queued", "true", "5%"))]
    pub duplicates: f64,

    /// Options of --rate.
    #[command(flatten)]
    pub callers: CallerOptions,

    /// Options of --queued.
    #[command(flatten)]
    pub queue: QueueOptions,

    /// Options of --sale.
    #[command(flatten)]
    pub sale_options: SaleOptions,
}

impl FleetOptions {
    /// Checks rules that concern several flags at once.
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
mod tests;
