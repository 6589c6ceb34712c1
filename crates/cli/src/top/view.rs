//! Draws the display from nothing but a model, so that tests can check the contents of the
//! terminal.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style, Stylize},
    text::{Line, Text},
    widgets::{Block, Borders, Cell, Clear, Paragraph, Row as TableRow, Table, TableState},
};

use super::{
    cells,
    model::{Model, PoolRow},
};
use crate::watch::{line, millis};
use tollgate_telemetry::text::escaped;

const HEADINGS: [&str; 9] =
    ["POOL", "IN USE", "ADM/s", "FULL/s", "LATE/s", "EXP/s", "OLDEST", "QUEUED", "WAITING"];
/// Widths of all columns except the first, which gets the remaining width.
const WIDTHS: [u16; 8] = [20, 6, 6, 6, 6, 6, 7, 7];
/// Width of a bar, without the space after it.
const BAR: usize = 8;
/// Minimum height of a terminal that shows events.
const EVENTS_FROM: u16 = 14;
const HELP: &str = "\
Up, Down, k, j   select a pool and show only its events
Esc              clear the selection
p                pause the display; counting continues
?                show or hide this help
q, Ctrl-C        quit

ADM, LATE, EXP   tasks per second that were admitted, reported late, or
                 expired, in watched pools
FULL             calls per second that this server answered FULL";

/// Switches of the display.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Mode {
    /// The display is paused and changes only on key presses.
    pub(super) paused: bool,
    /// The help covers the display.
    pub(super) help: bool,
}

/// Draws the whole display.
pub(super) fn draw(model: &Model, mode: Mode, frame: &mut Frame<'_>) {
    let area = frame.area();
    let events = if area.height >= EVENTS_FROM { area.height / 3 } else { 0 };
    let [title, pools, events, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(events),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(heading(model, mode), title);
    draw_pools(model, frame, pools);
    draw_events(model, frame, events);
    frame.render_widget(Line::from("q quit  ↑↓ select  p pause  ? help").dim(), keys);
    if mode.help {
        draw_help(frame, area);
    }
}

fn heading(model: &Model, mode: Mode) -> Line<'_> {
    let (count, more) = (model.rows().len(), if model.more { " and more" } else { "" });
    let mut line = Line::default();
    line.push_span("Tollgate".bold());
    let time = millis(cells::wall(model.now));
    let time = time.split('.').next().unwrap_or_default();
    line.push_span(format!("  {}  {count} pools{more}  {time}Z  ", escaped(&model.server)));
    if let Some(why) = &model.lost {
        line.push_span(format!("LOST: {}; trying again", escaped(why)).red().bold());
    } else if mode.paused {
        line.push_span("paused".yellow().bold());
    } else if let Some(why) = &model.silent {
        line.push_span(format!("no events: {}", escaped(why)).yellow());
    }
    line
}

fn draw_pools(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let rows = model.rows();
    let selected = |row: &&PoolRow| Some(row.state.name.as_str()) == model.selected.as_deref();
    let mut state = TableState::default().with_selected(rows.iter().position(selected));
    let cells = rows.iter().map(|row| pool(model, row));
    let header = HEADINGS.iter().enumerate().map(|(at, text)| aligned((*text).to_owned(), at));
    let widths = [Constraint::Min(8)].into_iter().chain(WIDTHS.map(Constraint::Length));
    let table = Table::new(cells, widths)
        .header(TableRow::new(header).style(Style::new().add_modifier(Modifier::BOLD)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::new().borders(Borders::TOP).border_style(Style::new().dim()));
    frame.render_stateful_widget(table, area, &mut state);
}

fn pool<'a>(model: &Model, row: &'a PoolRow) -> TableRow<'a> {
    let state = &row.state;
    let full = f64::from(state.in_use) / f64::from(state.capacity.max(1));
    let color = match full {
        _ if state.paused || !state.readable => Color::DarkGray,
        full if full >= 1.0 => Color::Red,
        full if full >= 0.75 => Color::Yellow,
        _ => Color::Green,
    };
    let mut name = Line::from(escaped(&state.name));
    if state.paused {
        name.push_span("  paused".yellow());
    }
    let mut usage = Line::from(cells::bar(state, BAR).fg(color));
    usage.push_span(format!(" {}", cells::usage(state)));
    let numbers = model.rates(row).map(cells::rate).into_iter();
    let numbers = numbers.chain([cells::oldest(state, model.now)]).chain(cells::queues(row));
    let numbers = numbers.zip(2..).map(|(text, at)| aligned(text, at));
    TableRow::new([Cell::from(name), Cell::from(usage)].into_iter().chain(numbers))
}

/// Left-aligns names and bars, right-aligns numbers.
fn aligned(text: String, column: usize) -> Cell<'static> {
    let text = Text::from(text);
    Cell::from(if column < 2 { text } else { text.right_aligned() })
}

fn draw_events(model: &Model, frame: &mut Frame<'_>, area: Rect) {
    let title = match &model.selected {
        Some(pool) => format!(" events of {} ", escaped(pool)),
        None => " events ".to_owned(),
    };
    let block = Block::new().borders(Borders::TOP).border_style(Style::new().dim()).title(title);
    let room = area.height.saturating_sub(1).into();
    let names = model.events().take(room).map(|(pool, _)| escaped(pool).chars().count());
    let width = names.max().unwrap_or(0);
    let lines = model.events().take(room).map(|(pool, event)| match model.selected {
        Some(_) => Line::from(line(event, None)),
        None => Line::from(format!("{:<width$}  {}", escaped(pool), line(event, None))),
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let text = Text::from(HELP);
    let (width, height) = (text.width() as u16 + 4, text.height() as u16 + 2);
    let area = area.centered(Constraint::Max(width), Constraint::Max(height));
    let block =
        Block::bordered().title(" tollgate top ").padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(text).block(block), area);
}
