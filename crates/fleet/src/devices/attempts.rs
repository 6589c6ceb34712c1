//! What the devices know about queued tasks: their attempts, and the results that the server has
//! accepted.

use std::collections::BTreeSet;

use bytes::Bytes;
use parking_lot::Mutex;
use tollgate_client::{CompleteVerdict, Grant, Outcome};

use crate::options::FleetOptions;

/// Maximum number of faults that are described; further ones are only counted.
const DESCRIBED_MAX: usize = 5;

/// All tasks by number. Task `n` belongs to device `n % devices`. The tasks of a device are queued
/// in the order of their numbers.
#[derive(Debug)]
pub(super) struct Attempts {
    devices: usize,
    max_attempts: u32,
    payload: usize,
    state: Mutex<AttemptsState>,
}

#[derive(Debug, Default)]
struct AttemptsState {
    tasks: Vec<TaskAttempts>,
    totals: Totals,
    faults: Faults,
}

/// The record of a task.
#[derive(Debug, Clone, Copy, Default)]
struct TaskAttempts {
    /// Token of the last attempt.
    token: u64,
    /// Number of attempts.
    attempt: u32,
    /// Whether the last attempt was in an answer that was not marked as a repeat.
    is_fresh: bool,
    /// Whether an answer has reported the task as completed.
    is_done: bool,
    /// Whether an answer has accepted the successful result.
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
    /// Attempts whose answer was lost, inferred from later answers.
    pub(super) missed: u64,
    /// Accepted results that report a failure.
    pub(super) failed: u64,
}

/// Violations of the contract.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    pub(super) count: u64,
    /// Descriptions of the first ones.
    pub(super) described: Vec<String>,
}

impl Attempts {
    /// Creates an empty record of all tasks.
    pub(super) fn new(options: &FleetOptions) -> Attempts {
        let tasks = vec![TaskAttempts::default(); options.queue.tasks as usize];
        Attempts {
            devices: options.device.devices as usize,
            max_attempts: options.queue.max_attempts,
            payload: options.queue.payload as usize,
            state: Mutex::new(AttemptsState { tasks, ..AttemptsState::default() }),
        }
    }

    /// Returns the payload of a task: its number, repeated. Payloads of three bytes or more are
    /// unique.
    pub(super) fn payload(&self, number: usize) -> Bytes {
        let digits = (number as u64).to_le_bytes();
        digits.into_iter().cycle().take(self.payload).collect()
    }

    /// Parses the number in a task's name.
    pub(super) fn number(&self, task: &str) -> Option<usize> {
        let number = task.strip_prefix("task-")?.parse().ok()?;
        (number < self.state.lock().tasks.len()).then_some(number)
    }

    /// Records the task that a device was given; does nothing for tasks of others. `may_lack` means
    /// that a request had no answer, so the device may have been given other tasks.
    pub(super) fn dispatched(&self, permit: &Grant, may_lack: bool) {
        let Some(task) = &permit.task else { return };
        let Some(number) = self.number(&task.task_id) else { return };
        let (token, attempt) = (permit.fencing_token, task.attempt);
        let state = &mut *self.state.lock();
        if task.payload != self.payload(number) {
            state.faults.add(number, "came with another payload");
        }
        let mut before = number.checked_sub(self.devices);
        while let Some(older) = before.filter(|older| !self.is_over(&state.tasks[*older])) {
            if !may_lack {
                state.faults.add(number, "came before an older task was over");
                break;
            }
            self.miss(state, older);
            before = older.checked_sub(self.devices);
        }
        let entry = &mut state.tasks[number];
        if (token, attempt) == (entry.token, entry.attempt) {
            if !permit.replayed && entry.is_fresh {
                return state.faults.add(number, &format!("was given attempt {attempt} twice"));
            }
            entry.is_fresh |= !permit.replayed;
        } else if token < entry.token {
            // The older one of two concurrent answers.
        } else if entry.is_done || attempt <= entry.attempt {
            let done = if entry.is_done { " when it was done" } else { "" };
            let what = format!("was given attempt {attempt} after {}{done}", entry.attempt);
            state.faults.add(number, &what);
        } else if attempt > self.max_attempts {
            let what = format!("was given attempt {attempt} of {}", self.max_attempts);
            state.faults.add(number, &what);
        } else {
            let more = u64::from(attempt - entry.attempt);
            let is_fresh = !permit.replayed;
            *entry = TaskAttempts { token, attempt, is_fresh, ..TaskAttempts::default() };
            state.totals.dispatched += more;
            state.totals.missed += more - 1;
        }
    }

    /// Records the answer to a result; does nothing for tasks of others.
    pub(super) fn reported(
        &self,
        task: &str,
        token: u64,
        outcome: Outcome,
        verdict: CompleteVerdict,
    ) {
        let Some(number) = self.number(task) else { return };
        let state = &mut *self.state.lock();
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
            (Outcome::Failed | Outcome::Unspecified, _) => {
                state.totals.failed += u64::from(is_taken);
            }
        }
    }

    /// Records that the server lists a task as dead. Its last attempts may have been in lost
    /// answers.
    pub(super) fn is_dead(&self, number: usize, may_lack: bool) {
        let state = &mut *self.state.lock();
        if may_lack && !self.is_over(&state.tasks[number]) {
            self.miss(state, number);
        }
    }

    /// Counts the remaining attempts of a task as missed.
    fn miss(&self, state: &mut AttemptsState, number: usize) {
        let entry = &mut state.tasks[number];
        let more = u64::from(self.max_attempts - entry.attempt);
        *entry = TaskAttempts { attempt: self.max_attempts, ..*entry };
        state.totals.dispatched += more;
        state.totals.missed += more;
    }

    /// Returns the sums so far.
    pub(super) fn totals(&self) -> Totals {
        self.state.lock().totals
    }

    pub(super) fn faults(&self) -> Faults {
        self.state.lock().faults.clone()
    }

    /// Returns the numbers of the tasks that have used all attempts and are not completed.
    pub(super) fn dead(&self) -> BTreeSet<usize> {
        let state = self.state.lock();
        let is_dead = |entry: &TaskAttempts| !entry.is_done && self.is_over(entry);
        let tasks = state.tasks.iter().enumerate();
        tasks.filter(|(_, entry)| is_dead(entry)).map(|(number, _)| number).collect()
    }

    /// Returns the number of tasks that are neither completed nor dead.
    pub(super) fn open(&self) -> u64 {
        self.state.lock().tasks.iter().filter(|entry| !self.is_over(entry)).count() as u64
    }

    fn is_over(&self, entry: &TaskAttempts) -> bool {
        entry.is_done || entry.attempt >= self.max_attempts
    }
}

impl Faults {
    fn add(&mut self, number: usize, what: &str) {
        self.count += 1;
        if self.described.len() < DESCRIBED_MAX {
            self.described.push(format!("task-{number} {what}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use CompleteVerdict::{AlreadyCompleted, Completed, Late, StaleToken, Unknown};
    use Outcome::{Failed, Succeeded};
    use tollgate_client::DispatchedTask;

    use super::*;
    use crate::options::tests::parse;

    /// Tasks of two devices, with two attempts each.
    fn empty(tasks: usize) -> Attempts {
        let flags = format!("--queued --devices 2 --max-attempts 2 --payload 4 --tasks {tasks}");
        Attempts::new(&parse(&flags).expect("good flags"))
    }

    /// Four tasks; dispatches the first.
    fn attempts() -> Attempts {
        let attempts = empty(4);
        give(&attempts, 0, 1, 10, false);
        attempts
    }

    fn give(attempts: &Attempts, number: usize, attempt: u32, token: u64, replayed: bool) {
        attempts.dispatched(&permit(attempts, number, attempt, token, replayed), false);
    }

    fn permit(
        attempts: &Attempts,
        number: usize,
        attempt: u32,
        token: u64,
        replayed: bool,
    ) -> Grant {
        let (task_id, payload) = (format!("task-{number}"), attempts.payload(number));
        let task = DispatchedTask { task_id, attempt, payload };
        Grant { fencing_token: token, lease: Duration::ZERO, replayed, task: Some(task) }
    }

    fn described(attempts: &Attempts) -> String {
        attempts.faults().described.join("; ")
    }

    #[test]
    fn a_task_runs_as_often_as_its_attempts_say() {
        let attempts = attempts();
        give(&attempts, 0, 1, 10, true);
        attempts.reported("task-0", 10, Failed, Completed);
        give(&attempts, 0, 2, 11, false);
        attempts.reported("task-0", 10, Succeeded, StaleToken);
        attempts.reported("task-0", 11, Succeeded, Late);
        attempts.reported("task-0", 11, Succeeded, AlreadyCompleted);
        // Two concurrent calls, the second of which is answered first.
        give(&attempts, 2, 1, 12, true);
        give(&attempts, 2, 1, 12, false);
        give(&attempts, 2, 2, 13, false);
        assert_eq!(described(&attempts), "");
        let totals = Totals { done: 1, done_late: 1, dispatched: 4, missed: 0, failed: 1 };
        assert_eq!(attempts.totals(), totals);
        assert_eq!((attempts.dead(), attempts.open()), ([2].into(), 2));
        give(&attempts, 1, 1, 14, false);
        attempts.reported("task-1", 14, Succeeded, AlreadyCompleted);
        attempts.reported("task-1", 14, Succeeded, Completed);
        assert_eq!((described(&attempts), attempts.totals().done), (String::new(), 2));
        // The result of its last attempt arrives late.
        attempts.reported("task-2", 13, Succeeded, Late);
        assert_eq!((attempts.dead(), attempts.totals().done), (BTreeSet::new(), 3));
    }

    #[test]
    fn violations_of_the_contract_are_described() {
        type Act = fn(&Attempts);
        let wrong_payload: Act = |it| {
            let mut permit = permit(it, 1, 1, 12, false);
            permit.task.as_mut().expect("a task").payload = it.payload(0);
            it.dispatched(&permit, false);
        };
        let done: Act = |it| it.reported("task-0", 10, Succeeded, Completed);
        let violations: [(&[Act], &str); 9] = [
            (&[|it| give(it, 0, 1, 10, false)], "given attempt 1 twice"),
            (&[|it| give(it, 0, 1, 11, false)], "given attempt 1 after 1"),
            (&[|it| give(it, 0, 3, 11, false)], "given attempt 3 of 2"),
            (&[|it| give(it, 2, 1, 11, false)], "before an older task was over"),
            (&[done, |it| give(it, 0, 2, 11, false)], "after 1 when it was done"),
            (&[done, done], "completed twice"),
            (&[|it| it.reported("task-0", 10, Failed, Unknown)], "not known"),
            (
                &[|it| it.reported("task-0", 10, Failed, StaleToken)],
                "another token than it was given last",
            ),
            (&[wrong_payload], "task-1 came with another payload"),
        ];
        for (acts, part) in violations {
            let attempts = attempts();
            acts.iter().for_each(|act| act(&attempts));
            assert_eq!(attempts.faults().count, 1, "{part}");
            assert!(described(&attempts).contains(part), "{part}: {}", described(&attempts));
        }
    }

    #[test]
    fn attempts_whose_answers_were_lost_are_missed() {
        let attempts = empty(6);
        give(&attempts, 0, 2, 11, false);
        attempts.dispatched(&permit(&attempts, 4, 1, 19, false), true);
        assert_eq!((described(&attempts), attempts.totals().missed), (String::new(), 3));
        attempts.is_dead(1, true);
        assert_eq!((attempts.totals().missed, attempts.dead()), (5, [0, 1, 2].into()));
        assert_eq!(attempts.number("task-3"), Some(3));
        assert!(attempts.number("task-6").is_none() && attempts.number("3").is_none());
    }
}
