//! What a server does for those that wait on it.

use std::sync::Arc;

use super::Queue;
use crate::{
    decision::{Call, Reply},
    error::Error,
    time::{Millis, Timestamp},
};

/// A server's word that it is there, and that a call of it waits no longer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attend {
    /// Where the server listens for hints.
    pub channel: Arc<str>,
    /// How long it is known without a word from it.
    pub keep: Millis,
    /// The waiter and the number of a call that gives its place up.
    pub gone: Option<(Box<[u8]>, u64)>,
}

/// What a server learns of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attendance {
    /// When one more slot is free by itself, whether or not some are free now.
    pub frees_in: Option<Millis>,
    /// Whether its calls have to ask again: their places are lost, or will not help.
    pub again: bool,
    /// Number and waiter of each of its calls whose turn it is.
    pub turns: Vec<(u64, Box<[u8]>)>,
}

impl Attend {
    /// Appends channel, keep, waiter and number.
    pub(crate) fn encode(&self, call: &mut Call) {
        call.bytes(&[self.channel.as_bytes()]);
        call.number(self.keep.0);
        call.bytes(&[self.gone.as_ref().map_or(&[], |(waiter, _)| waiter)]);
        call.optional(self.gone.as_ref().map(|(_, number)| *number));
    }

    /// Attends to a queue in which so many slots are free.
    pub(crate) fn decide(
        &self,
        queue: &mut Option<Box<Queue>>,
        free: u32,
        frees_in: Option<Millis>,
        now: Timestamp,
    ) -> Attendance {
        let gone = self.gone.as_ref().map(|(waiter, number)| (&**waiter, *number));
        let attended = queue.as_mut().and_then(|queue| {
            let (known, more) = queue.attend(&self.channel, self.keep, gone, free, now)?;
            let frees_in = if more { Some(Millis(1)) } else { frees_in };
            Some((frees_in, !known, queue.turns(&self.channel, free)))
        });
        let (frees_in, again, turns) = attended.unwrap_or((frees_in, true, Vec::new()));
        Attendance { frees_in, again, turns }
    }
}

impl Attendance {
    /// Reads what follows a status: when a slot ends or 0, whether to ask again,
    /// numbers and waiters.
    pub(crate) fn parse(reply: &mut Reply) -> Result<Attendance, Error> {
        let frees_in = Some(reply.number()?).filter(|millis| *millis > 0).map(Millis);
        let again = reply.number()? != 0;
        let mut turns = Vec::new();
        while reply.has_more() {
            let number = reply.bytes()?;
            let number = str::from_utf8(&number).ok().and_then(|text| text.parse().ok());
            let number = number.ok_or_else(|| Error::Corrupt("a place in the queue".to_owned()))?;
            turns.push((number, reply.bytes()?.into()));
        }
        Ok(Attendance { frees_in, again, turns })
    }
}
