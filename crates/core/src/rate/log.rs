//! The event log of one shard in the embedded engine.

use super::RateEvent;
use crate::{
    Bin, State,
    collections::{After, EventPage, History},
    time::Timestamp,
};

/// The minimum number of stored events of a shard; the twin of `HISTORY` in
/// `lua/lib/rate_event.lua`. A policy with evenly spread keys stores 32 times as many.
pub const HISTORY: u32 = 1000;

/// The last events of the keys of a shard.
#[derive(Debug, Default)]
pub struct Log {
    /// The event history; `None` before the first event and after its retention.
    pub(super) history: Option<Box<History<RateEvent>>>,
}

impl Log {
    /// Appends the event of a decision on a key of the shard.
    pub fn append(&mut self, event: RateEvent, now: Timestamp) {
        History::append(&mut self.history, event, HISTORY, now);
    }

    /// Returns the events after a cursor.
    pub(super) fn page(&self, after: After) -> EventPage<RateEvent> {
        History::page(self.history.as_deref(), after)
    }
}

impl State for Log {
    const CAPABILITY: &'static str = "rate";
    const IS_NAMED: bool = false;

    fn sweep(&mut self, now: Timestamp, _: usize, bin: &mut Bin) -> usize {
        let lapsed = self.history.take_if(|history| history.has_lapsed(now));
        lapsed.map(|history| bin.push(history)).is_some().into()
    }

    fn is_vacant(&self, now: Timestamp) -> bool {
        self.history.as_ref().is_none_or(|history| history.has_lapsed(now))
    }
}
