//! A watcher of a pool's events.

use std::collections::BTreeSet;

use tollgate_core::{
    admission::{Event, EventKind},
    collections::EventPage,
};

use crate::capability::{Checked, holds};

/// The knowledge of a watcher that reads all events.
#[derive(Debug, Clone, Default)]
pub struct Follower {
    /// The number of the last event.
    pub cursor: u64,
    /// Tokens of leases that hold a slot.
    held: BTreeSet<u64>,
    last_token: u64,
    last_time: u64,
}

impl Follower {
    pub fn follow(&mut self, after: u64, page: &EventPage<Event>) -> Checked {
        if after != self.cursor {
            // The watcher has read further since then.
            return Ok(());
        }
        if page.gap {
            holds(page.after != self.cursor, "a GAP only if events are missing")?;
            self.held.clear();
        } else {
            holds(after == 0 || page.after == after, "no missing events without a GAP")?;
        }
        self.cursor = page.after;
        for event in &page.events {
            self.cursor += 1;
            holds(event.time.0 >= self.last_time, "events in the order of their time")?;
            self.last_time = event.time.0;
            self.apply(event)?;
        }
        holds(self.cursor <= page.last, "event numbers rise by one")
    }

    fn apply(&mut self, event: &Event) -> Checked {
        match event.kind {
            EventKind::Admitted => {
                holds(event.token > self.last_token, "tokens of ADMITTED events grow")?;
                self.last_token = event.token;
                self.held.insert(event.token);
                let capacity = event.capacity.ok_or("an ADMITTED event has the capacity")?;
                holds(self.held.len() <= capacity as usize, "never more in use than the capacity")
            }
            EventKind::Completed | EventKind::Late | EventKind::Expired | EventKind::Evicted => {
                self.held.remove(&event.token);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
