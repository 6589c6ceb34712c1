//! The heartbeat of a server for its waiters in one queue.

use std::sync::Arc;

use super::Queue;
use crate::{
    Call, Reply,
    error::Error,
    time::{Millis, Timestamp},
};

/// The heartbeat request. It can also give up the ticket of one call that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The channel on which the server receives wake-ups.
    pub channel: Arc<str>,
    /// How long the queue considers the server alive without another heartbeat.
    pub keep: Millis,
    /// Waiter and call number of a ticket to give up.
    pub gone: Option<(Box<[u8]>, u64)>,
}

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// Time until the next lease expires, even if slots are free now; `None` without leases.
    pub frees_in: Option<Millis>,
    /// Whether the waiting calls of the server must ask again, because tickets were lost or because
    /// waiting is of no use now.
    pub again: bool,
    /// Call number and waiter of each call of this server that may proceed; at most 100.
    pub proceeding: Vec<(u64, Box<[u8]>)>,
}

impl Heartbeat {
    /// Appends channel, keep time, waiter and call number; the last two are empty without a ticket
    /// to give up.
    pub(crate) fn encode(&self, call: &mut Call) {
        call.bytes(&[self.channel.as_bytes()]);
        call.number(self.keep.0);
        call.bytes(&[self.gone.as_ref().map_or(&[], |(waiter, _)| waiter)]);
        call.optional(self.gone.as_ref().map(|(_, number)| *number));
    }

    /// Processes the heartbeat in a queue with `free` free slots. If more dead tickets may remain
    /// than one step removes, `frees_in` is 1 ms, so that the server comes back immediately.
    pub(crate) fn decide(
        &self,
        queue: &mut Option<Box<Queue>>,
        free: u32,
        frees_in: Option<Millis>,
        now: Timestamp,
    ) -> HeartbeatAnswer {
        let gone = self.gone.as_ref().map(|(waiter, number)| (&**waiter, *number));
        let answer = queue.as_mut().and_then(|queue| {
            let (is_known, more) = queue.heartbeat(&self.channel, self.keep, gone, free, now)?;
            let frees_in = if more { Some(Millis(1)) } else { frees_in };
            Some((frees_in, !is_known, queue.proceeding(&self.channel, free)))
        });
        let (frees_in, again, proceeding) = answer.unwrap_or((frees_in, true, Vec::new()));
        HeartbeatAnswer { frees_in, again, proceeding }
    }
}

impl HeartbeatAnswer {
    /// Reads the rest of a reply after its status: ms until a lease expires or 0, 1 if calls must
    /// ask again, then call numbers and waiters.
    pub(crate) fn parse(reply: &mut Reply) -> Result<HeartbeatAnswer, Error> {
        let frees_in = Some(reply.number()?).filter(|millis| *millis > 0).map(Millis);
        let again = reply.number()? != 0;
        let mut proceeding = Vec::new();
        while reply.has_more() {
            let number = reply.bytes()?;
            let number = str::from_utf8(&number).ok().and_then(|text| text.parse().ok());
            let number = number
                .ok_or_else(|| Error::Corrupt("a queue ticket has no call number".to_owned()))?;
            proceeding.push((number, reply.bytes()?.into()));
        }
        Ok(HeartbeatAnswer { frees_in, again, proceeding })
    }
}
