//! `tollgate top`: shows the pools of a server live.

mod cells;
mod feed;
mod model;
mod options;
mod rates;
mod screen;
mod table;
mod view;

use std::{
    io::{self, IsTerminal, stdout},
    time::Duration,
};

use tokio::{
    select,
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval},
};

pub(crate) use cells::age;
pub use options::{HELP, TopOptions};
use tollgate_client::{Connection, Error, pb};

use self::{
    feed::{News, NewsFeed},
    model::Model,
    screen::{Keypress, Screen},
    view::Mode,
};
use super::{
    client::{self, ClientError, connect, failed},
    listing::PrintedList,
};
use crate::signals::Signals;
use tollgate_core::time::Clock;

/// Interval between two frames.
const FRAME: Duration = Duration::from_millis(250);
/// Number of pools per page of the plain table, and maximum number of pages.
const PAGE: (u32, usize) = (100, 10);
const WHAT: &str = "show the pools";

/// Shows the pools until the user quits. Without a terminal, or with `--once`, returns a table
/// instead. Prints JSON lines with `--output json`.
pub async fn run(options: &TopOptions) -> Result<Option<String>, ClientError> {
    let connection = connect(&options.server, &options.access, WHAT).await?;
    let error = |error: Error| failed(WHAT, &options.server, &error, advice(error.code));
    if options.output.is_json() {
        let listing = PrintedList { message: "Pool", columns: [], row: |_: &pb::Pool| [] };
        let read = async |token: &str| connection.pools(token).await;
        listing.print(options.output, read, |failure| error(failure.clone())).await?;
        return Ok(None);
    }
    if options.once || !stdout().is_terminal() {
        return once(&connection).await.map(Some).map_err(error);
    }
    // A first call reports permanent errors before switching to full-screen mode.
    connection.list_pools(1, "").await.map_err(error)?;
    let unusable = |error| ClientError(format!("cannot {WHAT} on this terminal: {error}"));
    live(options, connection).await.map(|()| None).map_err(unusable)
}

/// Reads all pools and formats the table.
async fn once(connection: &Connection) -> Result<String, Error> {
    let mut model = Model::new("", Clock::system().now());
    let mut token = String::new();
    for _ in 0..PAGE.1 {
        let (pools, next) = connection.list_pools(PAGE.0, &token).await?;
        pools.into_iter().for_each(|pool| model.state(pool));
        token = next;
        if token.is_empty() {
            break;
        }
    }
    model.listed(!token.is_empty());
    Ok(table::table(&model))
}

async fn live(options: &TopOptions, connection: Connection) -> io::Result<()> {
    let (mut signals, mut hangup) = (Signals::new()?, signal(SignalKind::hangup())?);
    let clock = Clock::system();
    let (mut news, want, feed) = NewsFeed::start(connection);
    let mut screen = Screen::open()?;
    let mut keys = screen.keys();
    let mut model = Model::new(&options.server, clock.now());
    let (mut shown, mut mode) = (model.clone(), Mode::default());
    let mut frames = interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        select! {
            biased;
            () = ended(&mut signals, &mut hangup) => break,
            key = keys.recv() => {
                let Some(key) = key.filter(|key| *key != Keypress::Quit) else { break };
                press(key, &mut model, &mut shown, &mut mode);
                screen.draw(|frame| view::draw(&shown, mode, frame))?;
            }
            _ = frames.tick() => {
                model.now = clock.now();
                let wanted = model.watch();
                want.send_if_modified(|before| {
                    let differs = *before != wanted;
                    *before = wanted;
                    differs
                });
                if !mode.paused {
                    shown.clone_from(&model);
                    screen.draw(|frame| view::draw(&shown, mode, frame))?;
                }
            }
            Some(news) = news.recv() => {
                model.now = clock.now();
                apply(news, &mut model);
            }
        }
    }
    feed.abort();
    Ok(())
}

async fn ended(signals: &mut Signals, hangup: &mut Signal) {
    select! {
        () = signals.next() => {}
        _ = hangup.recv() => {}
    }
}

fn apply(news: News, model: &mut Model) {
    match news {
        News::State(pool) => model.state(pool),
        News::Listed(more) => model.listed(more),
        News::Event(pool, event) => model.event(pool, event),
        News::Lost(error) => model.lost = Some(error.to_string()),
        News::Silent(error) => model.silent = Some(error.to_string()),
        News::Found => model.lost = None,
    }
}

/// Applies a key to the displayed model and to the current one, which differ during a pause.
fn press(key: Keypress, model: &mut Model, shown: &mut Model, mode: &mut Mode) {
    match key {
        Keypress::Select(down) => {
            shown.select(down);
            model.selected = shown.selected.clone();
        }
        Keypress::Deselect => {
            shown.selected = None;
            model.selected = None;
        }
        Keypress::Pause => mode.paused = !mode.paused,
        Keypress::Help => mode.help = !mode.help,
        Keypress::Redraw | Keypress::Quit => {}
    }
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "UNIMPLEMENTED" => "this is not a Tollgate server, or one without admission",
        _ => client::advice(code),
    }
}

#[cfg(test)]
mod tests;
