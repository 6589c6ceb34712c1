//! Queued tasks: a producer queues tasks for devices, which run them until all are completed or
//! dead. Some devices fail, stay silent or report late.
//!
//! The devices check the server. Each device knows which attempts of its tasks it got and how they
//! ended. That is compared with the server's lists at the end and with the events of the pool. An
//! operator who cancels or evicts tasks during the run, or a server clock that is set forward,
//! would make the result wrong.

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
