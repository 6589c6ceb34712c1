//! Tests of the library against a real server, and against servers that fail.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod closing;
mod faults;
mod middleware;
mod permits;
mod support;
mod tls;
mod verbs;
