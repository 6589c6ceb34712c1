//! Rates: scenarios B and C, further answers, refused requests, faults and properties.

pub mod answers;
pub mod bad_input;
pub mod faults;
pub mod key;
pub mod properties;
pub mod scenarios;
