//! Queued tasks: they are queued for the devices, which ask for them, run them, fail at
//! some, stay silent or come late, until all are done or dead.
//!
//! The devices are the witnesses: each knows which attempts of its tasks it was given and
//! what became of them, and that is compared with the server's lists at the end and with
//! the events of the pool. An operator who cancels or evicts in mid-run, or a server clock
//! that is set forward, would make it unfair.

mod device;
mod ledger;
mod lists;
mod options;
mod producer;
mod report;
mod stage;
mod tally;
mod witness;

pub use options::QueueOptions;

pub(super) use stage::Stage;
