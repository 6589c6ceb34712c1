//! `AcquireLock`: grants a lock to an owner.

use bytes::Bytes;

use super::{HeartbeatLock, Lease, Lock, RevokeLock, push_plain, state::Tenure, unknown_status};
use crate::{
    Allowance, AsOf, Call, Cost, Decision, Issues, Outcomes, PlainForm, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
    waiting::{self, Heartbeat, Proceed, WaitingCall, Waits},
};

statuses! { ACQUIRE_ACQUIRED = 0, ACQUIRE_REPLAYED = 1, ACQUIRE_HELD = 2 }

/// `retry_after` if the lock is free but belongs to a waiter.
const RETRY_MIN: Millis = Millis(50);

/// Requests a lock for an owner.
///
/// The decision, in this order:
/// 1. An owner that holds the lock gets the same lease again, marked `replayed`, so a repeat is
///    safe. It does not extend the lease. Acquisitions are not counted: one release frees the lock.
/// 2. A lock that another owner holds answers `Held`, with that owner and the time left of its
///    lease.
/// 3. A free lock belongs to the first waiter, if there is one. Any other owner gets `Held` without
///    a holder.
/// 4. Otherwise the owner gets a new lease.
///
/// With a ticket, a refused call that still has time to wait enters the queue or keeps its place
/// there. A call that is granted, or whose wait has ended, leaves the queue.
///
/// # Invariant
/// The token of a new lease is the time in µs, or one above the last token if that is greater.
/// Tokens of a lock therefore grow with each lease, even if the clock is set back.
#[derive(Debug, Clone)]
pub struct AcquireLock {
    /// The lock.
    pub name: Name,
    /// The owner that requests the lock.
    pub owner: Name,
    /// Length of the lease: [`LEASE_MIN`](super::LEASE_MIN) to [`LEASE_MAX`](super::LEASE_MAX).
    pub lease_duration: Millis,
    /// The ticket of a call that waits; `None` for a call that never enters the queue.
    pub waiting: Option<WaitingCall>,
}

impl AcquireLock {
    /// Returns the same request with copied names, for a request that outlives its message.
    pub fn detached(self) -> AcquireLock {
        AcquireLock { name: self.name.detached(), owner: self.owner.detached(), ..self }
    }
}

/// The answer to an acquisition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquisition {
    /// The owner holds the lock.
    Acquired {
        /// The lease of the owner.
        lease: AsOf<Lease>,
        /// Whether an earlier call was granted this lease.
        replayed: bool,
    },
    /// Another owner holds the lock, or a waiter precedes the owner.
    Held {
        /// The holder; empty if the lock is free.
        holder: Bytes,
        /// When to ask again; above 0. The time left of the holder's lease, or 50 ms if the lock is
        /// free and belongs to a waiter.
        retry_after: Millis,
        /// Whether the call waits, and its ticket number.
        proceed: Proceed,
    },
}

impl Decision for AcquireLock {
    type State = Lock;
    type Outcome = Acquisition;

    const SCRIPT: &'static Script = &script::lock::ACQUIRE;
    const PROPERTIES: Properties<AcquireLock> = Properties::<Self> {
        creates: |_| true,
        outcomes: Outcomes::new(&["acquired", "held"], |outcome| match outcome {
            Acquisition::Acquired { .. } => 0,
            Acquisition::Held { .. } => 1,
        }),
        is_unfinished: |outcome| AcquireLock::proceed(outcome) == Proceed::Again,
        plain: Some(PlainForm {
            script: |acquire| acquire.waiting.is_none().then_some(&script::lock::ACQUIRE_PLAIN),
            encode: |acquire, call| push_plain(call, &acquire.owner, acquire.lease_duration.0),
            cost: |_| Cost::from_micros(12),
        }),
        ..Properties::DEFAULT
    }
    .issues();

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"lock"]);
        waiting::push_keys(call);
        waiting::push_tickets_key(call);
        call.bytes(&[self.owner.as_bytes()]);
        call.number(self.lease_duration.0);
        waiting::push_waiting(call, self.waiting.as_ref());
    }

    fn parse(reply: &mut Reply) -> Result<Acquisition, Error> {
        match reply.number()? {
            ACQUIRE_ACQUIRED => Ok(Acquisition::Acquired {
                lease: Lease::parse(reply)?.at(reply.now()),
                replayed: false,
            }),
            ACQUIRE_REPLAYED => Ok(Acquisition::Acquired {
                lease: Lease::parse(reply)?.at(reply.now()),
                replayed: true,
            }),
            ACQUIRE_HELD => {
                let proceed = Proceed::parse(reply.number()?);
                let retry_after = Millis(reply.number()?);
                Ok(Acquisition::Held { holder: reply.text()?.into(), retry_after, proceed })
            }
            status => unknown_status(status),
        }
    }

    fn decide(&self, lock: &mut Lock, now: Timestamp) -> Acquisition {
        self.decide_above(lock, now, Timestamp(0))
    }
}

impl Issues for AcquireLock {
    /// Grants with a token above `floor`. A lease that the owner holds keeps its token.
    fn decide_above(&self, lock: &mut Lock, now: Timestamp, floor: Timestamp) -> Acquisition {
        let owner = self.owner.as_bytes();
        if let Some(tenure) = lock.held_by(owner, None, now) {
            let lease = tenure.lease;
            lock.disclosed = lease.token;
            if let (Some(queue), Some(waiting)) = (&mut lock.queue, &self.waiting) {
                queue.needs_no_turn(owner, waiting, 0, &mut Allowance::new(), now);
            }
            return Acquisition::Acquired { lease: lease.at(now), replayed: true };
        }
        let (free, waiting) = (lock.free(now), self.waiting.as_ref());
        let (queue, allowance) = (&mut lock.queue, &mut Allowance::new());
        let proceed = waiting::try_proceed(queue, owner, waiting, free, false, allowance, now);
        if proceed != Proceed::Now {
            let holder = lock.holder(now);
            return Acquisition::Held {
                holder: holder.map(|held| Bytes::copy_from_slice(&held.owner)).unwrap_or_default(),
                retry_after: holder.map_or(RETRY_MIN, |held| now.until(held.lease.expire)),
                proceed,
            };
        }
        // The token rises even if the clock was set back.
        let last = lock.last.as_ref().map_or(0, |last| last.lease.token);
        let expire = now.after(self.lease_duration);
        let lease = Lease { token: now.0.max(last.max(floor.0) + 1), grant: now, expire };
        let (owner, length) = (owner.into(), self.lease_duration);
        lock.last = Some(Tenure { owner, lease, length, is_released: false });
        waiting::tell_end(&mut lock.queue, expire, now);
        Acquisition::Acquired { lease: lease.at(now), replayed: false }
    }
}

impl Waits for AcquireLock {
    type Heartbeat = HeartbeatLock;
    type Revoke = RevokeLock;
    type Rules = ();

    fn waiting(&mut self) -> &mut Option<WaitingCall> {
        &mut self.waiting
    }

    /// All waiting calls of an owner share one ticket.
    fn waiter(&self) -> Vec<u8> {
        self.owner.as_bytes().into()
    }

    fn heartbeat(&self, heartbeat: Heartbeat) -> HeartbeatLock {
        HeartbeatLock { name: self.name.clone(), heartbeat }
    }

    fn revoke(&self, outcome: &Acquisition) -> Option<RevokeLock> {
        match outcome {
            Acquisition::Acquired { lease, replayed: false } => {
                let (name, owner) = (self.name.clone(), self.owner.clone());
                Some(RevokeLock { name, owner, token: lease.token })
            }
            _ => None,
        }
    }

    fn proceed(outcome: &Acquisition) -> Proceed {
        match outcome {
            Acquisition::Held { proceed, .. } => *proceed,
            Acquisition::Acquired { .. } => Proceed::Now,
        }
    }

    /// Returns the time left of the current lease, whatever its owner: the lock has one slot.
    fn frees_in(outcome: &Acquisition) -> Option<Millis> {
        Some(match outcome {
            Acquisition::Held { retry_after, .. } => *retry_after,
            Acquisition::Acquired { lease, .. } => lease.grant.until(lease.expire),
        })
    }
}
