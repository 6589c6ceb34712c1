//! A flash sale: many buyers, few items.
//!
//! The buyers check the server. Each buyer knows the answers about its order. Their total is
//! compared with the items on sale and with the stock at the end. An operator who changes the stock
//! during the run would make the result wrong.

mod buyer;
mod options;
mod report;
mod stage;
mod tally;
mod till;

pub use options::SaleOptions;

pub(super) use stage::Stage;
