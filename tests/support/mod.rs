//! Helpers of the end-to-end tests: servers, clients, Redis in every topology, recorded histories.

#[macro_use]
pub mod world;

pub mod access;
pub mod batches;
pub mod callers;
pub mod certificates;
pub mod collector;
pub mod farm;
pub mod history;
pub mod listings;
pub mod locks;
pub mod nodes;
pub mod pairs;
pub mod process;
pub mod queue;
pub mod rates;
pub mod requests;
pub mod reread;
pub mod sequences;
pub mod stocks;
pub mod tier;
pub mod twins;
pub mod wire;
