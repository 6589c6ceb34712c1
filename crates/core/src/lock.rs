//! Locks: one owner at a time, for the length of a lease.
//!
//! A lease expires, so a crashed holder does not block the lock. A stalled holder may outlive its
//! lease; the protected system rejects it by its *fencing token*, which is smaller than the next
//! holder's.
//!
//! | verb | struct | script |
//! |---|---|---|
//! | AcquireLock | [`AcquireLock`] | `lua/lock/acquire.lua` |
//! | RenewLock | [`RenewLock`] | `lua/lock/renew.lua` |
//! | ReleaseLock | [`ReleaseLock`] | `lua/lock/release.lua` |
//! | GetLock | [`GetLock`] | `lua/lock/get.lua` |
//! | – (revokes a lease that no caller has received) | [`RevokeLock`] | `lua/lock/revoke.lua` |
//! | – (heartbeat of a server for its waiters) | [`HeartbeatLock`] | `lua/lock/heartbeat.lua` |

mod acquire;
mod export;
mod get;
mod heartbeat;
mod lines;
mod record;
mod release;
mod renew;
mod revoke;
mod state;

pub use acquire::{AcquireLock, Acquisition};
pub use get::{GetLock, Holder, LockView};
pub use heartbeat::HeartbeatLock;
pub use lines::LockLine;
pub use release::{Release, ReleaseLock};
pub use renew::{RenewLock, Renewal};
pub use revoke::RevokeLock;
pub use state::Lock;
pub(crate) use state::RETENTION;

pub use crate::lease::Lease;
use crate::{Call, names::Name, time::Millis, unknown_status};

/// The shortest lease.
pub const LEASE_MIN: Millis = Millis(1);
/// The longest lease: 30 days.
pub const LEASE_MAX: Millis = Millis::from_secs(30 * 86_400);
/// Length of a lease unless the call specifies one.
pub const LEASE_DEFAULT: Millis = Millis::from_secs(30);

/// Appends KEYS and ARGV of a plain script, in the order of `lua/lib/plain_lock.lua`.
fn push_plain(call: &mut Call, owner: &Name, value: u64) {
    call.key(&[b"lock"]);
    call.key(&[b"queue"]);
    call.bytes(&[owner.as_bytes(), &[0], &value.to_le_bytes()]);
}
