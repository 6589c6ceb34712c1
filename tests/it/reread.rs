//! Reads states back from what is kept of them, in the middle of a history: whatever is
//! not kept shows in the answers after that.

use std::collections::BTreeMap;

use tollgate::{
    decision::{
        Decision,
        persistence::{Change, Changes, Recorded, split_key},
        time::Timestamp,
    },
    engine::embedded::Kept,
};

/// So many decisions lie between two times.
const EVERY: usize = 20;

/// What is kept of all states, as a data directory has it.
#[derive(Default)]
pub struct Reread {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    decided: usize,
    /// How often a state was read back.
    pub count: usize,
}

impl Reread {
    /// Decides on a state, which is read back before it now and then, and keeps what has
    /// changed.
    pub fn decide<D>(&mut self, decision: &D, state: &mut D::State, now: Timestamp) -> D::Outcome
    where
        D: Decision<State: Kept>,
    {
        self.decided += 1;
        // Places of calls that wait are not kept.
        if self.decided.is_multiple_of(EVERY) && !format!("{state:?}").contains("queue: Some") {
            // Events are appended to logs besides.
            self.keep(decision.partition(), state);
            *state = self.read(decision.partition());
            self.count += 1;
        }
        state.note_changes();
        let outcome = decision.decide(state, now);
        self.keep(decision.partition(), state);
        outcome
    }

    fn keep<S: Recorded>(&mut self, partition: &[u8], state: &mut S) {
        let (mut changes, mut head) = (Changes::default(), Vec::new());
        changes.of::<S>(partition);
        state.head(&mut head);
        changes.head(&head);
        state.drain(&mut changes);
        for change in changes.row().iter() {
            match change {
                Change::Put(key, value) => drop(self.entries.insert(key.into(), value.into())),
                Change::Remove(key) => drop(self.entries.remove(key)),
                Change::Clear(prefix) => self.entries.retain(|key, _| !key.starts_with(prefix)),
            }
        }
    }

    fn read<S: Recorded>(&self, partition: &[u8]) -> S {
        let mut state = S::default();
        for (key, value) in &self.entries {
            let (kind, of, part) = split_key(key).unwrap();
            if kind == S::KIND && of == partition {
                state.restore(part, value).unwrap();
            }
        }
        state.restored();
        state
    }
}
