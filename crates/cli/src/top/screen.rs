//! The terminal, which is always restored at the end, even after a panic.

use std::{io, thread, time::Duration};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use tokio::sync::mpsc;

/// Interval for checking whether the receiver of keys is closed.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Maximum number of unread keys.
const KEYS_MAX: usize = 64;

/// The action of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keypress {
    /// Quit.
    Quit,
    /// Move the selection by this number of rows.
    Select(isize),
    /// Clear the selection.
    Deselect,
    /// Pause or continue.
    Pause,
    /// Show or hide the help.
    Help,
    /// Redraw, because the terminal was resized.
    Redraw,
}

/// The terminal in full-screen mode. Dropping it restores the terminal, and so does a panic before
/// its message is printed.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Switches the terminal to full-screen mode.
    pub(super) fn open() -> io::Result<Screen> {
        // If it fails halfway, the terminal is restored.
        ratatui::try_init().map(Screen).inspect_err(|_| drop(ratatui::try_restore()))
    }

    pub(super) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(view).map(drop)
    }

    /// Starts reading keys. The channel closes if the terminal cannot be read.
    pub(super) fn keys(&self) -> mpsc::Receiver<Keypress> {
        let (pressed, keys) = mpsc::channel(KEYS_MAX);
        // Reading blocks, so it runs on its own thread, which ends when the receiver is dropped.
        thread::spawn(move || {
            while !pressed.is_closed() {
                let key = match event::poll(CHECK_EVERY) {
                    Ok(true) => event::read().map(|event| meaning(&event)),
                    Ok(false) => Ok(None),
                    Err(error) => Err(error),
                };
                let Ok(key) = key else { return };
                if key.is_some_and(|key| pressed.blocking_send(key).is_err()) {
                    return;
                }
            }
        });
        keys
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A failure is ignored: the terminal may be closed.
        let _ = ratatui::try_restore();
    }
}

fn meaning(event: &Event) -> Option<Keypress> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        Event::Resize(..) => Some(Keypress::Redraw),
        _ => None,
    }
}

fn of_key(key: &KeyEvent) -> Option<Keypress> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Keypress::Quit);
    }
    match key.code {
        KeyCode::Char('q') => Some(Keypress::Quit),
        KeyCode::Down | KeyCode::Char('j') => Some(Keypress::Select(1)),
        KeyCode::Up | KeyCode::Char('k') => Some(Keypress::Select(-1)),
        KeyCode::PageDown => Some(Keypress::Select(10)),
        KeyCode::PageUp => Some(Keypress::Select(-10)),
        KeyCode::Esc => Some(Keypress::Deselect),
        KeyCode::Char('p') => Some(Keypress::Pause),
        KeyCode::Char('?') => Some(Keypress::Help),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let press = |code, modifiers| meaning(&Event::Key(KeyEvent::new(code, modifiers)));
        for (code, key) in [
            (KeyCode::Char('q'), Some(Keypress::Quit)),
            (KeyCode::Char('j'), Some(Keypress::Select(1))),
            (KeyCode::Up, Some(Keypress::Select(-1))),
            (KeyCode::Char('?'), Some(Keypress::Help)),
            (KeyCode::Char('c'), None),
        ] {
            assert_eq!(press(code, KeyModifiers::NONE), key, "{code:?}");
        }
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Keypress::Quit));
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
        assert_eq!(meaning(&Event::Resize(1, 1)), Some(Keypress::Redraw));
    }
}
