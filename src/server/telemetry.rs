//! Logs: one event per line on standard error, as text or JSON.

use std::{
    fmt,
    io::{self, IsTerminal, Write},
};

use tracing_subscriber::{EnvFilter, reload};

use tollgate_telemetry::text;

/// The target of audit lines.
const AUDIT: &str = "audit";

/// The log level, which can be replaced at run time.
pub struct LogLevel(Box<dyn Fn(EnvFilter) -> Result<(), reload::Error> + Send + Sync>);

impl fmt::Debug for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LogLevel")
    }
}

impl LogLevel {
    /// Replaces the level or filter. An invalid one changes nothing.
    pub fn set(&self, level: &str) {
        if let Some(Err(error)) = filter(level).map(&self.0) {
            tracing::error!(%error, "cannot change the log level");
        }
    }
}

/// Starts logging at this level or with this filter; an invalid filter means `info`. Must be called
/// once, before the first event. Returns a handle to replace the level.
pub fn init(json: bool, level: &str) -> LogLevel {
    let filter = filter(level).unwrap_or_else(|| EnvFilter::new("info"));
    let colors = !json && io::stderr().is_terminal();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || Escaping { json, colors })
        // tracing would report a failed write on standard error, and panic if that fails as well; a
        // full disk must not end the server.
        .log_internal_errors(false);
    if json {
        let subscriber = subscriber.json().flatten_event(true).with_filter_reloading();
        let handle = subscriber.reload_handle();
        subscriber.init();
        LogLevel(Box::new(move |filter| handle.reload(filter)))
    } else {
        let subscriber = subscriber.with_ansi(colors).with_filter_reloading();
        let handle = subscriber.reload_handle();
        subscriber.init();
        LogLevel(Box::new(move |filter| handle.reload(filter)))
    }
}

/// Standard error with control characters escaped, because a name in a log line must not affect the
/// terminal or change how the line reads.
struct Escaping {
    json: bool,
    /// Whether lines have colors. tracing itself then escapes ESC in values.
    colors: bool,
}

impl Write for Escaping {
    /// Writes one complete event.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let line = String::from_utf8_lossy(bytes);
        // An event is one line; any other line break comes from a value and is escaped.
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

/// Parses a level, or directives such as `tollgate=debug`. A bare level applies to Tollgate, while
/// its libraries log at warn. Audit lines are logged at every level unless there is a directive for
/// `audit`. Returns `None` if the text is neither.
pub fn filter(text: &str) -> Option<EnvFilter> {
    const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];
    if LEVELS.contains(&text) {
        EnvFilter::try_new(format!("warn,{AUDIT}=info,tollgate={text}")).ok()
    } else if !text.contains('=') {
        None
    } else if text.contains(AUDIT) {
        EnvFilter::try_new(text).ok()
    } else {
        EnvFilter::try_new(format!("{AUDIT}=info,{text}")).ok()
    }
}
