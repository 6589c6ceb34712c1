//! What the pool's events say of the run, by the rules of the contract.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    admission::{Event, EventKind},
    caller::{Followed, Follower},
    grpc::client::Told,
};

/// Sees events, and keeps what is needed to judge the next one.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// What the names of the run's devices begin with.
    prefix: String,
    /// Tokens of admissions that have not ended.
    running: HashSet<u64>,
    /// Tokens of those that ended without a result.
    lapsed: HashSet<u64>,
    /// The first token that was seen granted: admissions of older ones are not known.
    first: Option<u64>,
    seen: Seen,
}

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) events: u64,
    /// Of the run's tasks: how many were queued, dispatched and dead.
    pub(super) queued: u64,
    pub(super) dispatched: u64,
    pub(super) dead: u64,
    /// Admissions that have not ended.
    pub(super) running: usize,
    /// Admissions beyond the capacity that they carried.
    pub(super) over_cap: u64,
    /// Ends of admissions that had ended.
    pub(super) ended_twice: u64,
    /// Why events are missing: they prove nothing then.
    pub(super) lack: Option<String>,
}

/// A witness that a stream is told to.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<Witness>>);

impl Shared {
    pub(super) fn new(prefix: String) -> Shared {
        Shared(Arc::new(Mutex::new(Witness { prefix, ..Witness::default() })))
    }

    /// Follows the stream for as long as it can be had.
    pub(super) async fn follow(self, mut follower: Follower<Told<Event>>) {
        loop {
            match follower.next().await {
                Ok(Followed::Event(told)) => self.lock().see(told.event.as_ref()),
                // It goes on where it was, but not where it had not yet begun.
                Ok(Followed::Lost(error)) if !follower.has_cursor() => {
                    return self.lack(error.to_string());
                }
                Ok(Followed::Lost(_) | Followed::Resumed) => {}
                Err(error) => return self.lack(error.to_string()),
            }
        }
    }

    /// Events cannot be had, for this reason.
    pub(super) fn lack(&self, why: String) {
        self.lock().seen.lack.get_or_insert(why);
    }

    /// How many of the run's tasks it has not yet seen queued, of so many; none when it
    /// will not see them.
    pub(super) fn behind(&self, queued: u64) -> u64 {
        let witness = self.lock();
        match witness.seen.lack {
            Some(_) => 0,
            None => queued.saturating_sub(witness.seen.queued),
        }
    }

    pub(super) fn seen(&self) -> Seen {
        let witness = self.lock();
        Seen { running: witness.running.len(), ..witness.seen.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Witness> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Witness {
    /// Sees the next event; none where some are missing.
    fn see(&mut self, event: Option<&Event>) {
        self.seen.events += 1;
        let Some(event) = event else {
            self.seen.lack.get_or_insert_with(|| "a gap".to_owned());
            // Whatever ran may have ended, and others may run.
            self.running.clear();
            self.lapsed.clear();
            self.first = None;
            return;
        };
        let is_ours = event.member.starts_with(self.prefix.as_bytes());
        match event.kind {
            EventKind::Enqueued => self.seen.queued += u64::from(is_ours),
            EventKind::Dead => self.seen.dead += u64::from(is_ours),
            EventKind::Admitted => {
                let capacity = event.capacity.unwrap_or(0) as usize;
                self.seen.over_cap += u64::from(self.running.len() >= capacity);
                self.seen.dispatched += u64::from(is_ours);
                self.running.insert(event.token);
                self.first.get_or_insert(event.token);
            }
            EventKind::Completed | EventKind::Late | EventKind::Expired | EventKind::Evicted
                if event.token > 0 =>
            {
                self.end(event);
            }
            _ => {}
        }
    }

    fn end(&mut self, event: &Event) {
        let is_lapse = matches!(event.kind, EventKind::Expired | EventKind::Evicted);
        if self.running.remove(&event.token) {
            if is_lapse {
                self.lapsed.insert(event.token);
            }
            return;
        }
        // A late result of one that had ended, once.
        let is_late = event.kind == EventKind::Late && self.lapsed.remove(&event.token);
        let is_known = self.first.is_some_and(|first| event.token >= first);
        self.seen.ended_twice += u64::from(is_known && !is_late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn event(kind: EventKind, token: u64) -> Event {
        Event {
            kind,
            token,
            attempt: 1,
            outcome: None,
            capacity: Some(2),
            time: Timestamp(0),
            member: b"run/device-1\x1ftask-1".as_slice().into(),
        }
    }

    fn seen(events: &[(EventKind, u64)]) -> Seen {
        let shared = Shared::new("run/".to_owned());
        events.iter().for_each(|(kind, token)| shared.lock().see(Some(&event(*kind, *token))));
        shared.seen()
    }

    #[test]
    fn admissions_are_held_against_the_cap_and_end_once() {
        use EventKind::*;
        let good = seen(&[
            (Completed, 1),
            (Enqueued, 0),
            (Admitted, 5),
            (Admitted, 6),
            (Expired, 5),
            (Late, 5),
            (Admitted, 7),
            (Dead, 7),
        ]);
        let expected =
            Seen { events: 8, queued: 1, dispatched: 3, dead: 1, running: 2, ..Seen::default() };
        assert_eq!(good, expected);
        assert_eq!(seen(&[(Admitted, 5), (Admitted, 6), (Admitted, 7)]).over_cap, 1);
        let twice = [(Admitted, 5), (Expired, 5), (Late, 5), (Late, 5), (Completed, 5)];
        assert_eq!(seen(&twice).ended_twice, 2);
        let shared = Shared::new("run/".to_owned());
        for event in [Some(event(Admitted, 5)), Some(event(Admitted, 6)), None] {
            shared.lock().see(event.as_ref());
        }
        // They may have ended in the gap.
        shared.lock().see(Some(&event(Admitted, 9)));
        shared.lock().see(Some(&event(Completed, 6)));
        let Seen { lack, over_cap, ended_twice, .. } = shared.seen();
        assert_eq!((lack.as_deref(), over_cap, ended_twice), (Some("a gap"), 0, 0));
    }
}
