//! The rules of admissions: each has a slot, begins once and ends once.

use std::collections::HashMap;

use super::event::{Event, Kind};

/// All admissions that were seen, by token.
#[derive(Debug, Default)]
pub struct Admissions {
    running: HashMap<u64, Task>,
    /// Which token each task runs under.
    tokens: HashMap<Task, u64>,
    ended: HashMap<u64, Ended>,
    /// The newest token.
    last: u64,
    /// Admissions of lower tokens may have begun before the record, or in a gap of it.
    unseen_below: u64,
    /// The most that ran at once.
    pub most: usize,
    /// The highest capacity that an ADMITTED carried.
    pub capacity: u32,
    /// How many began.
    pub begun: u64,
    /// How many were ended by COMPLETED, LATE, EXPIRED and EVICTED.
    pub ends: [u64; 4],
}

/// Device and task.
type Task = (String, String);

#[derive(Debug, Clone, Copy)]
struct Ended {
    by: Kind,
    cursor: u64,
    /// Whether a result has come, in time or late.
    has_result: bool,
}

impl Admissions {
    /// Of a record that begins with the pool's first event, or somewhere.
    pub fn new(from_start: bool) -> Admissions {
        let unseen_below = if from_start { 0 } else { u64::MAX };
        Admissions { unseen_below, ..Admissions::default() }
    }

    /// How many run.
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Some of those that run, in words.
    pub fn some_running(&self) -> String {
        let mut tokens: Vec<_> = self.running.iter().collect();
        tokens.sort();
        let some = tokens.iter().take(5);
        let some = some.map(|(token, (device, task))| format!("{device}/{task} (token {token})"));
        some.collect::<Vec<_>>().join(", ")
    }

    /// Events are missing: whatever ran may have ended, and others may have begun.
    pub fn gap(&mut self) {
        self.running.clear();
        self.tokens.clear();
        self.unseen_below = u64::MAX;
    }

    /// What an event says against the rules.
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
            return Err(format!("its token is not above the last one, {}", self.last));
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

    /// Whether an admission may have begun without being seen.
    fn unseen(&self, event: &Event) -> Result<(), String> {
        match event.fencing_token < self.unseen_below {
            true => Ok(()),
            false => Err("its token was never ADMITTED".to_owned()),
        }
    }

    /// Whether the event's task is that of the running admission.
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
