//! The rules of tasks: each is queued once, its attempts rise by one, and it is not dispatched
//! after its end.

use std::collections::HashMap;

use super::event::{Event, Kind, Outcome};

/// The shortest retention, in µs. An ended task is remembered for at least this time; later its
/// name may be used again.
const REMEMBERED: u64 = 60_000_000;

/// All tasks of a record, by device and name.
#[derive(Debug)]
pub struct Tasks {
    tasks: HashMap<(String, String), Task>,
    /// Whether the record must have the first event of each task.
    whole: bool,
    /// Number of gaps so far.
    gaps: u32,
    max_attempts: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Task {
    queued: bool,
    /// The attempt of the last ADMITTED.
    attempt: u32,
    /// The event that ended the task, and its cursor.
    over: Option<(Kind, u64)>,
    /// The time of the last event, in µs.
    last: u64,
    /// Number of gaps before that event.
    gaps: u32,
}

impl Tasks {
    /// For a record that begins with the pool's first event, or with any event.
    pub fn new(from_start: bool, max_attempts: Option<u32>) -> Tasks {
        Tasks { tasks: HashMap::new(), whole: from_start, gaps: 0, max_attempts }
    }

    /// Events are missing.
    pub fn gap(&mut self) {
        self.whole = false;
        self.gaps += 1;
    }

    /// Returns the number of queued tasks that ended with this kind; with `None`, of those without
    /// an end.
    pub fn count(&self, kind: Option<Kind>) -> usize {
        let queued = self.tasks.values().filter(|task| task.queued);
        queued.filter(|task| task.over.map(|(kind, _)| kind) == kind).count()
    }

    /// Checks an event. Fails with the rule that it breaks.
    pub fn see(&mut self, event: &Event) -> Result<(), String> {
        if event.task_id.is_empty() {
            return Ok(());
        }
        let key = (event.device_id.clone(), event.task_id.clone());
        let now = event.event_time.unwrap_or(0);
        let known = self.tasks.get(&key).copied();
        // With a token, a dead task is queued again, at any time of its retention.
        let again = event.kind == Kind::Enqueued && event.fencing_token > 0;
        let is_remembered = |task: &Task| task.over.is_none() || now < task.last + REMEMBERED;
        let known = known.filter(|task| again || is_remembered(task));
        let mut task = known.unwrap_or_default();
        let missed = self.gaps > task.gaps;
        (task.last, task.gaps) = (now, self.gaps);
        let ruling = match event.kind {
            Kind::Enqueued if again => {
                let over = task.over.take();
                (task.queued, task.attempt) = (true, 0);
                match over {
                    Some((Kind::Dead, _)) => Ok(()),
                    _ if missed || !self.whole && known.is_none() => Ok(()),
                    _ => Err("it was not dead".to_owned()),
                }
            }
            Kind::Enqueued => {
                let before = known.filter(|known| known.queued && !missed);
                task = Task { queued: true, last: now, gaps: self.gaps, ..Task::default() };
                before.map_or(Ok(()), |_| Err("it was queued before".to_owned()))
            }
            Kind::Admitted => self.dispatch(&mut task, event, missed),
            Kind::Completed | Kind::Late => {
                // A failed attempt of a queued task may be followed by another one.
                if event.attempt == 0 || event.outcome == Outcome::Succeeded {
                    task.over = Some((Kind::Completed, event.cursor));
                }
                Ok(())
            }
            Kind::Cancelled => self.leave(&mut task, event, &[Kind::Dead, Kind::Expired]),
            Kind::Dead => self.leave(&mut task, event, &[]),
            Kind::Expired if event.fencing_token == 0 => self.leave(&mut task, event, &[]),
            _ => Ok(()),
        };
        self.tasks.insert(key, task);
        ruling
    }

    fn dispatch(&self, task: &mut Task, event: &Event, missed: bool) -> Result<(), String> {
        let before = std::mem::replace(&mut task.attempt, event.attempt);
        if let Some((kind, cursor)) = task.over {
            return Err(format!("it was over with {kind} at cursor {cursor}"));
        }
        if event.attempt == 0 {
            return if task.queued && !missed {
                Err("it was queued, but the event has no attempt".to_owned())
            } else {
                Ok(())
            };
        }
        if !task.queued && self.whole {
            return Err("it was never queued".to_owned());
        }
        let unknown = !task.queued || missed;
        task.queued = true;
        if let Some(most) = self.max_attempts.filter(|most| event.attempt > *most) {
            return Err(format!("more than {most} attempts"));
        }
        if event.attempt == before + 1 || unknown && event.attempt > before {
            Ok(())
        } else {
            Err(format!("the attempt before was {before}"))
        }
    }

    /// Ends a queued task, which happens once. `after` lists the earlier ends that this one may
    /// follow.
    fn leave(&self, task: &mut Task, event: &Event, after: &[Kind]) -> Result<(), String> {
        let before = task.over.replace((event.kind, event.cursor));
        if let Some((kind, cursor)) = before.filter(|(kind, _)| !after.contains(kind)) {
            return Err(format!("it was over with {kind} at cursor {cursor}"));
        }
        if std::mem::replace(&mut task.queued, true) || !self.whole {
            Ok(())
        } else {
            Err("it was never queued".to_owned())
        }
    }
}
