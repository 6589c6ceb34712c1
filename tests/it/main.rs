//! End-to-end tests: a real gRPC client against a real server. Tests on Redis use the redis-server
//! at `TOLLGATE_TEST_REDIS`, which `tests/run.sh` starts. Scenario ids (A1, H5, …) refer to
//! `tests/SCENARIOS.md`.
//!
//! - `admission`, `damage`: scenarios A, on both engines
//! - `lifecycle`, `listings`: all other answers of the admission contract
//! - `rate`: scenarios B and C, on both engines
//! - `rate_answers`: all other answers of the rate contract
//! - `rate_faults`: clocks that are set back, damaged state, bounds
//! - `sequence`: scenarios E; `sequence_faults`: restarts, lost replies, damaged state;
//!   `sequence_failover`: Redis loses writes; `sequence_load`: many callers
//! - `stock`: scenarios D of stock; `stock_answers`: all other answers; `stock_faults`,
//!   `stock_damage`: holds that lapse together, lost replies, damaged state
//! - `lock`, `lock_faults`: scenarios D of locks; `waiting`, `waiting_crowds`, `waiting_faults`,
//!   `admission_waiting`: the order of waiters
//! - `tasks`, `task_ends`: queued tasks, on both engines; `queue` has their requests
//! - `events`, `watch`, `watch_rates`, `watch_faults`: each change is an event, and watchers
//!   receive it; `history` checks the received events
//! - `bad_input`, `rate_bad_input`, `sequence_bad_input`, `stock_bad_input`, `lock_bad_input`:
//!   refused requests; `names`: names that must not share state
//! - `memory_max`: the memory bound of the embedded engine
//! - `degradation`: the fallback while Redis is unreachable
//! - `denials`, `denial_storms`: the denial cache
//! - `durable`: state that survives a restart; `durable_kill`: scenario S8, kill -9 under load;
//!   `durable_disk`: power loss, a full disk; `durable_damage`: unusable data directories;
//!   `durable_time`: stepped clocks
//! - `export`: `tollgate export` and `tollgate import`, from each engine to each
//! - `differential`: both executors of every decision on the same histories
//! - `properties`, `rate_properties`, `sequence_properties`, `stock_properties`, `lock_properties`:
//!   invariants after any history
//! - `round_trips`: the cost of a decision in Redis
//! - `service`, `peers`: faults, drain, overload, hostile peers
//! - `hostile`: scenarios H, most of them beside a well-behaved caller
//! - `replicas`: two servers on one Redis
//! - `confirmation`, `failover`: pools whose admissions replicas acknowledge, and pools that are
//!   held after a failover; `pairs` starts a primary and its replica
//! - `command`: flags, configuration, exit codes
//! - `fleet`, `fleet_rate`, `fleet_sale`, `fleet_queued`: `tollgate fleet` against a server,
//!   without an option and with `--rate`, `--sale` and `--queued`; `rate_command`: `tollgate rate`
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
