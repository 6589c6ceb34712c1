//! Options of `tollgate fleet --queued`, with validation.

use clap::{Args, value_parser};

use crate::{
    admission::{ATTEMPTS_MAX, PAYLOAD_BYTES_MAX},
    cli::fleet::share::share,
};

const TASKS_MAX: i64 = 1_000_000;

/// Options of queued tasks.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Queued tasks (with --queued)")]
pub struct QueueOptions {
    /// Number of tasks, distributed over the devices
    #[arg(long, value_name = "N", default_value_t = 1000, requires = "queued")]
    #[arg(value_parser = value_parser!(u32).range(1..=TASKS_MAX))]
    pub tasks: u32,

    /// Share of attempts that fail
    #[arg(long, value_name = "SHARE", default_value = "5%", requires = "queued")]
    #[arg(value_parser = share)]
    pub fail: f64,

    /// Maximum number of attempts before a task is dead
    #[arg(long, value_name = "N", default_value_t = 3, requires = "queued")]
    #[arg(value_parser = value_parser!(u32).range(1..=i64::from(ATTEMPTS_MAX)))]
    pub max_attempts: u32,

    /// Size of each task's payload, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 64, requires = "queued")]
    #[arg(value_parser = value_parser!(u32).range(0..=PAYLOAD_BYTES_MAX as i64))]
    pub payload: u32,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use crate::cli::fleet::FleetOptions;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        fleet: FleetOptions,
    }

    fn parse(flags: &str) -> Result<FleetOptions, String> {
        let arguments = ["fleet", "--queued"].into_iter().chain(flags.split_whitespace());
        let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string())?;
        cli.fleet.check().map(|()| cli.fleet)
    }

    #[test]
    fn errors_name_the_flag() {
        for flag in [
            "--tasks=0",
            "--tasks=1000001",
            "--fail=2",
            "--max-attempts=0",
            "--max-attempts=1001",
            "--payload=65537",
            "--silent=101%",
            "--silent=91%",
        ] {
            let error = parse(flag).expect_err(flag);
            let name = flag.split('=').next().unwrap_or_default();
            assert!(error.contains(name), "{flag}: {error}");
        }
    }

    #[test]
    fn devices_are_quicker_and_worse_than_without_a_queue() {
        let options = parse("").expect("good");
        assert_eq!((options.devices, options.queue.tasks), (100, 1000));
        assert_eq!(options.lease, Duration::from_millis(500));
        assert_eq!((options.silent, options.duplicates), (0.05, 0.05));
        let options = parse("--lease 2s --silent 0").expect("good");
        assert_eq!((options.lease, options.silent), (Duration::from_secs(2), 0.0));
    }
}
