//! Which partitions the sweeper sees to: one server of all sweeps, and any may take over.

use std::time::Instant;

use super::{super::sweeper::Round, PartitionCursor, Redis, UPKEEP, index};
use crate::{
    error::Error,
    script,
    time::{Millis, Timestamp},
};

/// How long a server is the one that sweeps without a further word.
const HOLD: Millis = Millis(1200);
/// Names that are asked for at a time.
const PAGE: u32 = 1000;

impl Redis {
    /// Says that this server sweeps; the time of the store, none when another one does.
    pub(in super::super) async fn lead(
        &self,
        capability: &'static str,
        deadline: Instant,
    ) -> Result<Option<Timestamp>, Error> {
        self.check()?;
        let lead = index::lead(&self.key_prefix, capability, self.hub.channel(), HOLD).finish();
        let mut reply = self.send(&script::LEAD_SWEEP, lead, UPKEEP, deadline).wait().await?.reply;
        let (leads, now) = (reply.number()? == 1, Timestamp(reply.number()?));
        Ok(leads.then_some(now))
    }

    /// The partitions that were noted since a time, or all, and when. None when another
    /// server sweeps.
    pub(in super::super) async fn round(
        &self,
        capability: &'static str,
        since: Option<Timestamp>,
        deadline: Instant,
    ) -> Result<Option<Round>, Error> {
        let Some(now) = self.lead(capability, deadline).await? else { return Ok(None) };
        let mut noted: Vec<PartitionCursor> = Vec::new();
        loop {
            let start = match (noted.last(), since) {
                (Some(cursor), _) => Some((cursor.noted, cursor.name.as_bytes())),
                (None, Some(since)) => Some((since.0, &[][..])),
                (None, None) => None,
            };
            let list = index::list(&self.key_prefix, capability, PAGE, start).finish();
            let listed = self.send(&script::LIST_PARTITIONS, list, UPKEEP, deadline).wait().await?;
            let (page, more) = index::parse_noted(&mut { listed.reply })?;
            let is_last = !more || page.is_empty();
            noted.extend(page);
            if is_last {
                return Ok(Some(Round { now, noted }));
            }
        }
    }
}
