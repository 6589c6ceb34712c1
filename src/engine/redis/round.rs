//! The sweeper's commands on the index: the claim to sweep, the partitions to look at, and the
//! schedule of looks.
//!
//! Called by `sweeper::shared`. One server sweeps at a time; any other takes over 1.2 s after its
//! last `lead`.

use std::time::Instant;

use super::{
    PartitionCursor, Redis,
    index::{self, Look},
    job::{Sending, UPKEEP},
    listing::pages,
};
use crate::decision::{
    Arguments, Reply,
    error::Error,
    script::{self, Script},
    time::{Millis, Timestamp},
};

/// The time for which a server counts as the sweeping one after `lead`.
const HOLD: Millis = Millis(1200);
/// The options of `settle`: unlike sweeps of pools, several fit in one script call.
const TOGETHER: Sending = Sending { is_upkeep: false, ..UPKEEP };

impl Redis {
    /// Claims to be the server that sweeps. Returns the time of the store, or `None` if another
    /// server sweeps.
    pub(in super::super) async fn lead(
        &self,
        capability: &'static str,
        deadline: Instant,
    ) -> Result<Option<Timestamp>, Error> {
        self.check()?;
        let lead = index::lead(&self.key_prefix, capability, self.hub.channel(), HOLD).finish();
        let mut reply = self.ask(&script::LEAD_SWEEP, lead, UPKEEP, deadline).await?;
        let (leads, now) = (reply.number()? == 1, Timestamp(reply.number()?));
        Ok(leads.then_some(now))
    }

    /// The partitions whose scheduled look has come, at most `limit`, the longest overdue first.
    /// Returns whether there are more.
    pub(in super::super) async fn due(
        &self,
        capability: &'static str,
        limit: u32,
        deadline: Instant,
    ) -> Result<(Vec<PartitionCursor>, bool), Error> {
        let due = index::due(&self.key_prefix, capability, limit).finish();
        let sending = pages(UPKEEP, limit);
        index::parse_noted(&mut self.ask(&script::DUE_PARTITIONS, due, sending, deadline).await?)
    }

    /// The partitions with the latest notes, at most `limit`.
    pub(in super::super) async fn latest(
        &self,
        capability: &'static str,
        limit: u32,
        deadline: Instant,
    ) -> Result<Vec<PartitionCursor>, Error> {
        let latest = index::latest(&self.key_prefix, capability, limit).finish();
        let sending = pages(UPKEEP, limit);
        let mut reply = self.ask(&script::LATEST_PARTITIONS, latest, sending, deadline).await?;
        Ok(index::parse_noted(&mut reply)?.0)
    }

    /// A page of the index after a cursor. Returns whether more follow.
    pub(in super::super) async fn page(
        &self,
        capability: &'static str,
        limit: u32,
        after: Option<&PartitionCursor>,
        deadline: Instant,
    ) -> Result<(Vec<PartitionCursor>, bool), Error> {
        let after = after.map(|cursor| (cursor.noted, cursor.name.as_bytes()));
        let list = index::list(&self.key_prefix, capability, limit, after).finish();
        let sending = pages(UPKEEP, limit);
        index::parse_noted(&mut self.ask(&script::LIST_PARTITIONS, list, sending, deadline).await?)
    }

    /// Schedules the next look at partitions. Removes empty ones from the index if they were last
    /// noted before `before`. Returns for each whether it was removed.
    pub(in super::super) async fn settle(
        &self,
        capability: &'static str,
        looks: &[Look],
        before: Timestamp,
        deadline: Instant,
    ) -> Result<Vec<bool>, Error> {
        let send = |look| {
            let settle = index::settle(&self.key_prefix, capability, look, before).finish();
            self.send(&script::SETTLE_PARTITION, settle, TOGETHER, deadline)
        };
        let pending: Vec<_> = looks.iter().map(send).collect();
        let mut left = Vec::with_capacity(looks.len());
        for pending in pending {
            let mut reply = pending.wait().await?.reply;
            left.push((reply.number()?, reply.number()?) == (0, 1));
        }
        Ok(left)
    }

    async fn ask(
        &self,
        script: &'static Script,
        arguments: Arguments,
        sending: Sending,
        deadline: Instant,
    ) -> Result<Reply, Error> {
        Ok(self.send(script, arguments, sending, deadline).wait().await?.reply)
    }
}
