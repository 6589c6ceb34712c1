//! Callers: keys that keep asking whether they are within their rate.
//!
//! The callers are the witnesses: each knows when its allowed calls were sent
//! and answered, and the most that certainly fell into one window is compared
//! with what the algorithm permits. Like the devices' count it is a lower
//! bound of what the server let pass, and an operator who resets keys, or a
//! server clock that is set forward, would make it unfair.

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
