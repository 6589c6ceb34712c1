//! A pool and its leases as text.

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use tollgate_client::{
    pb::{Lease, Pool, PoolConfig},
    time,
};

use crate::{table::Column, top::age};
use tollgate_core::time::Clock;
use tollgate_telemetry::text::grouped;

/// Columns of `tollgate pool list`.
pub(super) const POOL_COLUMNS: [Column; 7] = [
    Column::Text("POOL"),
    Column::Number("IN USE"),
    Column::Text("STATE"),
    Column::Number("OLDEST"),
    Column::Number("QUEUED"),
    Column::Number("WAITING"),
    Column::Number("REFUSED"),
];

/// Columns of `tollgate pool leases`.
pub(super) const LEASE_COLUMNS: [Column; 5] = [
    Column::Text("DEVICE"),
    Column::Text("TASK"),
    Column::Number("TOKEN"),
    Column::Number("HELD FOR"),
    Column::Number("ENDS IN"),
];

/// Returns the cells of a pool in a list.
pub(super) fn pool_row(pool: &Pool) -> [String; 7] {
    let usage = pool.usage.unwrap_or_default();
    let in_use = match pool.config {
        Some(_) => format!("{}/{}", usage.in_use, usage.capacity),
        None => "-".to_owned(),
    };
    [
        pool.pool.clone(),
        in_use,
        state(pool),
        pool.oldest_grant_time.map_or_else(|| "-".to_owned(), |grant| since(Some(grant))),
        grouped(pool.queued),
        grouped(pool.waiters.into()),
        grouped(pool.refused),
    ]
}

/// Returns the cells of a lease.
pub(super) fn lease_row(lease: &Lease) -> [String; 5] {
    [
        lease.device_id.clone(),
        lease.task_id.clone(),
        lease.fencing_token.to_string(),
        since(lease.grant_time),
        until(lease.expire_time),
    ]
}

/// Describes in a word or two whether a pool admits tasks.
fn state(pool: &Pool) -> String {
    match &pool.config {
        None => "unreadable",
        Some(config) if config.paused => "paused",
        Some(_) if pool.hold_end_time.is_some() => "on hold",
        Some(config) if config.capacity == 0 => "no slots",
        Some(_) => "open",
    }
    .to_owned()
}

/// Describes a pool, one property per line.
pub(super) fn details(pool: &Pool) -> String {
    let usage = pool.usage.unwrap_or_default();
    let mut lines = vec![("pool", pool.pool.clone()), ("state", state(pool))];
    if pool.hold_end_time.is_some() {
        lines.push(("hold ends in", until(pool.hold_end_time)));
    }
    let over = if usage.over_by > 0 { format!(", {} over", usage.over_by) } else { String::new() };
    lines.extend([
        (
            "in use",
            format!("{} of {}, {} free{over}", usage.in_use, usage.capacity, usage.available),
        ),
        ("queued tasks", grouped(pool.queued)),
        ("waiting calls", grouped(pool.waiters.into())),
        ("refused by this server", {
            let (refused, cached) = (grouped(pool.refused), grouped(pool.refused_cached));
            format!("{refused}, {cached} of them from its denial cache")
        }),
    ]);
    if pool.oldest_grant_time.is_some() {
        lines.push(("oldest lease", since(pool.oldest_grant_time)));
    }
    if pool.next_expire_time.is_some() {
        lines.push(("next end of a lease", format!("in {}", until(pool.next_expire_time))));
    }
    lines.extend(pool.config.iter().flat_map(settings));
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let lines: Vec<String> =
        lines.iter().map(|(name, value)| format!("{name:<width$}  {value}")).collect();
    lines.join("\n")
}

/// Lists the settings in force, and marks those of ConfigurePool.
fn settings(config: &PoolConfig) -> Vec<(&'static str, String)> {
    let length = |it| time::length(it, "").map_or_else(|_| "?".to_owned(), readable);
    let fields = [
        ("capacity", "capacity", grouped(config.capacity.into())),
        ("paused", "paused", config.paused.to_string()),
        ("lease duration", "lease_duration", length(config.lease_duration)),
        ("expiry grace", "expiry_grace", length(config.expiry_grace)),
        ("max attempts", "max_attempts", config.max_attempts.to_string()),
        ("retention", "retention", length(config.retention)),
        ("barging", "barging", config.barging.to_string()),
        ("queued max", "queued_max", grouped(config.queued_max.into())),
        ("history", "history", grouped(config.history.into())),
    ];
    let marked = |(title, field, value): (&'static str, &str, String)| {
        let is_set = config.overrides.iter().any(|name| name == field);
        (title, if is_set { value + "  (set at run time)" } else { value })
    };
    fields.into_iter().map(marked).collect()
}

/// Describes what a pause means for running leases.
pub(super) fn paused(pool: &Pool) -> String {
    let Pool { pool: name, usage, .. } = pool;
    let running = usage.unwrap_or_default().in_use;
    format!(
        "{name}: paused, {} leases run on; `tollgate pool resume` ends it",
        grouped(running.into())
    )
}

/// Describes with which capacity a pool admits tasks again, and where that capacity comes from.
pub(super) fn resumed(pool: &Pool) -> String {
    let config = pool.config.clone().unwrap_or_default();
    let origin = if config.overrides.iter().any(|name| name == "capacity") {
        "set at run time"
    } else {
        "of the configuration"
    };
    let (name, capacity) = (&pool.pool, grouped(config.capacity.into()));
    let mut text = format!("{name}: resumed, capacity {capacity}, {origin}");
    if pool.hold_end_time.is_some() {
        text += &format!("; on hold for another {}, after a failover", until(pool.hold_end_time));
    } else if config.capacity == 0 {
        text += "; no task is admitted before `tollgate pool configure --capacity`";
    }
    text
}

/// Formats the time since an instant on the engine's clock, measured by this machine's clock.
pub(crate) fn since(instant: Option<Timestamp>) -> String {
    distance(instant, |instant, now| now.duration_since(instant).unwrap_or_default())
}

/// Formats the time until an instant on the engine's clock, measured by this machine's clock.
pub(crate) fn until(instant: Option<Timestamp>) -> String {
    distance(instant, |instant, now| instant.duration_since(now).unwrap_or_default())
}

fn distance(instant: Option<Timestamp>, of: impl Fn(SystemTime, SystemTime) -> Duration) -> String {
    let now = SystemTime::UNIX_EPOCH + Duration::from_micros(Clock::system().now().0);
    time::time(instant).map_or_else(|_| "-".to_owned(), |instant| age(of(instant, now)))
}

fn readable(length: Duration) -> String {
    humantime::format_duration(length).to_string()
}

#[cfg(test)]
mod tests {
    use tollgate_client::Usage;

    use super::*;

    fn pool() -> Pool {
        let config = PoolConfig { capacity: 60, max_attempts: 3, ..PoolConfig::default() };
        let usage = Usage { capacity: 60, in_use: 62, over_by: 2, ..Usage::default() };
        Pool { pool: "p".to_owned(), config: Some(config), usage: Some(usage), ..Pool::default() }
    }

    #[test]
    fn a_state_says_why_nobody_is_admitted() {
        let mut pool = pool();
        assert_eq!(state(&pool), "open");
        assert!(details(&pool).contains("62 of 60, 0 free, 2 over\n"), "{}", details(&pool));
        pool.hold_end_time = Some(Timestamp::default());
        assert_eq!(state(&pool), "on hold");
        if let Some(config) = &mut pool.config {
            config.paused = true;
            config.overrides.push("paused".to_owned());
        }
        assert_eq!(state(&pool), "paused");
        let text = details(&pool);
        assert!(text.contains("true  (set at run time)\n") && !text.contains("60  (set"), "{text}");
        pool.config = None;
        assert_eq!(pool_row(&pool)[1..3], ["-", "unreadable"]);
    }

    #[test]
    fn a_resumed_pool_names_its_capacity_and_the_next_obstacle() {
        let mut pool = pool();
        assert_eq!(resumed(&pool), "p: resumed, capacity 60, of the configuration");
        if let Some(config) = &mut pool.config {
            config.capacity = 0;
            config.overrides.push("capacity".to_owned());
        }
        let text = resumed(&pool);
        assert!(text.starts_with("p: resumed, capacity 0, set at run time; no task"), "{text}");
    }
}
