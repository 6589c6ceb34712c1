//! The helpers of the end-to-end tests that these tests use.

#![allow(dead_code, unused_macros, reason = "the other tests use the rest")]

#[macro_use]
#[path = "../support/world.rs"]
pub mod world;

#[path = "../support/access.rs"]
pub mod access;
#[path = "../support/nodes.rs"]
pub mod nodes;
#[path = "../support/process.rs"]
pub mod process;
#[path = "../support/requests.rs"]
pub mod requests;
