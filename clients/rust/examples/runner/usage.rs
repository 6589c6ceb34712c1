//! What the process uses.

use serde_json::{Value, json};

/// Ticks of the processor time in /proc, per second.
const TICKS: f64 = 100.0;
const PAGE: u64 = 4096;

pub(crate) fn usage(calls: u64) -> Value {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the name, which may contain spaces; times of user and system.
    let fields = stat.rsplit_once(')').map(|(_, rest)| rest).unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.filter_map(|it| it.parse::<f64>().ok()).sum();
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|it| it.parse::<u64>().ok());
    let rss = pages.unwrap_or_default() * PAGE;
    json!({ "cpu_seconds": ticks / TICKS, "rss_bytes": rss, "calls": calls })
}
