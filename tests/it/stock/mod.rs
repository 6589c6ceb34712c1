//! Stock: scenarios D, all other answers, refused requests, damaged state and properties.

pub mod answers;
pub mod bad_input;
pub mod damage;
pub mod faults;
pub mod properties;
pub mod scenarios;
