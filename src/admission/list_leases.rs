//! `ListLeases`: reads a page of the leases that hold a slot.

use std::str;

use super::{Lease, Pool, Task};
use crate::decision::{
    AsOf, Call, Cost, Decision, Delivery, Outcomes, Paged, Reply,
    error::Error,
    names::{Name, SEPARATOR},
    script::{self, Script},
    stages,
    time::Timestamp,
};

/// Bytes of token, grant time, expiry time and attempt in a lease member.
const NUMBERS_BYTES: usize = 3 * 8 + 4;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseCursor {
    /// The end of its slot.
    pub slot_end: Timestamp,
    /// Device and task, each followed by the separator. Then token, grant time and expiry time, 8
    /// bytes each, and the attempt (0 if never queued), 4 bytes, all little-endian.
    pub member: Vec<u8>,
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
    /// The position of a lease, in the bytes by which Redis sorts leases of one slot end.
    fn of(member: &[u8], task: &Task) -> LeaseCursor {
        let Task { lease, slot_end, .. } = task;
        let mut member = [member, &[SEPARATOR]].concat();
        for number in [lease.token, lease.grant.0, lease.expire.0] {
            member.extend_from_slice(&number.to_le_bytes());
        }
        member.extend_from_slice(&task.attempt().to_le_bytes());
        LeaseCursor { slot_end: *slot_end, member }
    }

    /// Parses the member, as of `now`; `None` if it is malformed.
    fn held(&self, now: Timestamp) -> Option<HeldLease> {
        let (member, numbers) = self.split()?;
        let (member, numbers) = (member.strip_suffix(&[SEPARATOR])?, numbers.as_chunks().0);
        let mut parts = member.split(|byte| *byte == SEPARATOR);
        // Stored bytes can be anything, but answers are UTF-8.
        let mut text = || Some(String::from_utf8_lossy(parts.next()?).into_owned().into_bytes());
        let (device, task) = (text()?, text()?);
        let number = |index: usize| Some(u64::from_le_bytes(*numbers.get(index)?));
        let (token, grant, expire) = (number(0)?, Timestamp(number(1)?), Timestamp(number(2)?));
        let lease = Lease { token, grant, expire }.at(now);
        parts.next().is_none().then_some(HeldLease { device, task, lease })
    }

    /// Whether the member can be parsed.
    pub fn is_valid(&self) -> bool {
        self.held(Timestamp(0)).is_some()
    }

    /// Device and task, joined; the whole member if it is malformed.
    fn device_and_task(&self) -> &[u8] {
        let member = self.split().map_or(&self.member[..], |(member, _)| member);
        member.strip_suffix(&[SEPARATOR]).unwrap_or(member)
    }

    /// Splits the member before its numbers.
    fn split(&self) -> Option<(&[u8], &[u8])> {
        self.member.split_at_checked(self.member.len().checked_sub(NUMBERS_BYTES)?)
    }
}

impl Decision for ListLeases {
    type State = Pool;
    type Outcome = LeasePage;
    type Stages = stages::InSteps;

    const SCRIPT: &'static Script = &script::admission::LIST_LEASES;
    const DELIVERY: Delivery<ListLeases> =
        Delivery { cost: |list| Cost::bulk(50 + 3 * list.limit), ..Delivery::DEFAULT };
    const OUTCOMES: Outcomes<ListLeases> = Outcomes::OK;

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"leases"]);
        call.number(self.limit.into());
        match &self.after {
            None => {
                call.bytes(&[]);
                call.bytes(&[]);
            }
            Some(cursor) => {
                call.number(cursor.slot_end.0);
                call.bytes(&[&cursor.member]);
            }
        }
    }

    fn parse(reply: &mut Reply) -> Result<LeasePage, Error> {
        reply.ok()?;
        let more = reply.number()? != 0;
        let (mut leases, mut last) = (Vec::new(), None);
        while reply.has_more() {
            let member = reply.bytes()?;
            let slot_end = str::from_utf8(&reply.bytes()?).ok().and_then(|text| text.parse().ok());
            let cursor = slot_end.map(|micros| LeaseCursor { slot_end: Timestamp(micros), member });
            let held = cursor.as_ref().and_then(|cursor| cursor.held(reply.now()));
            leases.push(held.ok_or_else(|| {
                Error::Corrupt("lease in the pool; ConfigurePool with reset repairs it".into())
            })?);
            last = cursor;
        }
        Ok(LeasePage { leases, next: last.filter(|_| more) })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> LeasePage {
        pool.lapse(now);
        let after = self.after.as_ref().map(|cursor| {
            let member = cursor.device_and_task();
            // A renewed lease of the same task is another entry.
            let same =
                pool.task(member, now).is_some_and(|task| LeaseCursor::of(member, task) == *cursor);
            (cursor.slot_end, if same { member } else { &[][..] })
        });
        let page: Vec<LeaseCursor> = pool
            .leases(after)
            .take(self.limit as usize + 1)
            .map(|(member, task)| LeaseCursor::of(member, task))
            .collect();
        let more = page.len() > self.limit as usize;
        let page = &page[..page.len().min(self.limit as usize)];
        LeasePage {
            leases: page.iter().filter_map(|cursor| cursor.held(now)).collect(),
            next: page.last().filter(|_| more).cloned(),
        }
    }
}

impl Paged for ListLeases {
    const STEP: u32 = 500;

    fn limit(&self) -> u32 {
        self.limit
    }

    fn limited(&self, limit: u32) -> ListLeases {
        ListLeases { limit, ..self.clone() }
    }

    fn behind(&self, page: &LeasePage) -> Option<ListLeases> {
        page.next.clone().map(|next| ListLeases { after: Some(next), ..self.clone() })
    }

    fn append(page: &mut LeasePage, next: LeasePage) {
        page.leases.extend(next.leases);
        page.next = next.next;
    }
}
