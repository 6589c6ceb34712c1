//! Reads states back from their stored entries in the middle of a history. A value that is not
//! stored then changes later answers.

use std::collections::BTreeMap;

use tollgate_core::{
    Decision,
    record::{Change, Changes, Recorded, split_key},
    time::Timestamp,
};
use tollgate_engine::embedded::Tabled;

/// Number of decisions between two reads, unless a test says otherwise.
pub const EVERY: usize = 20;

/// The stored entries of all states, as in a data directory.
pub struct Reread {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    decided: usize,
    /// Number of decisions between two reads.
    pub every: usize,
    /// Number of states that were read back.
    pub count: usize,
}

impl Default for Reread {
    fn default() -> Reread {
        Reread { entries: BTreeMap::new(), decided: 0, every: EVERY, count: 0 }
    }
}

impl Reread {
    /// Makes a decision on a state, and stores the changes. At intervals the state is read back
    /// first.
    pub fn decide<D>(&mut self, decision: &D, state: &mut D::State, now: Timestamp) -> D::Outcome
    where
        D: Decision<State: Tabled>,
    {
        self.decided += 1;
        // Waiters are not stored.
        if self.decided.is_multiple_of(self.every) && !has_waiters(state) {
            // Stores events that were appended after the last decision.
            self.keep(decision.partition(), state);
            *state = self.read(decision.partition());
            self.count += 1;
        }
        state.track_changes();
        let outcome = decision.decide(state, now);
        self.keep(decision.partition(), state);
        outcome
    }

    /// Stores the changes of a state.
    pub fn keep<S: Recorded>(&mut self, partition: &[u8], state: &mut S) {
        let (mut changes, mut head) = (Changes::default(), Vec::new());
        changes.set_partition::<S>(partition);
        state.head(&mut head);
        changes.head(&head);
        state.drain(&mut changes);
        for change in changes.row().iter() {
            match change {
                Change::Put(key, value) => drop(self.entries.insert(key.into(), value.into())),
                Change::Insert(key, value) => {
                    let before = self.entries.insert(key.into(), value.into());
                    assert!(before.is_none(), "the key is not new");
                }
                Change::Remove(key) => drop(self.entries.remove(key)),
                Change::Clear(prefix) => self.entries.retain(|key, _| !key.starts_with(prefix)),
            }
        }
    }

    fn read<S: Recorded>(&self, partition: &[u8]) -> S {
        let mut state = S::default();
        let length = u16::try_from(partition.len()).unwrap().to_be_bytes();
        let first = [&[S::KIND], &length[..], partition].concat();
        for (key, value) in self.entries.range(first..) {
            let (kind, of, part) = split_key(key).unwrap();
            if kind != S::KIND || of != partition {
                break;
            }
            state.restore(part, value).unwrap();
        }
        state.restored();
        state
    }
}

/// Whether the state has waiters. Only pools and locks can have some.
fn has_waiters<S: Recorded>(state: &S) -> bool {
    ["admission", "lock"].contains(&S::CAPABILITY) && format!("{state:?}").contains("queue: Some")
}
