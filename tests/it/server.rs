//! Drain, overload, broken connections and peers that break the protocol.

pub mod faults;
pub mod frames;
pub mod peers;
pub mod service;
