//! Formats the columns of a pool.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_client::PoolState;

use super::model::PoolRow;
use tollgate_core::time::Timestamp;
use tollgate_telemetry::text::grouped;

const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Draws the fraction of used slots as a bar of `columns` characters.
pub(super) fn bar(state: &PoolState, columns: usize) -> String {
    let capacity = u64::from(state.capacity).max(1);
    let whole = columns as u64 * 8;
    let eighths = (u64::from(state.in_use) * whole).div_ceil(capacity).min(whole) as usize;
    let mut text = "█".repeat(eighths / 8);
    if let part @ 1.. = eighths % 8 {
        text.push(EIGHTHS[part]);
    }
    let rest = columns - text.chars().count();
    text + &"·".repeat(rest)
}

/// Formats the slots in use and the capacity.
pub(super) fn usage(state: &PoolState) -> String {
    if state.readable {
        format!("{}/{}", state.in_use, state.capacity)
    } else {
        "unreadable".to_owned()
    }
}

/// Formats the age of the oldest lease.
pub(super) fn oldest(state: &PoolState, now: Timestamp) -> String {
    let held = |grant| wall(now).duration_since(grant).unwrap_or_default();
    state.oldest_grant.map_or_else(dash, |grant| age(held(grant)))
}

/// Formats the numbers of queued tasks and of waiting calls.
pub(super) fn queues(row: &PoolRow) -> [String; 2] {
    [row.state.queued, row.state.waiters.into()].map(grouped)
}

/// Converts a time of the clock.
pub(super) fn wall(time: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(time.0)
}

/// Formats a rate, or `-` if it is unknown.
pub(super) fn rate(rate: Option<f64>) -> String {
    match rate {
        None => dash(),
        Some(rate) if rate > 0.0 && rate < 10.0 => format!("{rate:.1}"),
        Some(rate) => grouped(rate.round() as u64),
    }
}

/// Formats an age in at most two units.
pub(crate) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_empty_only_when_nothing_is_in_use() {
        let bar_of =
            |in_use, capacity| bar(&PoolState { in_use, capacity, ..PoolState::default() }, 4);
        assert_eq!(bar_of(0, 60), "····");
        assert_eq!(bar_of(1, 1_000_000), "▏···");
        assert_eq!(bar_of(30, 60), "██··");
        assert_eq!(bar_of(59, 60), "████");
        assert_eq!(bar_of(90, 60), "████");
        assert_eq!(bar_of(0, 0), "····");
    }

    #[test]
    fn ages_and_rates_are_readable() {
        let ages =
            [0, 59_999, 61_000, 3_661_000, 90_000_000].map(|it| age(Duration::from_millis(it)));
        assert_eq!(ages, ["0s", "59s", "1m01s", "1h01m", "1d01h"]);
        let rates = [None, Some(0.0), Some(0.2), Some(9.96), Some(12_345.6)].map(rate);
        assert_eq!(rates, ["-", "0", "0.2", "10.0", "12,346"]);
    }
}
