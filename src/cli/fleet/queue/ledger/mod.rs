//! The devices' record of the tasks: their attempts, and the results that the server accepted.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::admission::{CompleteVerdict, Outcome};

/// Maximum number of faults that are described; the others are only counted.
const TOLD_MAX: usize = 5;

/// All tasks by number. Task `n` belongs to device `n % devices`. The tasks of a device are queued
/// in the order of their numbers.
#[derive(Debug)]
pub(super) struct Ledger {
    devices: usize,
    max_attempts: u32,
    payload: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tasks: Vec<Entry>,
    totals: Totals,
    faults: Faults,
}

/// The record of a task.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    /// Token of the last attempt.
    token: u64,
    /// Number of attempts.
    attempt: u32,
    /// Whether some answer with the last attempt was not marked as a repeat.
    is_fresh: bool,
    /// Whether an answer says that the task is completed.
    is_done: bool,
    /// Whether an answer accepted the successful result.
    is_taken: bool,
}

/// Sums over all tasks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Completed tasks.
    pub(super) done: u64,
    /// Tasks completed by a late result.
    pub(super) done_late: u64,
    /// Attempts.
    pub(super) dispatched: u64,
    /// Attempts whose answer was lost; they are known from later answers.
    pub(super) missed: u64,
    /// Accepted results that report a failure.
    pub(super) failed: u64,
}

/// Violations of the contract.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    pub(super) count: u64,
    /// Descriptions of the first ones.
    pub(super) told: Vec<String>,
}

/// A task in an answer to a device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Given<'a> {
    pub(super) number: usize,
    pub(super) attempt: u32,
    pub(super) token: u64,
    /// Whether the answer is marked as a repeat.
    pub(super) replayed: bool,
    /// Whether a request had no answer. Such a request may have got other tasks.
    pub(super) may_lack: bool,
    pub(super) payload: &'a [u8],
}

impl Ledger {
    /// Creates an empty record of all tasks.
    pub(super) fn new(tasks: usize, devices: usize, max_attempts: u32, payload: usize) -> Ledger {
        let tasks = vec![Entry::default(); tasks];
        let state = Mutex::new(State { tasks, ..State::default() });
        Ledger { devices, max_attempts, payload, state }
    }

    /// Returns the payload of a task: its number, repeated. Unique from three bytes on.
    pub(super) fn payload(&self, number: usize) -> Bytes {
        let digits = (number as u64).to_le_bytes();
        digits.into_iter().cycle().take(self.payload).collect()
    }

    /// Parses the number in a task's name.
    pub(super) fn number(&self, task: &str) -> Option<usize> {
        let number = task.strip_prefix("task-")?.parse().ok()?;
        (number < self.lock().tasks.len()).then_some(number)
    }

    /// Records that a device got a task.
    pub(super) fn dispatched(&self, given: Given<'_>) {
        let is_intact = given.payload == self.payload(given.number);
        let state = &mut *self.lock();
        if !is_intact {
            state.faults.add(given.number, "came with another payload");
        }
        let mut before = given.number.checked_sub(self.devices);
        while let Some(older) = before.filter(|older| !self.is_over(&state.tasks[*older])) {
            if !given.may_lack {
                state.faults.add(given.number, "came before an older task was over");
                break;
            }
            self.miss(state, older);
            before = older.checked_sub(self.devices);
        }
        let entry = &mut state.tasks[given.number];
        if given.token == entry.token && given.attempt == entry.attempt {
            if !given.replayed && entry.is_fresh {
                let what = format!("was given attempt {} twice", given.attempt);
                return state.faults.add(given.number, &what);
            }
            entry.is_fresh |= !given.replayed;
        } else if given.token < entry.token {
            // Of two concurrent answers, the older one.
        } else if entry.is_done || given.attempt <= entry.attempt {
            let done = if entry.is_done { " when it was done" } else { "" };
            let what = format!("was given attempt {} after {}{done}", given.attempt, entry.attempt);
            state.faults.add(given.number, &what);
        } else if given.attempt > self.max_attempts {
            let what = format!("was given attempt {} of {}", given.attempt, self.max_attempts);
            state.faults.add(given.number, &what);
        } else {
            let more = u64::from(given.attempt - entry.attempt);
            let (token, attempt, is_fresh) = (given.token, given.attempt, !given.replayed);
            *entry = Entry { token, attempt, is_fresh, ..Entry::default() };
            state.totals.dispatched += more;
            state.totals.missed += more - 1;
        }
    }

    /// Records the answer to a result.
    pub(super) fn reported(
        &self,
        number: usize,
        token: u64,
        outcome: Outcome,
        verdict: CompleteVerdict,
    ) {
        let state = &mut *self.lock();
        let entry = &mut state.tasks[number];
        let is_taken = matches!(verdict, CompleteVerdict::Completed | CompleteVerdict::Late);
        match (outcome, verdict) {
            (_, CompleteVerdict::Unknown) => state.faults.add(number, "is not known"),
            (_, CompleteVerdict::StaleToken) if token == entry.token => {
                state.faults.add(number, "has another token than it was given last");
            }
            (_, CompleteVerdict::StaleToken) => {}
            (Outcome::Succeeded, _) if entry.is_taken && is_taken => {
                state.faults.add(number, "was completed twice");
            }
            (Outcome::Succeeded, _) => {
                state.totals.done += u64::from(!entry.is_done);
                state.totals.done_late += u64::from(verdict == CompleteVerdict::Late);
                entry.is_done = true;
                entry.is_taken |= is_taken;
            }
            (Outcome::Failed, _) => state.totals.failed += u64::from(is_taken),
        }
    }

    /// Records that the server lists a task as dead. If answers were lost, its last attempts may
    /// have been among them.
    pub(super) fn is_dead(&self, number: usize, may_lack: bool) {
        let state = &mut *self.lock();
        if may_lack && !self.is_over(&state.tasks[number]) {
            self.miss(state, number);
        }
    }

    /// Counts the remaining attempts of a task as missed.
    fn miss(&self, state: &mut State, number: usize) {
        let entry = &mut state.tasks[number];
        let more = u64::from(self.max_attempts - entry.attempt);
        *entry = Entry { attempt: self.max_attempts, ..*entry };
        state.totals.dispatched += more;
        state.totals.missed += more;
    }

    /// Returns the sums so far.
    pub(super) fn totals(&self) -> Totals {
        self.lock().totals
    }

    pub(super) fn faults(&self) -> Faults {
        self.lock().faults.clone()
    }

    /// Returns the numbers of the tasks that have used all attempts and are not completed.
    pub(super) fn dead(&self) -> Vec<usize> {
        self.of(|entry| !entry.is_done && self.is_over(entry))
    }

    /// Returns the numbers of the tasks that are neither completed nor dead.
    pub(super) fn open(&self) -> Vec<usize> {
        self.of(|entry| !self.is_over(entry))
    }

    fn of(&self, is: impl Fn(&Entry) -> bool) -> Vec<usize> {
        let state = self.lock();
        let tasks = state.tasks.iter().enumerate();
        tasks.filter(|(_, entry)| is(entry)).map(|(number, _)| number).collect()
    }

    fn is_over(&self, entry: &Entry) -> bool {
        entry.is_done || entry.attempt >= self.max_attempts
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Faults {
    fn add(&mut self, number: usize, what: &str) {
        self.count += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push(format!("task-{number} {what}"));
        }
    }
}

#[cfg(test)]
mod tests;
