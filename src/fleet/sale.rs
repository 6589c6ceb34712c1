//! A flash sale: many buyers, few items.
//!
//! The buyers are the witnesses: each knows what it was told about its order, and what
//! they have bought together is compared with what was on sale and with the stock at
//! the end. An operator who changes the stock in mid-run would make it unfair.

mod buyer;
mod options;
mod report;
mod stage;
mod tally;
mod till;

pub use options::SaleOptions;

pub(super) use stage::Stage;
