//! Who was refused from memory, and since when: after a while the store is asked for it.
//!
//! A task that another server has admitted is not known here. While a storm keeps the
//! refusal of its pool in memory, its repeat would never reach the store, whatever the
//! bound of a single refusal.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use crate::time::{Millis, Timestamp};

/// Eight bytes each, taken with the first refusal from memory.
const PLACES: usize = 1 << 18;
/// For so long one member is refused from memory alone.
const PATIENCE: Millis = Millis(1000);
/// The bits that an instant has, in milliseconds; the others tell members apart.
const MILLIS: u64 = (1 << 40) - 1;

/// The instant at which a member was first refused from memory since it last asked the
/// store, by place; the last member counts that had the place.
#[derive(Debug, Default)]
pub(super) struct Told(OnceLock<Box<[AtomicU64]>>);

impl Told {
    /// Whether a member may be refused from memory now; it is then.
    pub(super) fn may_be_told(&self, member: u64, now: Timestamp) -> bool {
        let empty = || (0..PLACES).map(|_| AtomicU64::new(0)).collect();
        let since = &self.0.get_or_init(empty)[member as usize % PLACES];
        let millis = (now.0 / 1000) & MILLIS;
        let seen = since.load(Ordering::Relaxed);
        if seen == 0 || !is_of(seen, member) {
            since.store(member & !MILLIS | millis, Ordering::Relaxed);
            return true;
        }
        millis.wrapping_sub(seen & MILLIS) < PATIENCE.0
    }

    /// Notes that the store was asked for a member, and refused it.
    pub(super) fn was_asked(&self, member: u64) {
        let Some(places) = self.0.get() else { return };
        let since = &places[member as usize % PLACES];
        if is_of(since.load(Ordering::Relaxed), member) {
            since.store(0, Ordering::Relaxed);
        }
    }
}

/// Whether a place has been taken by this member.
fn is_of(seen: u64, member: u64) -> bool {
    seen & !MILLIS == member & !MILLIS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_asks_the_store_once_in_a_while_however_often_it_calls() {
        let (told, start) = (Told::default(), 1_767_225_600_000_000);
        let at = |millis: u64| Timestamp(start + millis * 1000);
        let member = 0x1234_5678_9abc_def0;
        for (millis, expected) in [(0, true), (999, true), (1000, false), (1001, false)] {
            assert_eq!(told.may_be_told(member, at(millis)), expected, "{millis}");
        }
        // Once it was asked for, its time begins anew; who comes seldom asks every other time.
        told.was_asked(member);
        assert!(told.may_be_told(member, at(2000)) && !told.may_be_told(member, at(600_000)));
        told.was_asked(member);
        // Others are told for themselves.
        assert!((1..1000).all(|other| told.may_be_told(member + other, at(600_000))));
        // Who has the place of another one takes it over.
        let same_place = member ^ 1 << 63;
        assert!(told.may_be_told(same_place, at(600_000)));
        assert!(told.may_be_told(member, at(605_000)));
        // A clock that was set back has it ask.
        assert!(!told.may_be_told(member, at(604_000)));
    }
}
