//! Background commands on the index: claiming the sweep, listing the partitions whose visit is due,
//! scheduling visits, and counting names.
//!
//! They are called by `sweeper::shared`. One server sweeps at a time; any other takes over 1.2 s
//! after its last `claim`.

use std::time::Instant;

use super::{
    PartitionCursor, Redis,
    index::{self, IndexOf, Visit, pages},
    job::{BACKGROUND, JobDelivery, LISTING},
};
use tollgate_core::{
    Arguments, OK, Reply,
    error::Error,
    names::Namespace,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
    unknown_status,
};

statuses! { CLAIM_ANOTHER = 0, CLAIM_THIS = 1 }

/// The time for which a server counts as the sweeping server after `claim`.
const CLAIM: Millis = Millis(1200);

impl Redis {
    /// Claims to be the server that sweeps. Returns the time of the store, or `None` if another
    /// server sweeps.
    pub(in super::super) async fn claim(
        &self,
        index: IndexOf,
        deadline: Instant,
    ) -> Result<Option<Timestamp>, Error> {
        self.check()?;
        let claim = index::claim(&self.key_prefix, index, self.hub.channel(), CLAIM).finish();
        let mut reply = self.ask(&script::index::CLAIM, claim, BACKGROUND, deadline).await?;
        match (reply.number()?, Timestamp(reply.number()?)) {
            (CLAIM_ANOTHER, _) => Ok(None),
            (CLAIM_THIS, now) => Ok(Some(now)),
            (status, _) => unknown_status(status),
        }
    }

    /// Returns the partitions whose scheduled visit is due, at most `limit`, the longest overdue
    /// first, and whether there are more.
    pub(in super::super) async fn due(
        &self,
        index: IndexOf,
        limit: u32,
        deadline: Instant,
    ) -> Result<(Vec<PartitionCursor>, bool), Error> {
        let due = index::due(&self.key_prefix, index, limit).finish();
        let delivery = pages(BACKGROUND, limit);
        index::parse_cursors(&mut self.ask(&script::index::DUE, due, delivery, deadline).await?)
    }

    /// Returns the partitions with the latest registrations, at most `limit`.
    pub(in super::super) async fn latest(
        &self,
        index: IndexOf,
        limit: u32,
        deadline: Instant,
    ) -> Result<Vec<PartitionCursor>, Error> {
        let latest = index::latest(&self.key_prefix, index, limit).finish();
        let delivery = pages(BACKGROUND, limit);
        let mut reply = self.ask(&script::index::LATEST, latest, delivery, deadline).await?;
        Ok(index::parse_cursors(&mut reply)?.0)
    }

    /// Returns a page of an index after a cursor, and whether more names follow. With the default
    /// namespace, the page contains all names of the index, otherwise the names of that namespace.
    pub(in super::super) async fn page(
        &self,
        index: IndexOf,
        namespace: &Namespace,
        limit: u32,
        after: Option<&PartitionCursor>,
        deadline: Instant,
    ) -> Result<(Vec<PartitionCursor>, bool), Error> {
        let after = after.map(|cursor| (cursor.noted, cursor.name.as_bytes()));
        let list = index::list(&self.key_prefix, index, namespace, limit, after).finish();
        let delivery = pages(BACKGROUND, limit);
        index::parse_cursors(&mut self.ask(&script::index::LIST, list, delivery, deadline).await?)
    }

    /// Returns the number of names of a namespace in the index.
    pub(in super::super) async fn size(
        &self,
        capability: &'static str,
        namespace: &Namespace,
        deadline: Instant,
    ) -> Result<u64, Error> {
        let size = index::size(&self.key_prefix, capability, namespace).finish();
        let mut reply = self.ask(&script::index::SIZE, size, BACKGROUND, deadline).await?;
        reply.ok()?;
        reply.number()
    }

    /// Schedules the next visit to partitions. Removes empty ones from the index if they were last
    /// registered before `before`. Returns whether each of them was removed.
    pub(in super::super) async fn schedule(
        &self,
        index: IndexOf,
        visits: &[Visit],
        before: Timestamp,
        deadline: Instant,
    ) -> Result<Vec<bool>, Error> {
        let send = |visit| {
            let schedule = index::schedule(&self.key_prefix, index, visit, before).finish();
            self.send(&script::index::SCHEDULE, schedule, LISTING, deadline)
        };
        let pending: Vec<_> = visits.iter().map(send).collect();
        let mut left = Vec::with_capacity(visits.len());
        for pending in pending {
            let mut reply = pending.wait().await?.reply;
            left.push((reply.number()?, reply.number()?) == (OK, 1));
        }
        Ok(left)
    }

    async fn ask(
        &self,
        script: &'static Script,
        arguments: Arguments,
        delivery: JobDelivery,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        Ok(self.send(script, arguments, delivery, deadline).wait().await?.reply)
    }
}
