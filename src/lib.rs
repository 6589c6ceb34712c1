//! Tollgate: a gRPC service that backends ask for permission.
//!
//! One decision = one RPC verb = one Rust struct = one Lua script = one atomic step = one round
//! trip. Two executors run each decision, and a differential test proves that they agree.
//!
//! # Map
//! - [`cli`]: the command line; `main` only calls it. [`tollgate_cli`]: the commands that are
//!   clients of a server. [`tollgate_fleet`]: simulated devices that create load.
//! - [`config`]: flags, environment and `tollgate.toml`, and its reload.
//! - [`server`]: starts the transport; admin listener, health, drain, logs.
//! - [`tollgate_http`]: the transport: connections and their limits, threads, TLS, load shedding,
//!   the fast path of unary calls. Knows gRPC, and nothing about Tollgate.
//! - `tollgate_console`: pages of the admin listener for operators, in a browser; the feature
//!   `console`.
//! - [`tollgate_status`]: status and metrics for operators.
//! - [`grpc`]: parses requests into decisions and converts outcomes into responses.
//! - [`tollgate_engine`]: runs decisions, in this process or in Redis. Contains the denial cache, the
//!   waiters, the event feeds and the sweeper.
//! - [`tollgate_core`]: the rules of each capability, one file per verb, and their vocabulary. Each
//!   verb is a [`tollgate_core::Decision`]: `decide` in Rust, its twin in `lua/`.
//! - [`tollgate_telemetry`]: counters, spans, reached limits, rate-limited log lines.
//!
//! Dependencies point one way: cli → config → server → grpc → engine → core; no two folders depend
//! on each other. The client commands use the crate `tollgate_client` of `clients/rust`; the console
//! calls the RPCs within the process, through its stubs. Only `grpc` uses the generated messages of
//! the server, only the transport, `grpc`, `server` and the console use tonic, only
//! `tollgate_engine::redis` uses Redis.
//!
//! # The path of a request
//! 1. [`tollgate_http`] assigns the connection to a thread. Each thread has a single-threaded runtime; a
//!    call stays on it.
//! 2. [`grpc`] parses the request into a decision and reports all invalid fields together. The
//!    settings come from the configuration.
//! 3. [`tollgate_engine`] consults the denial cache. A cached refusal is answered immediately. A
//!    call with `max_wait` is handled by [`tollgate_engine::stages::waiting`], which repeats the
//!    decision when a slot may be free. Concurrent calls for numbers of one sequence are merged by
//!    the coalescer ([`tollgate_engine::stages::coalescing`]).
//! 4. The store decides in one atomic step. The embedded engine locks the shard of the partition
//!    and calls `decide`; with a data directory it also appends the changes to a write batch. The
//!    Redis engine encodes KEYS and ARGV, sends them with other calls on a pipeline as one EVALSHA,
//!    and parses the reply.
//! 5. If the store is unreachable, the fallback may answer. A new ban is also entered into the
//!    index that ListBans reads.
//! 6. [`grpc`] converts the outcome. A refusal is an answer with status OK. An
//!    [`Error`](tollgate_core::error::Error) becomes a gRPC error: it could not be decided.
//!
//! The words are defined in the glossary of `docs/architecture.md`.

// The futures of a server nest deeper than the default limit allows.
#![recursion_limit = "256"]

pub mod cli;
pub mod config;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzz;
pub mod grpc;
pub mod server;
