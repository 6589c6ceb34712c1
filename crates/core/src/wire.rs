//! The wire form of decisions: the scripts, their KEYS and ARGV, and their replies. The only builder
//! of Redis keys.

mod call;
mod key;
mod reply;
pub mod script;

pub use call::{Arguments, Call, Leads, Sighting};
pub use key::push_key;
pub use reply::{Item, OK, Reply, unknown_status};
