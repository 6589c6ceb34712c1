//! The rules of admissions: each holds a slot, begins once and ends once.

use std::collections::HashMap;

use super::event::{Event, Kind};

/// All admissions of a record, by token.
#[derive(Debug, Default)]
pub struct Admissions {
    running: HashMap<u64, Task>,
    /// The token under which each task runs.
    tokens: HashMap<Task, u64>,
    ended: HashMap<u64, Ended>,
    /// The highest token so far.
    last: u64,
    /// Admissions with lower tokens may have begun before the record, or in a gap.
    unseen_below: u64,
    /// The largest number that ran at the same time.
    pub most: usize,
    /// The highest capacity that an ADMITTED carried.
    pub capacity: u32,
    /// Number of admissions that began.
    pub begun: u64,
    /// Number of admissions that ended by COMPLETED, LATE, EXPIRED and EVICTED.
    pub ends: [u64; 4],
}

/// Device and task.
type Task = (String, String);

#[derive(Debug, Clone, Copy)]
struct Ended {
    by: Kind,
    cursor: u64,
    /// Whether a result was reported, in time or late.
    has_result: bool,
}

impl Admissions {
    /// For a record that begins with the pool's first event, or with any event.
    pub fn new(from_start: bool) -> Admissions {
        let unseen_below = if from_start { 0 } else { u64::MAX };
        Admissions { unseen_below, ..Admissions::default() }
    }

    /// Returns the number of running admissions.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Up to five running admissions, as text.
    pub fn some_running(&self) -> String {
        let mut tokens: Vec<_> = self.running.iter().collect();
        tokens.sort();
        let some = tokens.iter().take(5);
        let some = some.map(|(token, (device, task))| format!("{device}/{task} (token {token})"));
        some.collect::<Vec<_>>().join(", ")
    }

    /// Events are missing: running admissions may have ended, and others may have begun.
    pub fn gap(&mut self) {
        self.running.clear();
        self.tokens.clear();
        self.unseen_below = u64::MAX;
    }

    /// Checks an event. Fails with the rule that it breaks.
    pub fn see(&mut self, event: &Event) -> Result<(), String> {
        match event.kind {
            Kind::Admitted => self.begin(event),
            Kind::Renewed => self.renew(event),
            Kind::Completed | Kind::Late | Kind::Evicted => self.end(event),
            Kind::Expired if event.fencing_token > 0 => self.end(event),
            Kind::Dead => match self.tokens.get(&task(event)) {
                Some(token) => Err(format!("an attempt of it runs, under token {token}")),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    fn begin(&mut self, event: &Event) -> Result<(), String> {
        let (token, before) = (event.fencing_token, self.running.len());
        if token <= self.last {
            return Err(format!("its token is not above the last token, {}", self.last));
        }
        self.last = token;
        if self.unseen_below == u64::MAX {
            self.unseen_below = token;
        }
        let known = self.tokens.insert(task(event), token);
        self.running.insert(token, task(event));
        self.begun += 1;
        self.most = self.most.max(self.running.len());
        let capacity = event.capacity.ok_or("it carries no capacity")?;
        self.capacity = self.capacity.max(capacity);
        if before >= capacity as usize {
            return Err(format!("THE CAP WAS EXCEEDED: {before} ran already, of {capacity}"));
        }
        match known {
            Some(other) => Err(format!("it runs already, under token {other}")),
            None => Ok(()),
        }
    }

    fn renew(&mut self, event: &Event) -> Result<(), String> {
        if let Some(ended) = self.ended.get(&event.fencing_token) {
            return Err(format!(
                "its admission ended with {} at cursor {}",
                ended.by, ended.cursor
            ));
        }
        if !self.running.contains_key(&event.fencing_token) {
            self.unseen(event)?;
            self.running.insert(event.fencing_token, task(event));
            self.tokens.insert(task(event), event.fencing_token);
        }
        self.is_of(event)
    }

    fn end(&mut self, event: &Event) -> Result<(), String> {
        let token = event.fencing_token;
        let is_result = matches!(event.kind, Kind::Completed | Kind::Late);
        if let Some(ended) = self.ended.get_mut(&token) {
            let is_late = event.kind == Kind::Late && !ended.has_result;
            ended.has_result |= is_result;
            return if is_late {
                Ok(())
            } else {
                Err(format!("its admission ended with {} at cursor {}", ended.by, ended.cursor))
            };
        }
        let known = self.running.contains_key(&token);
        let of = if known { self.is_of(event) } else { self.unseen(event) };
        if let Some(task) = self.running.remove(&token) {
            self.tokens.remove(&task);
        }
        let ended = Ended { by: event.kind, cursor: event.cursor, has_result: is_result };
        self.ended.insert(token, ended);
        let kinds = [Kind::Completed, Kind::Late, Kind::Expired, Kind::Evicted];
        for (count, _) in self.ends.iter_mut().zip(kinds).filter(|(_, kind)| *kind == event.kind) {
            *count += 1;
        }
        of
    }

    /// Fails unless the admission may have begun unseen.
    fn unseen(&self, event: &Event) -> Result<(), String> {
        if event.fencing_token < self.unseen_below {
            Ok(())
        } else {
            Err("its token was never ADMITTED".to_owned())
        }
    }

    /// Fails unless the event names the task of the running admission.
    fn is_of(&self, event: &Event) -> Result<(), String> {
        match self.running.get(&event.fencing_token) {
            Some((device, name)) if *device != event.device_id || *name != event.task_id => {
                Err(format!("its token was granted to {device}/{name}"))
            }
            _ => Ok(()),
        }
    }
}

fn task(event: &Event) -> Task {
    (event.device_id.clone(), event.task_id.clone())
}
