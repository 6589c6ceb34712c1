//! Hostile and unlucky callers: scenarios H… of the known failures. Each attack runs beside
//! a well-behaved caller on a connection of its own, which must not notice it.

mod arguments;
pub mod bystander;
mod cost;
mod durable;
pub mod memory;
mod messages;
mod overload;
mod peers;
mod protocol;
mod resets;
mod shown;
mod store;
mod sweep;
mod unfinished;
mod untaken;
mod waiters;
mod wire;
