//! Slots in use, computed from events.

use std::collections::HashSet;

use crate::{
    admission::{Event, EventKind},
    grpc::client::Told,
};

/// The running leases.
#[derive(Debug, Default)]
pub(crate) struct Occupancy {
    running: HashSet<u64>,
    /// Whether all running leases are known.
    is_exact: bool,
    capacity: Option<u32>,
}

/// Slots in use after an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InUse {
    /// Minimum number of slots in use.
    pub(crate) least: usize,
    /// Whether the minimum is the exact number.
    pub(crate) is_exact: bool,
    /// Capacity of the pool, if known.
    pub(crate) capacity: Option<u32>,
}

impl Occupancy {
    /// Creates an exact occupancy from all running leases and the capacity.
    pub(crate) fn of(tokens: impl IntoIterator<Item = u64>, capacity: u32) -> Occupancy {
        let running = tokens.into_iter().collect();
        Occupancy { running, is_exact: true, capacity: Some(capacity) }
    }

    /// Applies an event. Returns the slots in use after it, if the event can change them.
    pub(crate) fn after(&mut self, told: &Told<Event>) -> Option<InUse> {
        let Some(event) = &told.event else {
            // During the gap, leases may have ended or started.
            *self = Occupancy { capacity: self.capacity, ..Occupancy::default() };
            return None;
        };
        self.capacity = event.capacity.or(self.capacity);
        match event.kind {
            EventKind::Admitted | EventKind::Renewed => {
                self.running.insert(event.token);
            }
            EventKind::Completed | EventKind::Late | EventKind::Expired | EventKind::Evicted => {
                self.running.remove(&event.token);
            }
            EventKind::Configured => {}
            EventKind::Enqueued | EventKind::Cancelled | EventKind::Dead => return None,
        }
        let (least, is_exact, capacity) = (self.running.len(), self.is_exact, self.capacity);
        Some(InUse { least, is_exact, capacity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::time::Timestamp;

    fn told(kind: EventKind, token: u64) -> Told<Event> {
        let event = Event {
            kind,
            token,
            attempt: 0,
            outcome: None,
            capacity: (kind == EventKind::Admitted).then_some(60),
            time: Timestamp(0),
            member: b"d\x1ft".as_slice().into(),
        };
        Told { cursor: String::new(), event: Some(event) }
    }

    #[test]
    fn leases_count_from_their_grant_to_their_first_end() {
        let mut occupancy = Occupancy::of([1, 2], 50);
        let mut after = |told: &Told<Event>| {
            let in_use = occupancy.after(told);
            in_use.map(|it| (it.least, it.is_exact, it.capacity))
        };
        assert_eq!(after(&told(EventKind::Renewed, 1)), Some((2, true, Some(50))));
        assert_eq!(after(&told(EventKind::Admitted, 3)), Some((3, true, Some(60))));
        assert_eq!(after(&told(EventKind::Expired, 1)), Some((2, true, Some(60))));
        assert_eq!(after(&told(EventKind::Late, 1)), Some((2, true, Some(60))));
        assert_eq!(after(&told(EventKind::Enqueued, 0)), None);
        assert_eq!(after(&Told { cursor: String::new(), event: None }), None);
        assert_eq!(after(&told(EventKind::Renewed, 2)), Some((1, false, Some(60))));
    }
}
