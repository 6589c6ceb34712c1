//! Reads the events of one shard of a policy, for WatchRates.

use super::{Log, RateEvent, shard_tag};
use crate::{
    Call, Cost, Decision, Properties, Reply,
    collections::{After, EventPage},
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Reads the events after a cursor, of the keys in one shard of a policy.
///
/// A watcher reads all shards, each with its own cursor. Numbers of a shard rise by one. If the
/// next event after the cursor is no longer stored, the page starts with the oldest stored event.
#[derive(Debug, Clone)]
pub struct ReadRateEvents {
    /// The tag of the shard, which is the partition of its history.
    tag: Box<[u8]>,
    /// The cursor and the maximum number of events.
    after: After,
}

impl ReadRateEvents {
    /// Creates a read of this shard, 0 to [`super::SHARDS`] − 1.
    pub fn new(policy: &Name, shard: usize, after: After) -> ReadRateEvents {
        ReadRateEvents { tag: shard_tag(policy, shard), after }
    }
}

impl Decision for ReadRateEvents {
    type State = Log;
    type Outcome = EventPage<RateEvent>;

    const SCRIPT: &'static Script = &script::rate::READ_EVENTS;
    const PROPERTIES: Properties<ReadRateEvents> =
        Properties { cost: |read| Cost::bulk(20 + 2 * read.after.limit), ..Properties::BACKGROUND };

    fn partition(&self) -> &[u8] {
        &self.tag
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"events"]);
        self.after.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<EventPage<RateEvent>, Error> {
        reply.ok()?;
        EventPage::parse(reply, RateEvent::parse)
    }

    fn decide(&self, log: &mut Log, _: Timestamp) -> EventPage<RateEvent> {
        log.page(self.after)
    }
}
