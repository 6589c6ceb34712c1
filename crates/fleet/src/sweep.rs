//! `--sweep`: runs the same fleet on different capacities of a pool, for planning.

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::time::sleep;
use tollgate_client::{Error, Pool};

use super::{Report, options::FleetOptions};
use tollgate_cli::{
    client::{ClientError, advice, connect, failed},
    exit,
    json::object,
    print::{print, warn},
    table::{Column, Table},
};
use tollgate_core::time::monotonic;
use tollgate_telemetry::text::{grouped, length};

const WHAT: &str = "sweep over capacities";
/// Pause before the pool is checked again.
const AGAIN: Duration = Duration::from_millis(100);
/// How long after the longest lease the pool must be empty.
const EMPTY: Duration = Duration::from_secs(10);

const COLUMNS: [Column; 6] = [
    Column::Number("CAPACITY"),
    Column::Number("UTILISATION"),
    Column::Number("COMPLETED/S"),
    Column::Number("WAIT P50"),
    Column::Number("WAIT P99"),
    Column::Number("FULL"),
];

/// Runs the fleet on each capacity and prints a row for it. Ends early on a signal, or with exit
/// code 1 if the server has violated its contract.
pub async fn sweep(options: &FleetOptions) -> Result<ExitCode, ClientError> {
    let device = &options.device;
    let connection = connect(&options.server, &options.access, WHAT).await?;
    let pool = connection.pool(&device.pool);
    let fail = |error: Error| failed(WHAT, &options.server, &error, advice(error.code));
    let before = pool.usage().await.map_err(fail)?.capacity;
    let (mut table, mut status) = (Table::new(COLUMNS), 0);
    for capacity in device.sweep.iter().flat_map(|capacities| capacities.all()) {
        let until = monotonic() + device.lease + EMPTY;
        if !empty(&pool, until).await.map_err(fail)? {
            let todo = "choose a pool that nobody else uses with --pool";
            return Err(ClientError(format!("cannot {WHAT}: `{}` is in use; {todo}", pool.name())));
        }
        let mut run = options.clone();
        run.device.capacity = Some(capacity);
        let report = super::run(&run).await?;
        let values = values(capacity, &report);
        let text = if options.output.is_json() {
            object(&values) + "\n"
        } else {
            table.page([row(&values)])
        };
        print(&text).map_err(|error| ClientError(format!("cannot print the table: {error}")))?;
        if report.exit_status() != 0 {
            warn(&report.to_string());
            status = exit::REFUSED;
        }
        if report.interrupted || status != 0 {
            break;
        }
    }
    pool.configure(Some(before), None).await.map_err(fail)?;
    Ok(ExitCode::from(status))
}

/// Waits until there are no leases. Returns false if that takes too long.
async fn empty(pool: &Pool, until: Instant) -> Result<bool, Error> {
    while pool.usage().await?.in_use > 0 {
        if monotonic() > until {
            return Ok(false);
        }
        sleep(AGAIN).await;
    }
    Ok(true)
}

/// Collects the values of a run that depend on the capacity.
fn values(capacity: u32, report: &Report) -> Value {
    let report = report.json();
    let at = |pointer: &str| report.pointer(pointer).cloned().unwrap_or_default();
    json!({
        "capacity": capacity,
        "utilisation": at("/utilisation"),
        "completedPerSecond": at("/completedPerSecond"),
        "waitP50Micros": at("/waitForASlot/p50Micros"),
        "waitP99Micros": at("/waitForASlot/p99Micros"),
        "full": at("/answersToAdmitTask/full"),
        "held": at("/held"),
    })
}

fn row(values: &Value) -> [String; 6] {
    let number = |key: &str| values[key].as_u64().unwrap_or_default();
    let ratio = |key: &str| values[key].as_f64().unwrap_or_default();
    let wait = |key: &str| match values[key].as_u64() {
        Some(micros) => length(Duration::from_micros(micros)),
        None => "-".to_owned(),
    };
    [
        grouped(number("capacity")),
        format!("{:.1} %", ratio("utilisation") * 100.0),
        format!("{:.1}", ratio("completedPerSecond")),
        wait("waitP50Micros"),
        wait("waitP99Micros"),
        grouped(number("full")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_admissions_has_no_waits() {
        let values = values(20, &Report::default());
        assert_eq!(row(&values), ["20", "0.0 %", "0.0", "-", "-", "0"]);
    }
}
