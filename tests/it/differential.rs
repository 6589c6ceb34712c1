//! Both executors of every decision on the same random histories: the Rust code of the embedded
//! engine, and the Lua scripts in Redis. Their outcomes and states must be equal.
//!
//! A test of decisions runs on one thread: with more threads, every round trip to Redis would wait until the
//! machine has woken several of them.

pub mod batches;
pub mod listings;
pub mod locks;
pub mod pools;
pub mod rates;
pub mod sequences;
pub mod stock;
