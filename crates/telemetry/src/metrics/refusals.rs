//! Refused checks of the last minute, by policy, and the keys that were refused most.
//!
//! Counted only while the console is served ([`turn_on`]). The numbers of keys are estimates by the
//! algorithm Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and
//! Top-k Elements in Data Streams, 2005): exact for up to [`KEYS`] keys in each ten seconds, and
//! never too low for a key that is listed. Both numbers cover the same slots: the last minute.

use std::{
    cell::Cell,
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
};

use super::ByThread;
use crate::clock::coarse;

/// Maximum number of policies of a thread; refusals of further ones are not counted.
const POLICIES_MAX: usize = 1_000;
/// Counted keys of a policy in a slot.
const KEYS: usize = 32;
/// The length of a slot, seconds.
const SLOT: u64 = 10;
/// Slots of a minute.
const SLOTS: usize = 6;
/// Number of refused checks per thread and second that are counted exactly. Of the others, one in
/// [`SHARE`] is counted with that weight, so that a flood of refusals costs little.
const EXACT: u32 = 256;
const SHARE: u32 = 16;

static ON: AtomicBool = AtomicBool::new(false);
/// The refusals that each thread has counted, so that no refusal waits for a lock shared by all
/// threads.
static POLICIES: ByThread<HashMap<Box<[u8]>, PolicyRefusals>> = ByThread::new();

thread_local! {
    /// The current second, and the refusals of this thread in it.
    static SECOND: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
}

/// The refusals of a policy.
#[derive(Debug, Default)]
struct PolicyRefusals {
    slots: [TenSeconds; SLOTS],
}

/// Counts by key.
type KeyCounts = Vec<(Box<[u8]>, u64)>;

/// The refusals of ten seconds.
#[derive(Debug, Default)]
struct TenSeconds {
    /// The number of the slot since the machine started.
    at: u64,
    count: u64,
    keys: KeyCounts,
}

/// Refused checks of a policy.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefusedChecks {
    /// In the last minute.
    pub count: u64,
    /// By key in the last minute, the largest number first.
    pub keys: Vec<(Box<[u8]>, u64)>,
}

/// Starts counting.
pub fn turn_on() {
    ON.store(true, Ordering::Relaxed);
}

/// Counts a refusal of a key under a policy, whose name includes its namespace.
#[inline]
pub fn record(policy: &[u8], key: &[u8]) {
    if ON.load(Ordering::Relaxed) {
        record_at(policy, key, coarse().as_secs());
    }
}

/// Returns the refusals of a policy.
pub fn lookup(policy: &[u8]) -> RefusedChecks {
    of_at(policy, coarse().as_secs())
}

fn record_at(policy: &[u8], key: &[u8], second: u64) {
    let number = SECOND.with(|seen| {
        let (last, number) = seen.get();
        let number = if last == second { number.saturating_add(1) } else { 1 };
        seen.set((second, number));
        number
    });
    let weight = match number {
        0..=EXACT => 1,
        number if number % SHARE == 0 => SHARE,
        _ => return,
    };
    let mut policies = POLICIES.own();
    if !policies.contains_key(policy) {
        if policies.len() >= POLICIES_MAX {
            policies.retain(|_, refusals| refusals.count_at(second) > 0);
            if policies.len() >= POLICIES_MAX {
                return;
            }
        }
        policies.insert(policy.into(), PolicyRefusals::default());
    }
    if let Some(refusals) = policies.get_mut(policy) {
        refusals.add(key, weight.into(), second);
    }
}

fn of_at(policy: &[u8], second: u64) -> RefusedChecks {
    let (mut all, mut sums) = (0, HashMap::new());
    POLICIES.each(|policies| {
        let Some(refusals) = policies.get(policy) else { return };
        for slot in refusals.recent(second) {
            all += slot.count;
            for (key, count) in &slot.keys {
                *sums.entry(key.clone()).or_default() += *count;
            }
        }
    });
    let mut keys: KeyCounts = sums.into_iter().collect();
    keys.sort_by(|(one, larger), (other, smaller)| smaller.cmp(larger).then(one.cmp(other)));
    RefusedChecks { count: all, keys }
}

impl PolicyRefusals {
    fn add(&mut self, key: &[u8], weight: u64, second: u64) {
        let at = second / SLOT;
        let slot = &mut self.slots[at as usize % SLOTS];
        if slot.at != at {
            *slot = TenSeconds { at, ..TenSeconds::default() };
        }
        slot.count += weight;
        let keys = &mut slot.keys;
        if let Some((_, count)) = keys.iter_mut().find(|(known, _)| **known == *key) {
            *count += weight;
        } else if keys.len() < KEYS {
            keys.push((key.into(), weight));
        } else if let Some((known, count)) = keys.iter_mut().min_by_key(|(_, count)| *count) {
            // Space-Saving: the newcomer inherits the smallest count.
            *known = key.into();
            *count += weight;
        }
    }

    /// Returns the slots of the last minute.
    fn recent(&self, second: u64) -> impl Iterator<Item = &TenSeconds> {
        let at = second / SLOT;
        self.slots.iter().filter(move |slot| slot.at <= at && slot.at + SLOTS as u64 > at)
    }

    fn count_at(&self, second: u64) -> u64 {
        self.recent(second).map(|slot| slot.count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j34_refusals_of_a_policy_and_of_its_keys_cover_the_same_minute() {
        let policy = b"refusals_of_the_same_minute";
        for _ in 0..5 {
            record_at(policy, b"often", 600);
        }
        record_at(policy, b"once", 615);
        let seen = of_at(policy, 620);
        assert_eq!(seen.count, 6);
        assert_eq!(seen.keys, [(b"often"[..].into(), 5), (b"once"[..].into(), 1)]);
        let later = of_at(policy, 665);
        assert_eq!((later.count, later.keys), (1, vec![(b"once"[..].into(), 1)]));
        assert_eq!(of_at(policy, 800), RefusedChecks::default());
        assert_eq!(of_at(b"unknown", 620), RefusedChecks::default());
    }

    #[test]
    fn j24_refusals_on_all_threads_are_summed() {
        let policy = b"refusals_on_all_threads_are_added_up";
        std::thread::scope(|scope| {
            for number in 0..20_u8 {
                scope.spawn(move || {
                    (0..100).for_each(|_| record_at(policy, b"shared", 1200));
                    record_at(policy, &[number % 5], 1200);
                });
            }
        });
        let seen = of_at(policy, 1200);
        assert_eq!((seen.count, seen.keys.len()), (2020, 6));
        assert_eq!(seen.keys[0], (b"shared"[..].into(), 2000));
        assert!(seen.keys[1..].iter().all(|(_, count)| *count == 4), "{:?}", seen.keys);
    }

    #[test]
    fn a_flood_is_sampled_and_keys_are_bounded() {
        let policy = b"a_flood_counts_in_shares";
        for number in 0..10_000_u32 {
            record_at(policy, b"hot", 900);
            if number % 4 == 0 {
                record_at(policy, &number.to_be_bytes(), 900);
            }
        }
        let seen = of_at(policy, 901);
        assert!((12_000..13_000).contains(&seen.count), "{}", seen.count);
        assert_eq!((&*seen.keys[0].0, seen.keys.len()), (&b"hot"[..], KEYS));
    }
}
