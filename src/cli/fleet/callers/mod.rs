//! Callers: one per key, each checks its rate again and again.
//!
//! The callers check the server. Each caller knows when its allowed calls were sent and answered.
//! The maximum number that certainly fell into one window is compared with the maximum that the
//! algorithm permits. Like the number of devices in flight it is a lower bound. An operator who
//! resets keys, or a server clock that is set forward, would make the result wrong.

mod caller;
mod options;
mod plot;
mod report;
mod schedule;
mod stage;
mod tally;
mod timeline;
mod witness;

pub use options::CallerOptions;

pub(super) use stage::Stage;
