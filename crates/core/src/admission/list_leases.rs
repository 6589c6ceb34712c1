//! `ListLeases`: reads a page of the leases that hold a slot.

use serde::{Deserialize, Serialize};

use super::{Lease, Pool, Task, pool::device_and_task, small};
use crate::{
    AsOf, Call, Cost, Decision, Outcomes, Properties, Reply, Steps,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Reads a page of the leases of a pool, in order of slot end.
///
/// A lease that is renewed during a listing moves to its new position, and can appear again. A
/// lease that exists during the whole listing, and is not renewed, appears once. Expired leases are
/// listed until the end of their slot.
#[derive(Debug, Clone)]
pub struct ListLeases {
    /// The pool.
    pub pool: Name,
    /// The maximum number of leases of the page; above 0.
    pub limit: u32,
    /// The last lease of the previous page.
    pub after: Option<LeaseCursor>,
}

/// The position of a lease in the listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseCursor {
    /// The end of its slot.
    pub slot_end: Timestamp,
    /// Device and task, joined by the separator.
    pub member: Vec<u8>,
    /// The lease. A renewed lease has another position.
    pub lease: Lease,
    /// The attempt; 0 if its task was never queued.
    pub attempt: u32,
}

/// A page of leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasePage {
    /// The leases.
    pub leases: Vec<HeldLease>,
    /// The position of the last lease, if more follow.
    pub next: Option<LeaseCursor>,
}

/// A lease and its holder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// The device.
    pub device: Vec<u8>,
    /// The task.
    pub task: Vec<u8>,
    /// The lease.
    pub lease: AsOf<Lease>,
}

impl LeaseCursor {
    /// Returns the position of a lease.
    fn from_task(member: &[u8], task: &Task) -> LeaseCursor {
        let Task { lease, slot_end, .. } = *task;
        LeaseCursor { slot_end, member: member.to_vec(), lease, attempt: task.attempt() }
    }
}

impl HeldLease {
    fn new(member: &[u8], lease: AsOf<Lease>) -> HeldLease {
        // Stored bytes can be anything, but answers are UTF-8.
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned().into_bytes();
        let (device, task) = device_and_task(member);
        HeldLease { device: text(device), task: text(task), lease }
    }
}

impl Decision for ListLeases {
    type State = Pool;
    type Outcome = LeasePage;

    const SCRIPT: &'static Script = &script::admission::LIST_LEASES;
    const PROPERTIES: Properties<ListLeases> = Properties {
        cost: |list| Cost::bulk(50 + 4 * list.limit),
        outcomes: Outcomes::OK,
        steps: Some(Steps {
            max: 500,
            limit: |list| list.limit,
            limited: |list, limit| ListLeases { limit, ..list.clone() },
            after: |list, page| {
                page.next.clone().map(|next| ListLeases { after: Some(next), ..list.clone() })
            },
            append: |page, next| {
                page.leases.extend(next.leases);
                page.next = next.next;
            },
        }),
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"leases"]);
        call.number(self.limit.into());
        let after = self.after.as_ref();
        call.optional(after.map(|after| after.slot_end.0));
        call.bytes(&[after.map_or(&[], |after| &after.member)]);
        call.optional(after.map(|after| after.lease.token));
        call.optional(after.map(|after| after.lease.grant.0));
        call.optional(after.map(|after| after.lease.expire.0));
        call.optional(after.map(|after| after.attempt.into()));
    }

    fn parse(reply: &mut Reply) -> Result<LeasePage, Error> {
        reply.ok()?;
        let more = reply.number()? != 0;
        let (slot_end, attempt) = (Timestamp(reply.number()?), small(reply)?);
        let (mut leases, mut last) = (Vec::new(), None);
        while reply.has_more() {
            let (member, lease) = (reply.text()?, Lease::parse(reply)?);
            leases.push(HeldLease::new(&member, lease.at(reply.now())));
            last = Some((member, lease));
        }
        let next = last.filter(|_| more);
        let next = next.map(|(member, lease)| LeaseCursor { slot_end, member, lease, attempt });
        Ok(LeasePage { leases, next })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> LeasePage {
        pool.lapse(now);
        let limit = self.limit as usize;
        let after = self.after.as_ref().map(|cursor| {
            let member = &*cursor.member;
            // A renewed lease of the same task is another entry.
            let same = pool
                .task(member, now)
                .is_some_and(|task| LeaseCursor::from_task(member, task) == *cursor);
            (cursor.slot_end, if same { member } else { &[][..] })
        });
        let page: Vec<(&[u8], &Task)> = pool.leases(after).take(limit + 1).collect();
        let more = page.len() > limit;
        let page = &page[..page.len().min(limit)];
        let held = |(member, task): &(&[u8], &Task)| HeldLease::new(member, task.lease.at(now));
        LeasePage {
            leases: page.iter().map(held).collect(),
            next: page
                .last()
                .filter(|_| more)
                .map(|(member, task)| LeaseCursor::from_task(member, task)),
        }
    }
}
