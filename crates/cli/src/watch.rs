//! `tollgate watch`: prints the events of a pool or of a policy's keys.

mod json;
mod line;
mod occupancy;
mod options;
mod printer;
mod rates;

use std::{
    io::{self, Write},
    os::fd::AsFd,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::BorrowedFd,
};
use tokio::{
    select,
    time::{MissedTickBehavior, interval},
};
use tollgate_client::{Connection, Error, Event, Watch, Watched};

pub(crate) use line::{line, millis};
pub use options::{HELP, WatchOptions};

use self::{occupancy::Occupancy, options::Target, printer::Printer};
use super::client::{self, ClientError, connect, failed};
use crate::signals::Signals;

/// Interval for checking whether the reader has closed the output.
const CHECK_EVERY: Duration = Duration::from_millis(500);
/// Maximum number of pages of 1,000 leases that are read at the start.
const PAGES_MAX: usize = 10;

/// Prints events to standard output until a signal arrives, the reader closes the output, or
/// `--count` events have been printed. Lost connections are passed to `warn`.
pub async fn run(options: &WatchOptions, warn: impl Fn(&str)) -> Result<(), ClientError> {
    let mut signals = Signals::new()
        .map_err(|error| ClientError(format!("cannot listen for signals: {error}")))?;
    let printer = Printer::start(io::stdout());
    let ended = select! {
        ended = watch(options, &printer, warn) => ended,
        () = signals.next() => Ok(()),
        () = nobody_reads(io::stdout()) => Ok(()),
    };
    let printed = printer.end().await;
    ended?;
    let what = format!("cannot print the events of `{}`", options.target().name());
    printed.map_err(|error| ClientError(format!("{what}: {error}")))
}

async fn watch(
    options: &WatchOptions,
    printer: &Printer,
    warn: impl Fn(&str),
) -> Result<(), ClientError> {
    let (target, server) = (options.target(), &options.server);
    let (name, what) = (target.name(), format!("watch `{}`", target.name()));
    let error = |error: Error| failed(&what, server, &error, advice(error.code, target));
    let connection = connect(server, &options.access, &what).await?;
    let after = options.after();
    let (json, from_now_on) = (options.is_json(), after.is_none());
    let ended = match target {
        Target::Pool(_) => {
            let watch = Watch::open(connection.clone(), name, after).await.map_err(error)?;
            // Read after the stream is open, so that the stream contains the end of each listed
            // lease.
            let mut occupancy =
                if from_now_on { occupancy(&connection, name).await } else { Occupancy::default() };
            let form = |event: &_| {
                let in_use = occupancy.after(event);
                if json { json::json(event) } else { line::line(event, in_use) }
            };
            follow(watch, options, printer, form, warn).await
        }
        Target::Policy(_) => {
            let watch = Watch::open(connection, name, after).await.map_err(error)?;
            let form = |event: &_| if json { rates::json(event) } else { rates::line(event) };
            follow(watch, options, printer, form, warn).await
        }
    };
    ended.map_err(error)
}

/// Prints events until `--count` is reached or the output is closed.
async fn follow<E: Event>(
    mut watch: Watch<E>,
    options: &WatchOptions,
    printer: &Printer,
    mut form: impl FnMut(&E) -> String,
    warn: impl Fn(&str),
) -> Result<(), Error> {
    let mut left = options.count.unwrap_or(u64::MAX);
    while left > 0 {
        match watch.next().await? {
            Watched::Event(event) => {
                if !printer.print(form(&event)).await {
                    return Ok(());
                }
                left -= 1;
            }
            Watched::Lost(error) => {
                let name = options.target().name();
                warn(&format!("the events of `{name}` stopped: {error}; trying again"));
            }
            Watched::Resumed if watch.has_cursor() => {
                warn("the events continue where they stopped")
            }
            Watched::Resumed => warn("the events continue, but some are missing"),
        }
    }
    Ok(())
}

/// Reads the running leases. Returns an inexact occupancy if they cannot be read or there are too
/// many.
async fn occupancy(connection: &Connection, pool: &str) -> Occupancy {
    let pool = connection.pool(pool);
    let (mut tokens, mut page_token) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let Ok((page, next)) = pool.list_leases(&page_token).await else { break };
        tokens.extend(page);
        page_token = next;
        if page_token.is_empty() {
            let Ok(usage) = pool.usage().await else { break };
            return Occupancy::from_tokens(tokens, usage.capacity);
        }
    }
    Occupancy::default()
}

/// Waits until the reader has closed the output pipe.
async fn nobody_reads(out: impl Write + AsFd) {
    let mut check = interval(CHECK_EVERY);
    check.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !is_closed(out.as_fd()) {
        check.tick().await;
    }
}

fn is_closed(out: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Returns what to do about a failed watch.
fn advice(code: &str, target: Target<'_>) -> &'static str {
    match (code, target) {
        ("INTERNAL", Target::Pool(_)) => {
            "other pools are not affected; lua/README.md describes how to repair this one"
        }
        ("NOT_FOUND", _) => "policies are defined in the configuration of the server",
        ("UNIMPLEMENTED", _) => "this server does not support events: upgrade it",
        _ => client::advice(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_closed_when_its_reader_is_gone() {
        let (reader, writer) = io::pipe().expect("a pipe");
        assert!(!is_closed(writer.as_fd()));
        drop(reader);
        assert!(is_closed(writer.as_fd()));
    }
}
