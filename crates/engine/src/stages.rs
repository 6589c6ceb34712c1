//! The stages of a call besides the store. `engine.rs` has their order.
//!
//! [`Decision::PROPERTIES`](tollgate_core::Decision::PROPERTIES) says which of them a verb passes.

pub(crate) mod ban_index;
pub mod coalescing;
pub(crate) mod denial_cache;
pub(crate) mod fallback;
pub(crate) mod steps;
pub mod waiting;
