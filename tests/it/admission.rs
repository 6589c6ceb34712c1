//! Pools and their tasks, on both engines: scenarios A, further answers, refused requests,
//! properties, replica acknowledgement and failovers.

pub mod acknowledgement;
pub mod bad_input;
pub mod batches;
pub mod damage;
pub mod failover;
pub mod lifecycle;
pub mod listings;
pub mod properties;
pub mod requeue;
pub mod scenarios;
pub mod task_ends;
pub mod tasks;
pub mod waiting;
