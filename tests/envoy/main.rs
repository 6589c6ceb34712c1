//! Envoy's rate limit service: the points of its semantics, a comparison with envoyproxy/ratelimit,
//! faults, and the pages. Tests on Redis use the redis-server at `TOLLGATE_TEST_REDIS`.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_debug_implementations,
    missing_docs,
    unreachable_pub,
    reason = "tests"
)]

#[macro_use]
mod support;

mod all_or_nothing;
mod api;
mod counts;
mod operations;
mod peer;
mod points;
mod proxy;
mod readme;
mod reports;
mod requests;
mod service;
mod store;
