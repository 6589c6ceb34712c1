//! `AttendPool`: the heartbeat of a server for its waiters in the queue of a pool.

use super::{Pool, Settings, unknown_status};
use crate::decision::{
    Call, Decision, Listing, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
    waiters::{self, Attend, Attendance},
};

/// A heartbeat for the queue of a pool.
///
/// Keeps the server's tickets alive, removes dead tickets, and returns the server's waiters that
/// may proceed. In a paused pool all calls ask again, so that they get that answer. A repeat is
/// safe.
#[derive(Debug, Clone)]
pub struct AttendPool {
    /// The pool.
    pub pool: Name,
    /// The pool's configured settings.
    pub settings: Settings,
    /// The heartbeat.
    pub attend: Attend,
}

impl Decision for AttendPool {
    type State = Pool;
    type Outcome = Attendance;

    const SCRIPT: &'static Script = &script::ATTEND_POOL;

    fn partition(&self) -> &[u8] {
        self.pool.as_bytes()
    }

    fn listing(&self) -> Listing {
        Listing::Same
    }

    fn is_upkeep(&self) -> bool {
        true
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"settings"]);
        call.key(&[b"leases"]);
        waiters::push_keys(call);
        call.number(self.settings.capacity.into());
        call.number(self.settings.paused.into());
        self.attend.encode(call);
    }

    fn parse(reply: &mut Reply) -> Result<Attendance, Error> {
        match reply.number()? {
            0 => Attendance::parse(reply),
            status => unknown_status(status),
        }
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> Attendance {
        pool.lapse(now);
        let settings = self.settings.under(&pool.overrides);
        let free = settings.capacity.saturating_sub(pool.in_use());
        let frees_in = pool.next_free(settings.capacity).map(|end| now.until(end));
        let attended = self.attend.decide(&mut pool.queue, free, frees_in, now);
        // Waiting calls of a paused pool ask again and get `Paused`.
        let again = attended.again || settings.paused || settings.capacity == 0;
        Attendance { again, ..attended }
    }
}
