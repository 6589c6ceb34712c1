//! What is known of the pools. It is told what happens and asked what to show.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use super::rates::Rate;
use crate::{
    admission::{Event, EventKind},
    grpc::client::{PoolStanding, Told},
    time::Timestamp,
};

/// Pools of which events are watched, beside the one that is selected.
const WATCHED_MAX: usize = 32;
/// Events that are kept to be shown.
const EVENTS_MAX: usize = 500;

/// Everything that is known.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) server: String,
    rows: BTreeMap<Arc<str>, Row>,
    /// The newest first.
    events: VecDeque<(Arc<str>, Told<Event>)>,
    /// Pools that were listed since the list was begun.
    listed: HashSet<Arc<str>>,
    pub(super) selected: Option<Arc<str>>,
    /// Why the server is lost, when it is.
    pub(super) lost: Option<String>,
    /// Why it has no events, when it has none.
    pub(super) silent: Option<String>,
    /// Whether there are more pools than are listed.
    pub(super) more: bool,
    /// The time at which all of this is shown.
    pub(super) now: Timestamp,
}

/// A pool.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    pub(super) standing: PoolStanding,
    /// The second since when its events are watched.
    watched: Option<u64>,
    /// The second since when refusals are counted.
    since: u64,
    admitted: Rate,
    late: Rate,
    expired: Rate,
    full: Rate,
}

/// How often a second something happened; none when that is not known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    pub(super) admitted: Option<f64>,
    pub(super) full: Option<f64>,
    pub(super) late: Option<f64>,
    pub(super) expired: Option<f64>,
}

impl Model {
    /// Of a server of which nothing is known.
    pub(super) fn new(server: &str, now: Timestamp) -> Model {
        Model { server: server.to_owned(), now, ..Model::default() }
    }

    /// A pool was asked for.
    pub(super) fn standing(&mut self, standing: PoolStanding) {
        let (name, second): (Arc<str>, _) = (standing.name.as_str().into(), self.second());
        self.listed.insert(name.clone());
        match self.rows.get_mut(&name) {
            Some(row) => {
                // Fewer than before: another server answers, or it has started anew.
                let refused = standing.refused.saturating_sub(row.standing.refused);
                row.full.add(refused, second);
                row.standing = standing;
            }
            None => {
                let row = Row { standing, since: second, ..Row::default() };
                self.rows.insert(name, row);
            }
        }
    }

    /// The list of pools is at its end: those that were not on it are gone.
    pub(super) fn listed(&mut self, more: bool) {
        self.more = more;
        let listed = std::mem::take(&mut self.listed);
        self.rows.retain(|name, _| listed.contains(name));
        if self.selected.as_ref().is_some_and(|selected| !self.rows.contains_key(selected)) {
            self.selected = None;
        }
    }

    /// Something happened in a pool.
    pub(super) fn event(&mut self, pool: Arc<str>, told: Told<Event>) {
        let second = self.second();
        if let Some(row) = self.rows.get_mut(&pool) {
            match told.event.as_ref().map(|event| event.kind) {
                Some(EventKind::Admitted) => row.admitted.add(1, second),
                Some(EventKind::Late) => row.late.add(1, second),
                Some(EventKind::Expired) => row.expired.add(1, second),
                _ => {}
            }
        }
        self.events.push_front((pool, told));
        self.events.truncate(EVENTS_MAX);
    }

    /// The pools of which events are to be watched from now on: the busiest, of which one
    /// that is watched already gives way only to one that is busier by half.
    pub(super) fn watch(&mut self) -> Vec<Arc<str>> {
        let busy = |row: &Row| {
            let standing = &row.standing;
            let much = u64::from(standing.in_use) + standing.queued + u64::from(standing.waiters);
            if row.watched.is_some() { (much + 1) * 3 / 2 } else { much }
        };
        let mut pools: Vec<_> =
            self.rows.iter().map(|(name, row)| (busy(row), name.clone())).collect();
        pools.sort_by(|one, other| other.0.cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        pools.truncate(WATCHED_MAX);
        let mut watched: HashSet<Arc<str>> = pools.into_iter().map(|(_, name)| name).collect();
        watched.extend(self.selected.clone());
        let second = self.second();
        for (name, row) in &mut self.rows {
            row.watched = watched.contains(name).then(|| row.watched.unwrap_or(second));
        }
        let mut watched: Vec<Arc<str>> = watched.into_iter().collect();
        watched.sort();
        watched
    }

    /// The pools, the fullest first.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.values().collect();
        let key = |row: &Row| (row.standing.in_use, row.standing.queued, row.standing.waiters);
        rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
        rows
    }

    /// What happened last in the selected pool, or in all of them, the newest first.
    pub(super) fn events(&self) -> impl Iterator<Item = &(Arc<str>, Told<Event>)> {
        let selected = self.selected.clone();
        let shown = move |pool: &Arc<str>| selected.as_ref().is_none_or(|it| it == pool);
        self.events.iter().filter(move |(pool, _)| shown(pool))
    }

    /// How often things happen in a pool.
    pub(super) fn rates(&self, row: &Row) -> Rates {
        let second = self.second();
        let watched = |rate: &Rate| row.watched.map(|since| rate.per_second(second, since));
        Rates {
            admitted: watched(&row.admitted),
            full: Some(row.full.per_second(second, row.since)),
            late: watched(&row.late),
            expired: watched(&row.expired),
        }
    }

    /// Selects the pool so many rows further down; the first one when none was.
    pub(super) fn select(&mut self, down: isize) {
        let rows = self.rows();
        let name = |row: &&Row| Arc::<str>::from(row.standing.name.as_str());
        let names: Vec<Arc<str>> = rows.iter().map(name).collect();
        let at = names.iter().position(|name| Some(name) == self.selected.as_ref());
        let next = at.map_or(0, |at| at.saturating_add_signed(down));
        self.selected = names.get(next.min(names.len().saturating_sub(1))).cloned();
    }

    fn second(&self) -> u64 {
        self.now.0 / 1_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(name: &str, in_use: u32, refused: u64) -> PoolStanding {
        let name = name.to_owned();
        PoolStanding { name, capacity: 60, in_use, refused, ..PoolStanding::default() }
    }

    fn names(model: &Model) -> Vec<&str> {
        model.rows().iter().map(|row| row.standing.name.as_str()).collect()
    }

    #[test]
    fn pools_come_and_go_with_the_list() {
        let mut model = Model::default();
        for (name, in_use) in [("a", 1), ("b", 3), ("c", 2)] {
            model.standing(standing(name, in_use, 0));
        }
        model.listed(false);
        assert_eq!(names(&model), ["b", "c", "a"]);
        model.select(1);
        model.select(1);
        assert_eq!(model.selected.as_deref(), Some("c"));
        model.select(-5);
        assert_eq!(model.selected.as_deref(), Some("b"));
        model.standing(standing("a", 1, 0));
        model.listed(false);
        assert_eq!(names(&model), ["a"]);
        assert_eq!(model.selected, None);
        model.select(9);
        assert_eq!(model.selected.as_deref(), Some("a"));
    }

    #[test]
    fn refusals_are_told_by_what_the_count_gains() {
        let mut model = Model { now: Timestamp(10_000_000), ..Model::default() };
        for (second, refused) in [(10, 1000), (11, 1010), (12, 5), (13, 15), (14, 15)] {
            model.now = Timestamp(second * 1_000_000);
            model.standing(standing("a", 1, refused));
        }
        let rates = model.rates(model.rows()[0]);
        // 10 and 10 more in four seconds; what came before the restart is not known.
        assert_eq!((rates.full, rates.admitted), (Some(5.0), None));
    }

    #[test]
    fn the_busiest_are_watched_and_the_selected_one() {
        let mut model = Model::default();
        for number in 0..100u32 {
            model.standing(standing(&format!("pool-{number:02}"), number + 10, 0));
        }
        let watched = model.watch();
        assert_eq!((watched.len(), &*watched[0]), (32, "pool-68"));
        model.selected = Some("pool-00".into());
        assert_eq!(model.watch().len(), 33);
        model.selected = None;
        // Not much busier than one that is watched.
        model.standing(standing("pool-67", 80, 0));
        assert!(!model.watch().contains(&"pool-67".into()));
        model.standing(standing("pool-67", 200, 0));
        assert!(model.watch().contains(&"pool-67".into()));
    }
}
