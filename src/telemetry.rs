//! Logs: one event a line on standard error, as text or JSON.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;

use crate::text;

/// Starts logging, from this level or filter on. Called once, before anything
/// is logged.
pub fn init(json: bool, level: &str) {
    let filter = filter(level).unwrap_or_else(|| EnvFilter::new("info"));
    let colors = !json && io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Escaping { json, colors })
        // It would be told on standard error, and panic where that cannot be written: a log on
        // a full disk must not end anything.
        .log_internal_errors(false);
    match json {
        true => subscriber.json().flatten_event(true).init(),
        false => subscriber.with_ansi(colors).init(),
    }
}

/// Standard error, without characters of names that act on a terminal or change how a line
/// reads.
struct Escaping {
    json: bool,
    /// Lines hold colors; the library escapes ESC in values.
    colors: bool,
}

impl Write for Escaping {
    /// Writes an event, which comes whole.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        // A line is one line: what breaks it comes from a value.
        let line = line.strip_suffix('\n').unwrap_or(&line);
        let escaped = match self {
            Escaping { json: true, .. } => text::escaped_json(line),
            Escaping { colors: true, .. } => text::escaped_colors(line),
            _ => text::escaped(line),
        };
        io::stderr().write_all(format!("{escaped}\n").as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
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
