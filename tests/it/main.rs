//! End-to-end tests: a real gRPC client against a real server. Tests on Redis use the redis-server
//! at `TOLLGATE_TEST_REDIS`, which `tests/run.sh` starts. Scenario ids (A1, H5, …) refer to
//! `tests/SCENARIOS.md`. Each area has a folder; `tests/support/` contains the helpers.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_debug_implementations,
    unreachable_pub,
    reason = "tests"
)]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod admin;
mod admission;
mod cli;
mod console;
mod deploy;
mod differential;
mod durable;
mod engine;
mod events;
mod hostile;
mod lock;
mod rate;
mod reload;
mod security;
mod sequence;
mod server;
mod stock;
mod store_loss;
mod traces;
