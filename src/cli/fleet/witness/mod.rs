//! What the actors of a run know, and what must never happen.

mod attempts;
mod concurrency;
mod events;
mod window;

pub(super) use attempts::{Attempts, Dispatch};
pub(super) use concurrency::{Concurrency, Hold, certain_end};
pub(super) use events::{Events, Seen};
pub(super) use window::Window;
