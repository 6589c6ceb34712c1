//! Locks: scenarios D, refused requests, faults, properties, and the order of waiters.

pub mod bad_input;
pub mod faults;
pub mod properties;
pub mod scenarios;
pub mod waiting;
pub mod waiting_crowds;
pub mod waiting_faults;
