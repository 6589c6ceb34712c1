//! `ListLeases`: reads a page of the leases that hold a slot.

use std::{fmt::Write, str};

use super::{Lease, Pool, Task, unknown_status};
use crate::{
    decision::{Call, Decision, Listing, Reply},
    error::Error,
    names::{Name, SEPARATOR},
    script::{self, Script},
    time::Timestamp,
};

/// Asks for a page of leases, the earliest to end first.
#[derive(Debug, Clone)]
pub struct ListLeases {
    /// The pool.
    pub pool: Name,
    /// The most leases of the page.
    pub limit: u32,
    /// The page before's last lease.
    pub after: Option<LeaseCursor>,
}

/// A lease in the order of its pool's listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseCursor {
    /// The end of its slot.
    pub slot_end: Timestamp,
    /// Device, task, token, grant and expiry, and the attempt of a queued task, joined by
    /// the separator.
    pub member: Vec<u8>,
}

/// A page of leases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasePage {
    /// The leases.
    pub leases: Vec<HeldLease>,
    /// The last lease, if more follow.
    pub next: Option<LeaseCursor>,
}

/// A lease and who holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldLease {
    /// The device.
    pub device: Vec<u8>,
    /// The task.
    pub task: Vec<u8>,
    /// The lease.
    pub lease: Lease,
}

impl LeaseCursor {
    fn of(member: &[u8], task: &Task) -> LeaseCursor {
        let Task { lease, slot_end, .. } = task;
        let mut times = format!("\x1f{}\x1f{}\x1f{}", lease.token, lease.grant.0, lease.expire.0);
        if task.attempt() > 0 {
            // Writing to a String cannot fail.
            let _ = write!(times, "\x1f{}", task.attempt());
        }
        LeaseCursor { slot_end: *slot_end, member: [member, times.as_bytes()].concat() }
    }

    /// Reads the member, if it is one.
    pub fn held(&self) -> Option<HeldLease> {
        let mut parts = self.member.split(|byte| *byte == SEPARATOR);
        // Stored bytes may be anything; answers are UTF-8.
        let mut text = || Some(String::from_utf8_lossy(parts.next()?).into_owned().into_bytes());
        let (device, task) = (text()?, text()?);
        let mut number = || str::from_utf8(parts.next()?).ok()?.parse::<u64>().ok();
        let (token, grant, expire) = (number()?, Timestamp(number()?), Timestamp(number()?));
        let lease = Lease { token, grant, expire };
        // Of a queued task the attempt follows.
        parts.next().is_none_or(|attempt| attempt.iter().all(u8::is_ascii_digit)).then_some(())?;
        parts.next().is_none().then_some(HeldLease { device, task, lease })
    }

    fn device_and_task(&self) -> &[u8] {
        let mut separators = (0..self.member.len()).filter(|i| self.member[*i] == SEPARATOR);
        let end = separators.nth(1).unwrap_or(self.member.len());
        &self.member[..end]
    }
}

impl Decision for ListLeases {
    type State = Pool;
    type Outcome = LeasePage;

    const SCRIPT: &'static Script = &script::LIST_LEASES;

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
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
        let status = reply.number()?;
        if status != 0 {
            return unknown_status(status);
        }
        let more = reply.number()? != 0;
        let (mut leases, mut last) = (Vec::new(), None);
        while reply.has_more() {
            let member = reply.bytes()?;
            let slot_end = str::from_utf8(&reply.bytes()?).ok().and_then(|text| text.parse().ok());
            let cursor = slot_end.map(|micros| LeaseCursor { slot_end: Timestamp(micros), member });
            let held = cursor.as_ref().and_then(LeaseCursor::held);
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
            // A lease renewed since is another entry, though of the same task.
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
            leases: page.iter().filter_map(LeaseCursor::held).collect(),
            next: page.last().filter(|_| more).cloned(),
        }
    }
}
