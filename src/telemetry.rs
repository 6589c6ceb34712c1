//! Logs: one event a line on standard error, as text or JSON.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;

use crate::config::Log;

/// Starts logging. Called once, before anything is logged.
pub fn init(log: &Log) {
    // The configuration has checked the filter.
    let filter = EnvFilter::try_new(&log.level).unwrap_or_else(|_| EnvFilter::new("info"));
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    match log.json {
        true => subscriber.json().flatten_event(true).init(),
        false => subscriber.with_ansi(io::stderr().is_terminal()).init(),
    }
}
