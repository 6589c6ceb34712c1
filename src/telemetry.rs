//! Logs: one event a line on standard error, as text or JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

/// Starts logging, from this level or filter on. Called once, before anything
/// is logged.
pub fn init(json: bool, level: &str) {
    let filter = filter(level).unwrap_or_else(|| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        // It would be told on standard error, and panic where that cannot be written: a log on
        // a full disk must not end anything.
        .log_internal_errors(false);
    match json {
        true => subscriber.json().flatten_event(true).init(),
        false => subscriber.with_ansi(io::stderr().is_terminal()).init(),
    }
}

/// The filter of a level or of filter directives. A bare level is Tollgate's
/// own: the libraries below it speak up at warn.
pub fn filter(text: &str) -> Option<EnvFilter> {
    const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
    match LEVELS.contains(&text) {
        true => EnvFilter::try_new(format!("warn,tollgate={text}")).ok(),
        false if text.contains('=') => EnvFilter::try_new(text).ok(),
        false => None,
    }
}
