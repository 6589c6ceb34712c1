//! Checks the events of the pool against the contract.

use std::{collections::HashSet, sync::Arc};

use parking_lot::Mutex;
use tollgate_client::{PoolEvent, PoolEventKind, Watch, Watched};

/// The state that is needed to check the next event.
#[derive(Debug, Default)]
struct EventState {
    /// Prefix of the device names of the run.
    prefix: String,
    /// Tokens of running admissions.
    running: HashSet<u64>,
    /// Tokens of admissions that expired without a result.
    lapsed: HashSet<u64>,
    /// The first granted token. Admissions with older tokens are unknown.
    first: Option<u64>,
    seen: EventTotals,
}

/// Sums over the events.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct EventTotals {
    pub(super) events: u64,
    /// Tasks of the run that were queued, that were dispatched, and that died.
    pub(super) queued: u64,
    pub(super) dispatched: u64,
    pub(super) dead: u64,
    /// Running admissions.
    pub(super) running: usize,
    /// Admissions that exceeded the capacity in their event.
    pub(super) over_cap: u64,
    /// Ends of admissions that had already ended.
    pub(super) ended_twice: u64,
    /// Why events are missing, in which case the sums prove nothing.
    pub(super) lack: Option<String>,
}

/// Reads the events of a pool, and checks them.
#[derive(Debug, Clone, Default)]
pub(super) struct Events(Arc<Mutex<EventState>>);

impl Events {
    /// Counts the tasks of devices whose names have this prefix.
    pub(super) fn new(prefix: String) -> Events {
        Events(Arc::new(Mutex::new(EventState { prefix, ..EventState::default() })))
    }

    /// Reads the stream until it fails permanently.
    pub(super) async fn follow(self, mut watch: Watch<PoolEvent>) {
        loop {
            match watch.next().await {
                Ok(Watched::Event(event)) => self.0.lock().see(&event),
                // A lost stream continues after its last event. If there was none, it has no cursor
                // and misses events.
                Ok(Watched::Lost(error)) if !watch.has_cursor() => {
                    return self.lack(error.to_string());
                }
                Ok(Watched::Lost(_) | Watched::Resumed) => {}
                Err(error) => return self.lack(error.to_string()),
            }
        }
    }

    /// Records that events are missing.
    pub(super) fn lack(&self, why: String) {
        self.0.lock().seen.lack.get_or_insert(why);
    }

    /// Returns how many of the queued tasks have no event yet; 0 if events are missing.
    pub(super) fn behind(&self, queued: u64) -> u64 {
        let seen = &self.0.lock().seen;
        if seen.lack.is_some() { 0 } else { queued.saturating_sub(seen.queued) }
    }

    /// Returns the sums so far.
    pub(super) fn seen(&self) -> EventTotals {
        let state = self.0.lock();
        EventTotals { running: state.running.len(), ..state.seen.clone() }
    }
}

impl EventState {
    fn see(&mut self, event: &PoolEvent) {
        use PoolEventKind::*;

        self.seen.events += 1;
        let (token, is_ours) = (event.fencing_token, event.device_id.starts_with(&self.prefix));
        match event.kind() {
            Gap => {
                self.seen.lack.get_or_insert_with(|| "a gap".to_owned());
                // During the gap, admissions may have ended or started.
                self.running.clear();
                self.lapsed.clear();
                self.first = None;
            }
            Enqueued => self.seen.queued += u64::from(is_ours),
            Dead => self.seen.dead += u64::from(is_ours),
            Admitted => {
                let capacity = event.capacity.unwrap_or(0) as usize;
                self.seen.over_cap += u64::from(self.running.len() >= capacity);
                self.seen.dispatched += u64::from(is_ours);
                self.running.insert(token);
                self.first.get_or_insert(token);
            }
            kind @ (Completed | Late | Expired | Evicted) if token > 0 => self.end(kind, token),
            _ => {}
        }
    }

    fn end(&mut self, kind: PoolEventKind, token: u64) {
        if self.running.remove(&token) {
            if [PoolEventKind::Expired, PoolEventKind::Evicted].contains(&kind) {
                self.lapsed.insert(token);
            }
            return;
        }
        // A late result is valid once after an admission has expired.
        let is_late = kind == PoolEventKind::Late && self.lapsed.remove(&token);
        let is_known = self.first.is_some_and(|first| token >= first);
        self.seen.ended_twice += u64::from(is_known && !is_late);
    }
}

#[cfg(test)]
mod tests {
    use PoolEventKind::*;

    use super::*;

    fn seen(events: &[(PoolEventKind, u64)]) -> EventTotals {
        let watched = Events::new("run/".to_owned());
        for (kind, fencing_token) in events {
            let (kind, fencing_token) = ((*kind).into(), *fencing_token);
            let (capacity, device_id) = (Some(2), "run/device-1".to_owned());
            let event =
                PoolEvent { kind, fencing_token, capacity, device_id, ..Default::default() };
            watched.0.lock().see(&event);
        }
        watched.seen()
    }

    #[test]
    fn admissions_are_held_against_the_cap_and_end_once() {
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
        let expected = EventTotals {
            events: 8,
            queued: 1,
            dispatched: 3,
            dead: 1,
            running: 2,
            ..EventTotals::default()
        };
        assert_eq!(good, expected);
        assert_eq!(seen(&[(Admitted, 5), (Admitted, 6), (Admitted, 7)]).over_cap, 1);
        let twice = [(Admitted, 5), (Expired, 5), (Late, 5), (Late, 5), (Completed, 5)];
        assert_eq!(seen(&twice).ended_twice, 2);
        // They may have ended in the gap.
        let gap = [(Admitted, 5), (Admitted, 6), (Gap, 0), (Admitted, 9), (Completed, 6)];
        let EventTotals { lack, over_cap, ended_twice, .. } = seen(&gap);
        assert_eq!((lack.as_deref(), over_cap, ended_twice), (Some("a gap"), 0, 0));
    }
}
