//! Export and import of a lock: its record in Redis as an entry, and back.
//!
//! A held lock is exported with its lease, so its holder keeps it. Waiters are not exported: their
//! calls are on servers of the old store.

use super::{Lease, Lock, RETENTION, state::Tenure};
use crate::{
    Call, Reply,
    error::Error,
    record::{Entry, Export, Exported, Page, Parts, Source, Unreadable, decode, unknown_letter},
    script::{self, Script},
    time::{Millis, Timestamp},
};

impl Tenure {
    /// Whether the record is left out: its retention is over, and its token lies in the past, so
    /// that later tokens are higher.
    fn has_lapsed(&self, now: Timestamp) -> bool {
        self.lease.expire.after(RETENTION) <= now && self.lease.token < now.0
    }
}

impl Exported for Lock {
    const EXPORT: &'static Script = &script::lock::EXPORT;
    const IMPORT: &'static Script = &script::lock::IMPORT;

    /// The queue and its tickets.
    const UNEXPORTED: &'static [&'static [u8]] = &[b"queue", b"places", b"tickets"];

    fn source(tag: &[u8], part: &[u8]) -> Option<(Vec<u8>, Source)> {
        (part == b"lock").then(|| (tag.to_vec(), Source::new(b'l', &[])))
    }

    fn encode_export(_: &Export<Lock>, call: &mut Call) {
        call.key(&[b"lock"]);
    }

    fn parse_entry(letter: &[u8], reply: &mut Reply) -> Result<Entry, Error> {
        if !letter.is_empty() {
            return unknown_letter(letter);
        }
        let (owner, lease) = (reply.bytes()?.into(), Lease::parse(reply)?);
        let (length, is_released) = (Millis(reply.number()?), reply.number()? != 0);
        Ok(Entry::new(&[], &Tenure { owner, lease, length, is_released }))
    }

    /// Returns the only page: the record, unless it has lapsed.
    fn page(&self, _: &Export<Lock>, now: Timestamp) -> Page {
        let last = self.last.iter().filter(|last| !last.has_lapsed(now));
        Page::last(last.map(|last| Entry::new(&[], last)))
    }

    fn import_arguments(_: &[u8], _: &[u8], value: &[u8]) -> Result<Option<Parts>, Unreadable> {
        let Tenure { owner, lease, length, is_released } = decode(value)?;
        let numbers = [lease.token, lease.grant.0, lease.expire.0, length.0, is_released.into()];
        Ok(Some(Parts::new([b"lock".to_vec()]).bytes(&owner).numbers(numbers)))
    }

    /// Drops a record that has lapsed since the export.
    fn import(&mut self, _: &[u8], value: &[u8], now: Timestamp) -> Result<(), Unreadable> {
        let tenure: Tenure = decode(value)?;
        if !tenure.has_lapsed(now) {
            self.last = Some(tenure);
        }
        Ok(())
    }
}
