//! The `tollgate` command and its sub-commands, and the commands that the documentation shows.

mod command;
mod documented;
pub(crate) mod fleet;
mod fleet_queued;
mod fleet_rate;
mod fleet_sale;
mod health;
mod json;
mod lock;
mod manual;
mod next;
mod operator;
mod rate;
mod stock;
mod top;
mod version;
mod watch;
