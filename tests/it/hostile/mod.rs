//! Hostile and unlucky callers: scenarios H1 to H28 of `tests/SCENARIOS.md`. Most attacks run
//! beside a well-behaved [`bystander`] on another connection, whose calls must all succeed.

mod arguments;
pub mod bystander;
mod cost;
mod durable;
mod floods;
mod gzip;
pub mod memory;
mod messages;
mod overload;
mod peers;
mod protocol;
mod refused;
mod resets;
mod shown;
mod slow;
mod store;
mod sweep;
mod unfinished;
mod untaken;
mod waiters;
mod wire;
