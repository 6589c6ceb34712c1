//! The terminal: taken over, and given back however this ends.

use std::{io, thread, time::Duration};

use ratatui::{
    DefaultTerminal, Frame,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};
use tokio::sync::mpsc;

/// How often it is looked whether keys are still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// Keys that wait to be taken.
const KEYS_MAX: usize = 64;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// To end.
    Quit,
    /// To select another pool, so many rows further down.
    Select(isize),
    /// To select none.
    Deselect,
    /// To pause or go on.
    Pause,
    /// To show or hide the help.
    Help,
    /// To draw again: the terminal has another size.
    Redraw,
}

/// A terminal that is drawn on. Dropping it gives the terminal back, and so does a panic,
/// before its message is printed.
#[derive(Debug)]
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the terminal over.
    pub(super) fn open() -> io::Result<Screen> {
        // A failure half-way leaves nothing behind.
        ratatui::try_init().map(Screen).inspect_err(|_| drop(ratatui::try_restore()))
    }

    pub(super) fn draw(&mut self, view: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(view).map(drop)
    }

    /// The keys that are pressed from now on; none any more when the terminal is gone.
    pub(super) fn keys(&self) -> mpsc::Receiver<Key> {
        let (pressed, keys) = mpsc::channel(KEYS_MAX);
        // Reading blocks: it has a thread of its own, which ends with the receiver.
        thread::spawn(move || {
            while !pressed.is_closed() {
                let key = match event::poll(LOOK) {
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
        // A terminal that is gone needs nothing.
        let _ = ratatui::try_restore();
    }
}

fn meaning(event: &Event) -> Option<Key> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => of_key(key),
        Event::Resize(..) => Some(Key::Redraw),
        _ => None,
    }
}

fn of_key(key: &KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Key::Quit);
    }
    match key.code {
        KeyCode::Char('q') => Some(Key::Quit),
        KeyCode::Down | KeyCode::Char('j') => Some(Key::Select(1)),
        KeyCode::Up | KeyCode::Char('k') => Some(Key::Select(-1)),
        KeyCode::PageDown => Some(Key::Select(10)),
        KeyCode::PageUp => Some(Key::Select(-10)),
        KeyCode::Esc => Some(Key::Deselect),
        KeyCode::Char('p') => Some(Key::Pause),
        KeyCode::Char('?') => Some(Key::Help),
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
            (KeyCode::Char('q'), Some(Key::Quit)),
            (KeyCode::Char('j'), Some(Key::Select(1))),
            (KeyCode::Up, Some(Key::Select(-1))),
            (KeyCode::Char('?'), Some(Key::Help)),
            (KeyCode::Char('c'), None),
        ] {
            assert_eq!(press(code, KeyModifiers::NONE), key, "{code:?}");
        }
        assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Key::Quit));
        assert_eq!(press(KeyCode::Char('q'), KeyModifiers::CONTROL), None);
        assert_eq!(meaning(&Event::Resize(1, 1)), Some(Key::Redraw));
    }
}
