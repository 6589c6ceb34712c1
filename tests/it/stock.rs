//! Stock: scenarios D, further answers, refused requests, damaged state and properties.

pub mod answers;
pub mod bad_input;
pub mod damage;
pub mod faults;
pub mod properties;
pub mod scenarios;
