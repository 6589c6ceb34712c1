//! Sequences: scenarios E, refused requests, restarts, lost writes, load and properties.

pub mod bad_input;
pub mod failover;
pub mod faults;
pub mod floors;
pub mod load;
pub mod properties;
pub mod scenarios;
