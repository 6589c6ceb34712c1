//! Collections whose operations stay short however large they grow, and which can be persisted entry
//! by entry.

mod expiring_map;
mod expiry_index;
mod history;
mod incremental_map;

pub(crate) use expiring_map::{ExpiringMap, ExpiringValue};
pub(crate) use expiry_index::{ExpiryIndex, Member};
pub use history::{After, EventPage, History, KEPT};
pub use incremental_map::IncrementalMap;
