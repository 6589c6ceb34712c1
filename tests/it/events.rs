//! Each change is an event, and watchers receive it.

pub mod pools;
pub mod watch;
pub mod watch_faults;
pub mod watch_rates;
