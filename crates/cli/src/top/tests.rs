//! Tests of the view: a model, drawn on a terminal in memory.

use std::sync::Arc;

use ratatui::{Terminal, backend::TestBackend};

use tollgate_client::{PoolEvent, PoolEventKind, PoolState};

use super::{
    cells::wall,
    model::Model,
    press,
    screen::Keypress,
    view::{Mode, draw},
};
use tollgate_core::time::Timestamp;

const NOW: u64 = 1_763_711_100_000_000;

fn event(kind: PoolEventKind, device: &str, fencing_token: u64) -> PoolEvent {
    PoolEvent {
        kind: kind.into(),
        fencing_token,
        event_time: Some(wall(Timestamp(NOW - 1_500_000)).into()),
        device_id: device.to_owned(),
        task_id: "t1".to_owned(),
        ..PoolEvent::default()
    }
}

/// Returns two pools with events of five seconds.
fn model() -> Model {
    let mut model = Model::new("http://tollgate:50051", Timestamp(NOW));
    let full = PoolState {
        name: "ar:0571".to_owned(),
        capacity: 60,
        in_use: 45,
        oldest_grant: Some(wall(Timestamp(NOW - 72_000_000))),
        queued: 3210,
        waiters: 4,
        readable: true,
        ..PoolState::default()
    };
    let other = PoolState {
        name: "ar:010".to_owned(),
        capacity: 5,
        paused: true,
        readable: true,
        ..PoolState::default()
    };
    for second in 0..5u64 {
        model.now = Timestamp(NOW - (5 - second) * 1_000_000);
        model.state(PoolState { refused: 1300 * second, ..full.clone() });
        model.state(other.clone());
        model.listed(false);
        model.watch();
        let pool: Arc<str> = "ar:0571".into();
        model.event(pool.clone(), event(PoolEventKind::Admitted, "camera-1", second));
        model.event(pool, event(PoolEventKind::Expired, "camera-2", second));
    }
    model.event("ar:010".into(), event(PoolEventKind::Evicted, "camera-3", 9));
    model.now = Timestamp(NOW);
    model
}

/// Draws the model on a terminal of this size. Returns its lines without trailing spaces.
fn screen(model: &Model, mode: Mode, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).expect("a terminal");
    terminal.draw(|frame| draw(model, mode, frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let symbols: Vec<&str> = buffer.content().iter().map(|cell| cell.symbol()).collect();
    symbols.chunks(columns.into()).map(|line| line.concat().trim_end().to_owned()).collect()
}

#[test]
fn the_display_shows_pools_and_events() {
    let shown = screen(&model(), Mode::default(), 100, 15);
    let rule = "─".repeat(100);
    let events = format!(" events {}", "─".repeat(92));
    assert_eq!(
        shown,
        [
            "Tollgate  http://tollgate:50051  2 pools  2025-11-21T07:45:00Z",
            &rule,
            "POOL                         IN USE                ADM/s FULL/s LATE/s  EXP/s OLDEST  QUEUED WAITING",
            "ar:0571                      ██████·· 45/60          1.0  1,040      0    1.0  1m12s   3,210       4",
            "ar:010  paused               ········ 0/5              0      0      0      0      -       0       0",
            "",
            "",
            "",
            "",
            &events,
            "ar:010   2025-11-21T07:44:58.500Z  EVICTED     camera-3  t1  token 9",
            "ar:0571  2025-11-21T07:44:58.500Z  EXPIRED     camera-2  t1  token 4",
            "ar:0571  2025-11-21T07:44:58.500Z  ADMITTED    camera-1  t1  token 4",
            "ar:0571  2025-11-21T07:44:58.500Z  EXPIRED     camera-2  t1  token 3",
            "q quit  ↑↓ select  p pause  ? help",
        ]
    );
}

#[test]
fn a_selected_pool_shows_only_its_own_events() {
    let (mut model, mut mode) = (model(), Mode::default());
    let mut shown = model.clone();
    press(Keypress::Select(1), &mut model, &mut shown, &mut mode);
    press(Keypress::Select(1), &mut model, &mut shown, &mut mode);
    assert_eq!(model.selected.as_deref(), Some("ar:010"));
    let lines = screen(&shown, mode, 100, 15);
    assert!(lines[9].starts_with(" events of ar:010 ──"), "{lines:#?}");
    assert!(lines[10].starts_with("2025-11-21") && lines[11].is_empty(), "{lines:#?}");
    press(Keypress::Deselect, &mut model, &mut shown, &mut mode);
    assert_eq!(model.selected, None);
}

#[test]
fn a_small_terminal_shows_the_pools() {
    let lines = screen(&model(), Mode::default(), 80, 8);
    assert!(lines[3].starts_with("ar:0571") && lines[3].ends_with("3,210       4"), "{lines:#?}");
    for (columns, rows) in [(1, 1), (20, 3), (300, 200)] {
        screen(&model(), Mode { help: true, paused: true }, columns, rows);
    }
}

#[test]
fn a_lost_server_a_pause_and_the_help_are_shown() {
    let mut model = model();
    let mut mode = Mode { paused: true, help: true };
    let lines = screen(&model, mode, 100, 20);
    assert!(lines[0].ends_with("paused"), "{lines:#?}");
    assert!(lines.iter().any(|line| line.contains("q, Ctrl-C        quit")), "{lines:#?}");
    model.lost = Some("UNAVAILABLE: Connection refused".to_owned());
    mode.help = false;
    let lines = screen(&model, mode, 120, 20);
    assert!(
        lines[0].ends_with("LOST: UNAVAILABLE: Connection refused; trying again"),
        "{lines:#?}"
    );
}

#[test]
fn h18_names_cannot_change_how_the_display_reads() {
    let mut model = model();
    let name: Arc<str> = "ar\u{202e}05\u{2028}71\u{200b}".into();
    model.state(PoolState { name: name.to_string(), ..PoolState::default() });
    model.event(name.clone(), event(PoolEventKind::Admitted, "cam\u{202e}era", 9));
    model.lost = Some("UNAVAILABLE: \u{202e}".to_owned());
    let mut selected = model.clone();
    selected.selected = Some(name);
    for model in [&model, &selected] {
        let text = screen(model, Mode::default(), 120, 30).join("\n");
        assert!(text.contains("ar\\u{202e}05\\u{2028}71\\u{200b}"), "{text}");
        assert!(text.contains("cam\\u{202e}era"), "{text}");
        assert!(!text.contains(['\u{202e}', '\u{2028}', '\u{200b}']), "{text}");
    }
}
