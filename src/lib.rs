//! Tollgate: a gRPC service that backends ask before they let something happen.
//!
//! One decision = one RPC verb = one Rust struct = one Lua script = one atomic
//! step = one round trip, with two executors that are proven to agree.
//!
//! # Layout
//! - [`admission`], [`rate`], [`sequence`], [`lock`], [`stock`]: the rules of a
//!   capability, a file per verb. Each verb is a [`decision::Decision`]: `decide` in Rust,
//!   its twin in `lua/`. [`lease`], [`waiting`] and [`events`] are what several of them
//!   have.
//! - [`engine`]: what runs decisions: in this process, or in Redis; where calls wait, and
//!   feeds of events for those that watch.
//! - [`grpc`]: requests into decisions, outcomes into responses.
//! - [`server`]: routes, health, reflection, limits, drain.
//! - [`command`]: the `tollgate` command, which is all that `main` calls. [`config`]: flags,
//!   environment and `tollgate.toml`; [`telemetry`]: logs.
//! - [`fleet`]: a fleet of devices, callers or buyers to play against a server;
//!   [`caller`]: a single caller, for a quick try, or one that watches.
//! - [`denial`]: which refusals a server may give again without asking the store.
//!   [`degradation`]: what is answered while the store cannot be asked.
//!   [`confirmation`]: which replicas have to have what was decided.
//! - [`record`]: what is kept of states over a restart. [`archive`]: the same as a file that
//!   any engine takes in; [`transfer`] writes and reads it.
//! - [`budget`]: the limits on what callers can make the server hold, and how often each was
//!   reached.
//! - [`names`] builds every key, [`time`] reads every clock, [`script`] holds
//!   every script, [`allocator`] hands free memory back, `memory` remembers for a
//!   time, `globs` finds a name's entry of the configuration, `signals` hears Ctrl-C,
//!   `text` writes numbers and names for people, [`error`] says why a decision could not be taken.
//!
//! Dependencies point one way: command → server → grpc → engine → capabilities →
//! decision → script, names, time, error. Only `grpc` knows generated messages,
//! only it and `server` know tonic, only `engine::redis` knows Redis.

// A server is futures within futures, deeper than the default.
#![recursion_limit = "256"]

pub mod admission;
pub mod allocator;
pub mod archive;
pub mod budget;
pub mod caller;
pub mod command;
pub mod config;
pub mod confirmation;
pub mod decision;
pub mod degradation;
pub mod denial;
pub mod engine;
pub mod error;
pub mod events;
pub mod fleet;
mod globs;
pub mod grpc;
pub mod lease;
pub mod lock;
mod memory;
pub mod names;
mod parted;
pub mod rate;
pub mod record;
pub mod script;
pub mod sequence;
pub mod server;
mod signals;
pub mod stock;
pub mod telemetry;
mod text;
pub mod time;
pub mod transfer;
pub mod waiting;
