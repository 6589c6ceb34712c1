//! Tollgate through its socket: a real gRPC client, a real server, and, where
//! it says redis, a real redis-server (`TOLLGATE_TEST_REDIS`, which
//! `tests/run.sh` starts).
//!
//! - `admission`, `damage`: the scenarios A… of the known failures, on both engines
//! - `lifecycle`, `listings`: every other answer of the admission contract
//! - `rate`: the scenarios B… and C… of the known failures, on both engines
//! - `rate_answers`: every other answer of the contract of rates
//! - `rate_faults`: clocks set back, damage, bounds
//! - `sequence`: what common recipes for serial numbers get wrong (E ids);
//!   `sequence_faults`: restarts, lost replies, damage; `sequence_failover`: Redis
//!   loses writes; `sequence_load`: many callers
//! - `stock`: what common recipes for stock get wrong (D ids); `stock_answers`: every
//!   other answer; `stock_faults`, `stock_damage`: crowds that lapse, lost replies
//! - `lock`, `lock_faults`: what common recipes for locks get wrong (D ids); `waiting`,
//!   `waiting_crowds`, `waiting_faults`, `admission_waiting`: whose turn it is
//! - `tasks`, `task_ends`: queued tasks, on both engines; `queue` is what they ask with
//! - `events`, `watch`, `watch_rates`, `watch_faults`: every change is an event, and told
//!   to watchers; `history` checks what they are told
//! - `bad_input`, `rate_bad_input`, `sequence_bad_input`, `stock_bad_input`, `names`: what is refused, and
//!   what never shares state
//! - `memory_max`: the embedded engine's ceiling on memory
//! - `degradation`: what is answered while Redis is gone
//! - `denials`, `denial_storms`: what a server remembers of refusals
//! - `durable`: what a restart keeps; `durable_kill`: the scenario S8, kill -9 under load;
//!   `durable_disk`: power loss, a full disk; `durable_damage`: what cannot be used; `durable_time`: stepped clocks
//! - `export`: `tollgate export` and `tollgate import`, from each engine to each
//! - `differential`: both executors of every decision on the same histories
//! - `properties`, `rate_properties`, `sequence_properties`, `stock_properties`: what holds after any history
//! - `round_trips`: what a decision costs Redis
//! - `service`, `peers`: faults, drain, overload, hostile peers
//! - `hostile`: the scenarios H… of the known failures, each beside a well-behaved caller
//! - `replicas`: two servers on one Redis
//! - `confirmation`, `failover`: pools whose admissions replicas confirm, and pools that are
//!   held after a failover; `pairs` are a primary and its replica
//! - `command`: flags, configuration, exit codes
//! - `fleet`, `fleet_rate`, `fleet_sale`, `fleet_queued`: `tollgate fleet` against a server,
//!   without and with `--rate`, `--sale` and `--queued`; `rate_command`: `tollgate rate`
//! - `next_command`: `tollgate next`; `stock_command`: `tollgate stock`; `lock_command`:
//!   `tollgate lock`; `top_command`: `tollgate top`; `watch_command`: `tollgate watch`
//! - `documented`: the commands of `docs/`, `examples/` and the README, and their output

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    missing_debug_implementations,
    unreachable_pub,
    reason = "tests"
)]

#[macro_use]
mod world;

mod admission;
mod admission_waiting;
mod bad_input;
mod callers;
mod command;
mod confirmation;
mod damage;
mod degradation;
mod denial_storms;
mod denials;
mod differential;
mod differential_lock;
mod differential_rate;
mod differential_sequence;
mod differential_stock;
mod documented;
mod durable;
mod durable_damage;
mod durable_disk;
mod durable_kill;
mod durable_time;
mod events;
mod export;
mod failover;
mod farm;
mod faults;
mod fleet;
mod fleet_queued;
mod fleet_rate;
mod fleet_sale;
mod frames;
mod history;
mod hostile;
mod lifecycle;
mod listings;
mod lock;
mod lock_bad_input;
mod lock_command;
mod lock_faults;
mod lock_properties;
mod locks;
mod memory_max;
mod names;
mod next_command;
mod nodes;
mod pairs;
mod peers;
mod process;
mod properties;
mod queue;
mod rate;
mod rate_answers;
mod rate_bad_input;
mod rate_command;
mod rate_faults;
mod rate_properties;
mod rates;
mod replicas;
mod requests;
mod reread;
mod round_trips;
mod sequence;
mod sequence_bad_input;
mod sequence_failover;
mod sequence_faults;
mod sequence_load;
mod sequence_properties;
mod sequences;
mod service;
mod stock;
mod stock_answers;
mod stock_bad_input;
mod stock_command;
mod stock_damage;
mod stock_faults;
mod stock_properties;
mod stocks;
mod task_ends;
mod tasks;
mod top_command;
mod topologies;
mod twins;
mod unsent;
mod waiting;
mod waiting_crowds;
mod waiting_faults;
mod watch;
mod watch_command;
mod watch_faults;
mod watch_rates;
mod wire;
