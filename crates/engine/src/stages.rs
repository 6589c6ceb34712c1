//! The stages of a call other than the store. `engine.rs` defines their order.
//!
//! [`Decision::PROPERTIES`](tollgate_core::Decision::PROPERTIES) says which of them a verb passes
//! through.

pub(crate) mod ban_index;
pub mod coalescing;
pub(crate) mod denial_cache;
pub(crate) mod fallback;
pub(crate) mod steps;
pub mod waiting;
