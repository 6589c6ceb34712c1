//! Admission: at most N tasks run on an external system at the same time.
//!
//! A *pool* is one external system. Each admitted task holds a *lease*, and the number of leases is
//! the count. There is no second counter that could drift from them. A lease runs until it expires.
//! Its *slot* is held until then, or for the pool's `expiry_grace` longer if there is no result.
//!
//! Tasks can be *queued* in advance. A device that reports without a task gets its oldest queued
//! task; this is an *attempt*. A task stays in the *backlog* until it succeeds, is cancelled,
//! expires, or is dead after its last attempt. A dead task can be queued again. Every change appends
//! an [`Event`] to the history of the pool.
//!
//! # Invariants
//! - While all slots of the pool are held, no other task gets a lease. More are held only after the
//!   capacity has been lowered, or after [`RenewTask`] has registered leases again that a failover
//!   had lost.
//! - A task has at most one lease that holds a slot. While the last lease of a task is in its
//!   grace, a new lease takes over its slot.
//! - Fencing tokens of a pool grow with each lease. A renewal keeps the token.
//! - The first result of a task is final. A queued task that failed has no result.
//! - Leases and slots end through the passage of time alone; the sweeper and later decisions only
//!   log that they have ended.
//!
//! | verb | struct | script |
//! |---|---|---|
//! | AdmitTask, AdmitTasks | [`AdmitTask`] | `lua/admission/admit.lua` |
//! | CompleteTask, CompleteTasks | [`CompleteTask`] | `lua/admission/complete.lua` |
//! | RenewTask, RenewTasks | [`RenewTask`] | `lua/admission/renew.lua` |
//! | EvictTask | [`EvictTask`] | `lua/admission/evict.lua` |
//! | EnqueueTasks | [`EnqueueTask`], one per task | `lua/admission/enqueue.lua` |
//! | CancelTask | [`CancelTask`] | `lua/admission/cancel.lua` |
//! | RequeueTask | [`RequeueTask`] | `lua/admission/requeue.lua` |
//! | ListTasks | [`ListTasks`] | `lua/admission/list_tasks.lua` |
//! | – (background expiry) | [`SweepPool`] | `lua/admission/sweep.lua` |
//! | – (counts for the limits of namespaces) | [`CountHeld`] | `lua/admission/count_held.lua` |
//! | GetPool | [`GetPool`] | `lua/admission/get_pool.lua` |
//! | ListLeases | [`ListLeases`] | `lua/admission/list_leases.lua` |
//! | – (for WatchPool) | [`ReadEvents`] | `lua/admission/read_events.lua` |
//! | – (revokes a lease that is not acknowledged or not received) | [`RevokeTask`] | `lua/admission/revoke.lua` |
//! | ConfigurePool | [`ConfigurePool`] | `lua/admission/configure.lua` |
//! | – (heartbeat of a server for its waiters) | [`HeartbeatPool`] | `lua/admission/heartbeat.lua` |

mod admit;
mod cancel;
mod complete;
mod configure;
mod count_held;
mod enqueue;
mod event;
mod evict;
mod get_pool;
mod heartbeat;
mod holders;
mod list_leases;
mod list_tasks;
mod pool;
mod read_events;
mod renew;
mod requeue;
mod revoke;
mod settings;
mod sweep;
mod task;

pub use admit::{Admission, AdmitDecision, AdmitTask, Dispatched, FullPool};
pub use cancel::{CancelTask, CancelVerdict, Cancellation};
pub use complete::{CompleteTask, CompleteVerdict, Completion};
pub use configure::ConfigurePool;
pub use count_held::CountHeld;
pub use enqueue::{EnqueueStatus, EnqueueTask};
pub use event::{Event, EventKind};
pub use evict::{EvictTask, EvictVerdict};
pub use get_pool::{GetPool, PoolView};
pub use heartbeat::HeartbeatPool;
use holders::HOLDERS_MAX;
pub use holders::SlotHolders;
pub use list_leases::{HeldLease, LeaseCursor, LeasePage, ListLeases};
pub use list_tasks::{AttemptEnd, ListTasks, ListedState, ListedTask, TaskCursor, TaskPage};
pub use pool::Pool;
pub use pool::{PoolLine, TaskLine};
pub use read_events::ReadEvents;
pub use renew::{RenewTask, RenewVerdict};
pub use requeue::{RequeueTask, RequeueVerdict};
pub use revoke::{RevokeReason, RevokeTask};
pub use settings::{AfterFailover, Catalog, CatalogError, Overrides, PoolRule, Settings};
pub use sweep::SweepPool;
pub use task::{Outcome, QueueState, Queued, Task, TaskState};

use smallvec::SmallVec;

pub use crate::lease::Lease;
use crate::{
    Call, Reply,
    error::Error,
    names::{Name, SEPARATOR},
    time::Millis,
    unknown_status,
};

/// The largest capacity of a pool.
pub const CAPACITY_MAX: u32 = 1_000_000;
/// The shortest lease.
pub const LEASE_MIN: Millis = Millis(100);
/// The longest lease: 24 h.
pub const LEASE_MAX: Millis = Millis::from_secs(86_400);
/// The longest grace: 30 days.
pub const GRACE_MAX: Millis = Millis::from_secs(30 * 86_400);
/// The shortest retention of results and ended leases.
pub const RETENTION_MIN: Millis = Millis::from_secs(60);
/// The longest retention of results and ended leases: 30 days.
pub const RETENTION_MAX: Millis = Millis::from_secs(30 * 86_400);
/// The largest result in bytes.
pub const RESULT_BYTES_MAX: usize = 64 * 1024;
/// The longest reason in bytes.
pub const REASON_BYTES_MAX: usize = 256;

/// The largest configurable number of attempts of a queued task.
pub const ATTEMPTS_MAX: u32 = 1000;
/// The largest configurable number of queued tasks of a pool.
pub const QUEUED_MAX: u32 = 10_000_000;
/// The smallest configurable number of stored events of a pool.
pub const HISTORY_MIN: u32 = 100;
/// The largest configurable number of stored events of a pool.
pub const HISTORY_MAX: u32 = 1_000_000;
/// The largest payload of a queued task in bytes.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024;
/// The maximum number of tasks of one EnqueueTasks call.
pub const ENQUEUE_MAX: usize = 1000;

/// The full name of a task: the natural key of every mutating call, which makes repeats safe. Two
/// executions with the same name share one lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskName {
    /// The pool whose slot it uses.
    pub pool: Name,
    /// The device that runs it.
    pub device: Name,
    /// The task, unique within its device.
    pub task: Name,
}

impl TaskName {
    /// Returns the member: device and task, joined. It names the task within its pool.
    pub(crate) fn member(&self) -> JoinedMember {
        member(&self.device, self.task.as_bytes())
    }
}

/// Appends the keys of events and of queued tasks.
fn push_queue_keys(call: &mut Call) {
    for part in [&b"events"[..], b"queued", b"backlog", b"due"] {
        call.key(&[part]);
    }
}

/// Appends the keys that the hot-path scripts share, in the order of `lua/lib/pool.lua`.
fn push_pool_keys(call: &mut Call) {
    for part in [&b"settings"[..], b"token", b"leases"] {
        call.key(&[part]);
    }
    push_queue_keys(call);
    crate::waiting::push_keys(call);
}

/// Appends the keys of a plain script of a task, and the arguments that its items share, in the order
/// of `lua/lib/plain_pool.lua`.
fn push_plain(call: &mut Call, member: &[u8], settings: &Settings) {
    for part in [&b"settings"[..], b"token", b"leases", b"events", b"queued", b"queue"] {
        call.key(&[part]);
    }
    call.key(&[b"task:", member]);
    settings.encode_shared(call);
}

/// Packs a token, after whether it is compared, as the plain scripts read it.
fn packed_token(token: Option<u64>) -> [u8; 9] {
    let mut packed = [0; 9];
    packed[0] = token.is_some().into();
    packed[1..].copy_from_slice(&token.unwrap_or_default().to_le_bytes());
    packed
}

/// Packs the duration of a lease, at most a day, as the plain scripts read it; 0 for the pool's.
fn packed_duration(duration: Option<Millis>) -> [u8; 4] {
    duration.map_or(0, |duration| duration.0 as u32).to_le_bytes()
}

/// A joined device and task. Usually short, so it needs no heap memory.
pub(crate) type JoinedMember = SmallVec<[u8; 64]>;

/// Joins device and task. Names contain no separator, so different pairs give different members.
fn member(device: &Name, task: &[u8]) -> JoinedMember {
    let device = device.as_bytes();
    let mut member = JoinedMember::with_capacity(device.len() + 1 + task.len());
    member.extend_from_slice(device);
    member.push(SEPARATOR);
    member.extend_from_slice(task);
    member
}

/// The usage of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUsage {
    /// The capacity: the number of slots.
    pub capacity: u32,
    /// The number of slots held by leases.
    pub in_use: u32,
}

impl PoolUsage {
    fn parse(reply: &mut Reply) -> Result<PoolUsage, Error> {
        Ok(PoolUsage { capacity: small(reply)?, in_use: small(reply)? })
    }

    /// Returns the number of free slots.
    pub fn available(&self) -> u32 {
        self.capacity.saturating_sub(self.in_use)
    }

    /// Returns the number of held slots above the capacity, after the capacity was lowered.
    pub fn over_by(&self) -> u32 {
        self.in_use.saturating_sub(self.capacity)
    }
}

/// Reads a number that must fit into 32 bits.
fn small(reply: &mut Reply) -> Result<u32, Error> {
    let number = reply.number()?;
    u32::try_from(number).map_err(|_| {
        Error::Corrupt(format!("a script replied with {number}, which exceeds 32 bits"))
    })
}
