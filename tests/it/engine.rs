//! The parts of the engines: the denial cache, listings of names, the fallback, the memory bound,
//! names, several servers on one Redis and their number, Cluster and Sentinels, round trips.

pub mod batches;
pub mod degradation;
pub mod denial_storms;
pub mod denials;
pub mod listings;
pub mod memory_max;
pub mod names;
pub mod namespaces;
mod repeats_elsewhere;
pub mod replicas;
pub mod round_trips;
pub mod servers;
pub mod topologies;
pub mod unsent;
