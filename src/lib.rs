//! Tollgate: a gRPC service that backends ask for permission.
//!
//! One decision = one RPC verb = one Rust struct = one Lua script = one atomic step = one round
//! trip. Two executors run each decision, and a differential test proves that they agree.
//!
//! # Map
//! - [`admission`], [`rate`], [`sequence`], [`lock`], [`stock`]: the rules of a capability, one
//!   file per verb. Each verb is a [`decision::Decision`]: `decide` in Rust, its twin in `lua/`.
//! - [`lease`], [`waiting`], [`events`], `memory` (the replay cache): parts that several
//!   capabilities share.
//! - [`denial`]: which refusals a server may cache. [`degradation`]: the fallback while the store
//!   is unreachable. [`confirmation`]: replica acknowledgement.
//! - [`engine`]: runs decisions, in this process or in Redis. Contains the denial cache, the
//!   waiters, the event feeds and the sweeper.
//! - [`grpc`]: parses requests into decisions and converts outcomes into responses.
//! - [`server`]: listeners, threads, routes, health, drain. [`budget`]: limits on what callers can
//!   make the server hold.
//! - [`command`]: the `tollgate` command; `main` only calls it. [`config`]: flags, environment and
//!   `tollgate.toml`. [`telemetry`]: logs.
//! - [`caller`]: the commands that make single calls or watch. [`fleet`]: simulated devices that
//!   create load.
//! - [`record`]: persistence. [`archive`]: the lines of an export file. [`transfer`]: export and
//!   import.
//! - [`names`] builds every Redis key, [`time`] reads every clock, [`script`] lists every script,
//!   [`error`] says why a call could not be decided. [`allocator`], `parted` (a hash map that
//!   resizes in steps), `globs`, `text` and `signals` are utilities.
//!
//! Dependencies point one way: command → server → grpc → engine → capabilities → decision → script,
//! names, time, error. Only `grpc` uses the generated messages, only `grpc` and `server` use tonic,
//! only `engine::redis` uses Redis.
//!
//! # The path of a request
//! 1. [`server`] assigns the connection to a thread. Each thread has a single-threaded runtime; a
//!    call stays on it.
//! 2. [`grpc`] parses the request into a decision and reports all invalid fields at once. The
//!    settings come from the configuration.
//! 3. [`engine`] looks into the denial cache. A cached refusal is answered at once. A call with
//!    `max_wait` is handled by [`engine::room`], which repeats the decision when a slot may be
//!    free. Concurrent calls for numbers of one sequence are merged by the coalescer
//!    ([`engine::lanes`]).
//! 4. The store decides in one atomic step. The embedded engine locks the shard of the partition
//!    and calls `decide`; with a data directory it also appends the changes to a write batch. The
//!    Redis engine encodes KEYS and ARGV, sends them with other calls on a pipeline as one EVALSHA,
//!    and parses the reply.
//! 5. If the store is unreachable, the fallback may answer.
//! 6. [`grpc`] converts the outcome. A refusal is an answer with status OK. An
//!    [`Error`](error::Error) becomes a gRPC error: it could not be decided.
//!
//! # Glossary
//! - *Partition*: the unit of atomicity: one pool, rate key, sequence, lock or sku.
//! - *Pool*, *capacity*, *slot*: an external system, and the number of tasks it can run at once.
//! - *Lease*: the right to a slot or a lock until it expires. *Grace*: time after the expiry during
//!   which a slot stays held. *Fencing token*: a number that grows with each lease.
//! - *Hold*: a quantity of a sku that is reserved for an order until it is paid.
//! - *Backlog*: the queued tasks of a pool. *Attempt*: one dispatch of a queued task.
//! - *Waiter*: a call that waits for a slot or a lock. *Ticket*: its entry in the queue. *Wake-up*:
//!   the message that a waiter may proceed. *Heartbeat*: keeps the tickets of a server alive.
//! - *Denial cache*: refusals that a server repeats without asking the store. *Replay cache*:
//!   answers stored for repeats of a `request_id`.
//! - *Sweeper*: background expiry. *Partition index*: the names that the sweeper and listings
//!   visit.
//! - *Replica acknowledgement*: replicas confirm a write. *Revoke*: undo a write they did not
//!   confirm.
//! - *Primary id*: names the Redis primary that answers; a new one means a failover or a
//!   restart.
//! - *Write batch*: the changes of decisions that are written to the disk together.

// The futures of a server nest deeper than the default limit allows.
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
