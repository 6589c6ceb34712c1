//! Hostile and unlucky callers: scenarios H1 to H28 and J15 of `tests/SCENARIOS.md`. During an
//! attack, a well-behaved [`bystander`] makes calls on another connection, which must all succeed.
//! These scenarios have no bystander:
//! - H6 to H10, H15, H20, H21, H23: the disk, the store or the server fails, so no call can
//!   succeed.
//! - H11, H12, H18, H25: the test has no server or no attack.
//!
//! Under overload (H24) health checks and completions must succeed; other calls may be refused.

mod arguments;
pub mod bystander;
mod cost;
mod durable;
mod endless;
mod floods;
mod gzip;
mod headers;
pub mod memory;
pub mod messages;
mod overload;
mod peers;
mod protocol;
mod refused;
mod resets;
mod shown;
mod slow;
mod store;
mod stored;
mod sweep;
mod unfinished;
mod unreceived;
mod untaken;
mod waiters;
pub mod wire;
