//! The web console, tested in a real browser: headless Chromium, through chromedriver.
//!
//! `tests/run.sh` installs Chromium with apt-get and axe-core with npm, and sets
//! `TOLLGATE_TEST_AXE` to the latter. Without them these tests say so and pass, or fail if
//! `TOLLGATE_TEST_REQUIRE_TOOLS` is set.

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

#[macro_use]
mod console;

mod actions;
mod browser;
mod calls;
mod checker;
mod keyboard;
mod looks;
mod names;
mod narrow;
mod pages;
mod pictures;
mod rates;
mod security;
mod store;
mod system;
