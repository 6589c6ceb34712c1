//! Checks the events of the pool against the contract.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    admission::{Event, EventKind},
    cli::caller::{Followed, Follower},
    grpc::client::Told,
};

/// Reads events and keeps the state that is needed to check the next one.
#[derive(Debug, Default)]
pub(super) struct Witness {
    /// Prefix of the device names of the run.
    prefix: String,
    /// Tokens of running admissions.
    running: HashSet<u64>,
    /// Tokens of admissions that ended without a result.
    lapsed: HashSet<u64>,
    /// The first granted token. Admissions with older tokens are unknown.
    first: Option<u64>,
    seen: Seen,
}

/// Sums over the events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) events: u64,
    /// Tasks of the run that were queued, dispatched and dead.
    pub(super) queued: u64,
    pub(super) dispatched: u64,
    pub(super) dead: u64,
    /// Running admissions.
    pub(super) running: usize,
    /// Admissions above the capacity in their event.
    pub(super) over_cap: u64,
    /// Ends of admissions that had already ended.
    pub(super) ended_twice: u64,
    /// The reason why events are missing. The sums prove nothing then.
    pub(super) lack: Option<String>,
}

/// A witness that reads a stream.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<Witness>>);

impl Shared {
    pub(super) fn new(prefix: String) -> Shared {
        Shared(Arc::new(Mutex::new(Witness { prefix, ..Witness::default() })))
    }

    /// Reads the stream until it fails permanently.
    pub(super) async fn follow(self, mut follower: Follower<Told<Event>>) {
        loop {
            match follower.next().await {
                Ok(Followed::Event(told)) => self.lock().see(told.event.as_ref()),
                // A lost stream continues at its last event. Without any event it has no cursor and
                // misses events.
                Ok(Followed::Lost(error)) if !follower.has_cursor() => {
                    return self.lack(error.to_string());
                }
                Ok(Followed::Lost(_) | Followed::Resumed) => {}
                Err(error) => return self.lack(error.to_string()),
            }
        }
    }

    /// Records that events are missing.
    pub(super) fn lack(&self, why: String) {
        self.lock().seen.lack.get_or_insert(why);
    }

    /// Returns how many of the queued tasks the witness has not seen yet; 0 if events are missing.
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
    /// Checks the next event; `None` is a gap.
    fn see(&mut self, event: Option<&Event>) {
        self.seen.events += 1;
        let Some(event) = event else {
            self.seen.lack.get_or_insert_with(|| "a gap".to_owned());
            // During the gap, admissions may have ended or started.
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
        // A late result after the end of an admission is valid once.
        let is_late = event.kind == EventKind::Late && self.lapsed.remove(&event.token);
        let is_known = self.first.is_some_and(|first| event.token >= first);
        self.seen.ended_twice += u64::from(is_known && !is_late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::time::Timestamp;

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
