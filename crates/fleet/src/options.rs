//! Options of `tollgate fleet`, with validation.

mod callers;
mod capacities;

use std::time::Duration;

use clap::Args;

pub use self::{callers::CallerOptions, capacities::Capacities};

use super::task_duration::TaskDuration;
use tollgate_cli::{
    flags::{AccessFlags, duration, name, number, server},
    output::OutputFlags,
};
use tollgate_core::{
    admission::{ATTEMPTS_MAX, CAPACITY_MAX, LEASE_MAX, LEASE_MIN, PAYLOAD_BYTES_MAX},
    stock::HOLD_MIN,
};

const MILLISECOND: Duration = Duration::from_millis(1);
const DAY: Duration = Duration::from_secs(86_400);
/// Maximum sum of fractions, because floating-point sums such as 0.7 + 0.2 + 0.1 can slightly
/// exceed 1.
const SHARES_MAX: f64 = 1.0 + 1e-9;
/// Maximum number of devices or buyers.
const ACTORS_MAX: u32 = 100_000;
/// Maximum number of tasks or items.
const ITEMS_MAX: u32 = 1_000_000;

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  A first try:
    tollgate fleet

  2,000 devices, some of them faulty, on a pool of 60 slots:
    tollgate fleet --pool ar:0571 --capacity 60 --devices 2000 \\
        --report-interval 1s --task-duration 300ms..1s --lease 2s \\
        --silent 10% --late 10% --duplicates 5% --crashes 5% --duration 15s

  100 callers on a limit of 10 per second, each of whom also makes 30 concurrent calls
  every 4 seconds:
    tollgate fleet --rate --keys 100 --volley 30 --volley-every 4s --max 10

  A flash sale: 50 items, 10,000 buyers:
    tollgate fleet --sale

  How many slots 200 devices need:
    tollgate fleet --devices 200 --sweep 20..100 --duration 20s

  1,000 tasks queued for 100 devices, until all are completed or dead:
    tollgate fleet --queued --capacity 20

Each device reports once per interval. A device without a task then asks for one; after FULL
it asks again at its next report or after retry_after, whichever is later. Each caller uses
its own key, which is new in every run; with many unanswered calls it falls behind. The same
seed produces the same behaviour. A sale uses its own sku and ends when all items are sold:
a buyer who finds none left retries when a hold may have lapsed.

With --queued, a device that reports gets its oldest task. Silent devices report again after
their lease has expired, so that their tasks are dispatched again until they are dead; half
of the late results arrive after the task has been dispatched again. The run ends when no
task is left, or after --duration. Then the attempts that the devices have seen are compared
with the server's lists and with the events of the pool.

With --sweep the fleet runs for --duration on each capacity and prints a row for it: the
fraction of slot time in use, the completed tasks per second, and how long devices wait for a
slot. Between runs it waits until the pool is empty. At the end it restores the capacity of
the pool as a run-time setting.

With --output json the report is one object, or with --sweep one for each capacity;
docs/commands.md describes the keys.

Exit status: 0 if the server kept the cap, the limit, the stock or the queue; 1 if more
devices were in flight than the cap allows, more calls for a key were allowed in a window
than the algorithm permits, more was sold than the stock or an item twice, or a queued task
did not run as often as its attempts say, or is neither completed nor dead; 64 if the
command line is invalid; 69 if the server is unreachable.";

/// Options of `tollgate fleet`.
#[derive(Debug, Clone, Args)]
pub struct FleetOptions {
    /// Simulate callers that check their rate instead of devices
    #[arg(long, conflicts_with_all = ["sale", "queued"])]
    pub rate: bool,

    /// Simulate a flash sale instead of devices: buyers who all want the same few items
    #[arg(long, conflicts_with = "queued")]
    pub sale: bool,

    /// Queue tasks, which the devices run; where this changes a default, it is in parentheses
    #[arg(long)]
    pub queued: bool,

    /// The format of the report.
    #[command(flatten)]
    pub output: OutputFlags,

    /// URL of the server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = server)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub server: String,

    /// TLS and token.
    #[command(flatten)]
    pub access: AccessFlags,

    /// How long to start new work; running tasks are then finished (10m)
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = duration(MILLISECOND, 30 * DAY))]
    #[arg(default_value_if("queued", "true", "10m"))]
    pub duration: Duration,

    /// Seed for the behaviour of actors, the durations of tasks and the times of calls [default:
    /// random]
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,

    /// Options of devices.
    #[command(flatten)]
    pub device: DeviceOptions,

    /// Options of --queued.
    #[command(flatten)]
    pub queue: QueueOptions,

    /// Options of --rate.
    #[command(flatten)]
    pub callers: CallerOptions,

    /// Options of --sale.
    #[command(flatten)]
    pub sale_options: SaleOptions,
}

/// Options of devices.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Devices (without --rate or --sale)")]
#[group(conflicts_with_all = ["rate", "sale"])]
pub struct DeviceOptions {
    /// The pool that the devices ask for slots
    #[arg(long, value_name = "NAME", default_value = "fleet", value_parser = name)]
    pub pool: String,

    /// Number of devices
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = number(1..=ACTORS_MAX))]
    pub devices: u32,

    /// Interval between two reports of a device, varied by up to a tenth; first reports are spread
    /// over one interval (200ms)
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    #[arg(value_parser = duration(10 * MILLISECOND, DAY))]
    #[arg(default_value_if("queued", "true", "200ms"))]
    pub report_interval: Duration,

    /// Duration of a task: `3s`, or drawn from `2s..5s` (uniform), `exp:3s` (exponential),
    /// `normal:3s,500ms` (mean, deviation) (50ms..150ms)
    #[arg(long, value_name = "DURATION", default_value = "2s..5s")]
    #[arg(default_value_if("queued", "true", "50ms..150ms"))]
    pub task_duration: TaskDuration,

    /// Lease duration to request; a full pool refuses devices until a lease ends or a result is
    /// reported (500ms)
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = duration(LEASE_MIN.duration(), LEASE_MAX.duration()))]
    #[arg(default_value_if("queued", "true", "500ms"))]
    pub lease: Duration,

    /// Set the capacity of the pool before the run [default: unchanged]
    #[arg(long, value_name = "SLOTS", value_parser = number(0..=CAPACITY_MAX))]
    pub capacity: Option<u32>,

    /// Run once for each of several capacities and compare them: `20..100` for five runs, or
    /// `20..100/9` for nine
    #[arg(long, value_name = "FROM..TO", conflicts_with_all = ["capacity", "queued"])]
    pub sweep: Option<Capacities>,

    /// Fraction of devices that take a task and never report: 0..1 or `10%` (5%)
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    #[arg(default_value_if("queued", "true", "5%"))]
    pub silent: f64,

    /// Fraction of devices that report only after their lease has expired (5%)
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    #[arg(default_value_if("queued", "true", "5%"))]
    pub late: f64,

    /// Fraction of devices that crash during a task, restart and run it again (5%)
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    #[arg(default_value_if("queued", "true", "5%"))]
    pub crashes: f64,

    /// Fraction of devices of any kind that send every message twice (5%)
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = parse_share)]
    #[arg(default_value_if("queued", "true", "5%"))]
    pub duplicates: f64,
}

/// Options of queued tasks.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Queued tasks (with --queued)")]
#[group(requires = "queued")]
pub struct QueueOptions {
    /// Number of tasks, distributed over the devices
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = number(1..=ITEMS_MAX))]
    pub tasks: u32,

    /// Fraction of attempts that fail
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = parse_share)]
    pub fail: f64,

    /// Number of attempts after which a task is dead
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = number(1..=ATTEMPTS_MAX))]
    pub max_attempts: u32,

    /// Size of the payload of each task, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    #[arg(value_parser = number(0..=PAYLOAD_BYTES_MAX as u32))]
    pub payload: u32,
}

/// Options of the flash sale.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Buyers (with --sale)")]
#[group(requires = "sale")]
pub struct SaleOptions {
    /// Number of items on sale
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = number(1..=ITEMS_MAX))]
    pub items: u32,

    /// Number of buyers, each of whom wants one item
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number(1..=ACTORS_MAX))]
    pub buyers: u32,

    /// Time within which all buyers arrive
    #[arg(long, value_name = "DURATION", default_value = "1s")]
    #[arg(value_parser = duration(MILLISECOND, DAY))]
    pub rush: Duration,

    /// Duration of a hold; buyers who pay do so within half of it
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    #[arg(value_parser = duration(HOLD_MIN.duration(), DAY))]
    pub hold: Duration,

    /// Fraction of buyers who never pay, so that their hold lapses: 0..1 or `10%`
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_share)]
    pub never_pay: f64,

    /// Fraction of buyers who pay after their hold has lapsed
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_share)]
    pub pay_late: f64,

    /// Fraction of buyers who cancel
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_share)]
    pub cancel: f64,

    /// Fraction of buyers of any kind who make every call twice, concurrently
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = parse_share)]
    pub repeat: f64,
}

impl FleetOptions {
    /// Checks rules that involve several flags.
    pub fn check(&self) -> Result<(), String> {
        let (device, sale) = (&self.device, &self.sale_options);
        for (flags, shares) in [
            ("--silent, --late and --crashes", [device.silent, device.late, device.crashes]),
            ("--never-pay, --pay-late and --cancel", [sale.never_pay, sale.pay_late, sale.cancel]),
        ] {
            let sum: f64 = shares.iter().sum();
            if sum > SHARES_MAX {
                let percent = (sum * 1e4).round() / 100.0;
                return Err(format!(
                    "{flags} exclude each other and must add up to at most 100%, not {percent}%"
                ));
            }
        }
        self.callers.check()
    }
}

/// Parses a fraction of actors: 0 to 1, or `10%`.
fn parse_share(text: &str) -> Result<f64, String> {
    let (digits, whole) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let share = digits.trim().parse::<f64>().ok().map(|number| number / whole);
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| "expected a fraction, 0 to 1 or 0% to 100%".to_owned())
}

#[cfg(test)]
pub(super) mod tests;
