//! Slots in use, computed from events.

use std::collections::HashSet;

use tollgate_client::{PoolEvent, PoolEventKind};

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
    pub(crate) fn from_tokens(tokens: impl IntoIterator<Item = u64>, capacity: u32) -> Occupancy {
        let running = tokens.into_iter().collect();
        Occupancy { running, is_exact: true, capacity: Some(capacity) }
    }

    /// Applies an event. Returns the slots in use after it, if the event can change them.
    pub(crate) fn after(&mut self, event: &PoolEvent) -> Option<InUse> {
        use PoolEventKind::*;

        let token = event.fencing_token;
        self.capacity = event.capacity.or(self.capacity);
        match event.kind() {
            Admitted | Renewed => drop(self.running.insert(token)),
            Completed | Late | Expired | Evicted => drop(self.running.remove(&token)),
            Configured => {}
            Enqueued | Cancelled | Dead | Unspecified => return None,
            Gap => {
                // During the gap, leases may have ended or started.
                *self = Occupancy { capacity: self.capacity, ..Occupancy::default() };
                return None;
            }
        }
        let (least, is_exact, capacity) = (self.running.len(), self.is_exact, self.capacity);
        Some(InUse { least, is_exact, capacity })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PoolEventKind::*;

    fn event(kind: PoolEventKind, fencing_token: u64) -> PoolEvent {
        let capacity = (kind == Admitted).then_some(60);
        PoolEvent { kind: kind.into(), fencing_token, capacity, ..PoolEvent::default() }
    }

    #[test]
    fn leases_count_from_their_grant_to_their_first_end() {
        let mut occupancy = Occupancy::from_tokens([1, 2], 50);
        let mut after = |kind, token| {
            let in_use = occupancy.after(&event(kind, token));
            in_use.map(|it| (it.least, it.is_exact, it.capacity))
        };
        assert_eq!(after(Renewed, 1), Some((2, true, Some(50))));
        assert_eq!(after(Admitted, 3), Some((3, true, Some(60))));
        assert_eq!(after(Expired, 1), Some((2, true, Some(60))));
        assert_eq!(after(Late, 1), Some((2, true, Some(60))));
        assert_eq!(after(Enqueued, 0), None);
        assert_eq!(after(Gap, 0), None);
        assert_eq!(after(Renewed, 2), Some((1, false, Some(60))));
    }
}
