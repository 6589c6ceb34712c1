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

pub(super) use line::{line, millis};
pub use options::{HELP, WatchOptions};

use self::{occupancy::Occupancy, options::Watched, printer::Printer};
use super::{
    CallerError, connect, failed,
    follow::{Followable, Followed, Follower},
};
use crate::{
    cli::signals::Signals,
    grpc::client::{CallError, Client},
};

/// Interval between two checks whether the reader of the output is closed.
const LOOK: Duration = Duration::from_millis(500);
/// Maximum number of pages of leases, of 1,000 each, that are read at the start.
const PAGES_MAX: usize = 10;

/// Prints events to standard output until a signal arrives, the reader closes the output, or
/// `--count` events are printed. Lost connections are reported to `tell`.
pub async fn run(options: &WatchOptions, tell: impl Fn(&str)) -> Result<(), CallerError> {
    let mut signals = Signals::new()
        .map_err(|error| CallerError(format!("cannot listen for signals: {error}")))?;
    let printer = Printer::start(io::stdout());
    let ended = select! {
        ended = watch(options, &printer, tell) => ended,
        () = signals.next() => Ok(()),
        () = nobody_reads(io::stdout()) => Ok(()),
    };
    let printed = printer.end().await;
    ended?;
    let what = format!("cannot print the events of `{}`", options.watched().name());
    printed.map_err(|error| CallerError(format!("{what}: {error}")))
}

async fn watch(
    options: &WatchOptions,
    printer: &Printer,
    tell: impl Fn(&str),
) -> Result<(), CallerError> {
    let (watched, server) = (options.watched(), &options.server);
    let (name, what) = (watched.name(), format!("watch `{}`", watched.name()));
    let error = |error: CallError| failed(&what, server, &error, advice(error.code, watched));
    let client = connect(server, &what).await?;
    let after = options.after();
    let (json, from_now_on) = (options.json, after.is_none());
    let ended = match watched {
        Watched::Pool(_) => {
            let follower = Follower::open(client.clone(), name, after).await.map_err(error)?;
            // Read after the stream is open, so that the end of each listed lease is in the stream.
            let mut occupancy = match from_now_on {
                true => occupancy(&client, name).await,
                false => Occupancy::default(),
            };
            let form = |told: &_| {
                let in_use = occupancy.after(told);
                if json { json::json(told) } else { line::line(told, in_use) }
            };
            follow(follower, options, printer, form, tell).await
        }
        Watched::Policy(_) => {
            let follower = Follower::open(client, name, after).await.map_err(error)?;
            let form = |event: &_| if json { rates::json(event) } else { rates::line(event) };
            follow(follower, options, printer, form, tell).await
        }
    };
    ended.map_err(error)
}

/// Prints events until `--count` is reached or the output is closed.
async fn follow<E: Followable>(
    mut follower: Follower<E>,
    options: &WatchOptions,
    printer: &Printer,
    mut form: impl FnMut(&E) -> String,
    tell: impl Fn(&str),
) -> Result<(), CallError> {
    let mut left = options.count.unwrap_or(u64::MAX);
    while left > 0 {
        match follower.next().await? {
            Followed::Event(event) => {
                if !printer.print(form(&event)).await {
                    return Ok(());
                }
                left -= 1;
            }
            Followed::Lost(error) => {
                let name = options.watched().name();
                tell(&format!("the events of `{name}` stopped: {error}; trying again"));
            }
            Followed::Resumed if follower.has_cursor() => {
                tell("the events continue where they stopped")
            }
            Followed::Resumed => tell("the events continue; those in between are missing"),
        }
    }
    Ok(())
}

/// Reads the running leases. Returns an inexact occupancy if they cannot be read or are too many.
async fn occupancy(client: &Client, pool: &str) -> Occupancy {
    let (mut tokens, mut page_token) = (Vec::new(), String::new());
    for _ in 0..PAGES_MAX {
        let Ok((page, next)) = client.list_leases(pool, &page_token).await else { break };
        tokens.extend(page);
        page_token = next;
        if page_token.is_empty() {
            let Ok(usage) = client.usage(pool).await else { break };
            return Occupancy::of(tokens, usage.capacity);
        }
    }
    Occupancy::default()
}

/// Waits until the other end of the output pipe is closed.
async fn nobody_reads(out: impl Write + AsFd) {
    let mut look = interval(LOOK);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while !is_closed(out.as_fd()) {
        look.tick().await;
    }
}

fn is_closed(out: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::new(&out, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&at_once)).is_ok_and(|ready| ready > 0)
}

/// Returns what to do about a failed watch.
fn advice(code: &str, watched: Watched<'_>) -> &'static str {
    match (code, watched) {
        ("INTERNAL", Watched::Pool(_)) => {
            "other pools are not affected; lua/README.md describes how to repair this one"
        }
        ("NOT_FOUND", _) => "policies are defined in the server's configuration",
        ("UNIMPLEMENTED", _) => "this server does not know events: update it",
        _ => super::advice(code),
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
