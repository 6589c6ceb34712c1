//! The state of the pools: collects news and computes the values to display.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    sync::Arc,
};

use tollgate_client::{PoolEvent, PoolEventKind, PoolState};

use super::rates::EventRate;
use tollgate_core::time::Timestamp;

/// Number of pools whose events are watched, in addition to the selected one.
const WATCHED_MAX: usize = 32;
/// Number of events that are stored for display.
const EVENTS_MAX: usize = 500;

/// The complete state of the display.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) server: String,
    rows: BTreeMap<Arc<str>, PoolRow>,
    /// Newest first.
    events: VecDeque<(Arc<str>, PoolEvent)>,
    /// The pools listed so far in the current pass.
    listed: HashSet<Arc<str>>,
    pub(super) selected: Option<Arc<str>>,
    /// The error while the server does not answer.
    pub(super) lost: Option<String>,
    /// The reason why the server has no event streams.
    pub(super) silent: Option<String>,
    /// Whether the server has more pools than it lists.
    pub(super) more: bool,
    /// The current time of the display.
    pub(super) now: Timestamp,
}

/// The state of one pool.
#[derive(Debug, Clone, Default)]
pub(super) struct PoolRow {
    pub(super) state: PoolState,
    /// The second in which watching its events began.
    watched: Option<u64>,
    /// The second in which counting its refusals began.
    since: u64,
    admitted: EventRate,
    late: EventRate,
    expired: EventRate,
    full: EventRate,
}

impl Model {
    /// Creates an empty model.
    pub(super) fn new(server: &str, now: Timestamp) -> Model {
        Model { server: server.to_owned(), now, ..Model::default() }
    }

    /// Updates the state of a pool.
    pub(super) fn state(&mut self, state: PoolState) {
        let (name, second): (Arc<str>, _) = (state.name.as_str().into(), self.second());
        self.listed.insert(name.clone());
        match self.rows.get_mut(&name) {
            Some(row) => {
                // A lower count means that another server answers, or that the server was
                // restarted.
                let refused = state.refused.saturating_sub(row.state.refused);
                row.full.add(refused, second);
                row.state = state;
            }
            None => {
                let row = PoolRow { state, since: second, ..PoolRow::default() };
                self.rows.insert(name, row);
            }
        }
    }

    /// Ends a pass over the list: removes the pools that were not listed.
    pub(super) fn listed(&mut self, more: bool) {
        self.more = more;
        let listed = std::mem::take(&mut self.listed);
        self.rows.retain(|name, _| listed.contains(name));
        if self.selected.as_ref().is_some_and(|selected| !self.rows.contains_key(selected)) {
            self.selected = None;
        }
    }

    /// Adds an event of a pool.
    pub(super) fn event(&mut self, pool: Arc<str>, event: PoolEvent) {
        let second = self.second();
        if let Some(row) = self.rows.get_mut(&pool) {
            match event.kind() {
                PoolEventKind::Admitted => row.admitted.add(1, second),
                PoolEventKind::Late => row.late.add(1, second),
                PoolEventKind::Expired => row.expired.add(1, second),
                _ => {}
            }
        }
        self.events.push_front((pool, event));
        self.events.truncate(EVENTS_MAX);
    }

    /// Returns the pools whose events should be watched: the busiest ones and the selected one. A
    /// watched pool is replaced only by a pool that is at least 1.5 times as busy.
    pub(super) fn watch(&mut self) -> Vec<Arc<str>> {
        let busy = |row: &PoolRow| {
            let state = &row.state;
            let much = u64::from(state.in_use) + state.queued + u64::from(state.waiters);
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

    /// Returns the pools, the fullest first.
    pub(super) fn rows(&self) -> Vec<&PoolRow> {
        let mut rows: Vec<&PoolRow> = self.rows.values().collect();
        let key = |row: &PoolRow| (row.state.in_use, row.state.queued, row.state.waiters);
        rows.sort_by_key(|row| std::cmp::Reverse(key(row)));
        rows
    }

    /// Returns the latest events of the selected pool, or of all pools; the newest first.
    pub(super) fn events(&self) -> impl Iterator<Item = &(Arc<str>, PoolEvent)> {
        let selected = self.selected.clone();
        let shown = move |pool: &Arc<str>| selected.as_ref().is_none_or(|it| it == pool);
        self.events.iter().filter(move |(pool, _)| shown(pool))
    }

    /// Returns how many tasks of a pool were admitted, refused as FULL, late and expired per
    /// second; `None` if unknown because the pool is not watched.
    pub(super) fn rates(&self, row: &PoolRow) -> [Option<f64>; 4] {
        let second = self.second();
        let watched = |rate: &EventRate| row.watched.map(|since| rate.per_second(second, since));
        let full = row.full.per_second(second, row.since);
        [watched(&row.admitted), Some(full), watched(&row.late), watched(&row.expired)]
    }

    /// Moves the selection by `down` rows; selects the first row if there is no selection.
    pub(super) fn select(&mut self, down: isize) {
        let rows = self.rows();
        let name = |row: &&PoolRow| Arc::<str>::from(row.state.name.as_str());
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

    fn state(name: &str, in_use: u32, refused: u64) -> PoolState {
        let name = name.to_owned();
        PoolState { name, capacity: 60, in_use, refused, ..PoolState::default() }
    }

    fn names(model: &Model) -> Vec<&str> {
        model.rows().iter().map(|row| row.state.name.as_str()).collect()
    }

    #[test]
    fn pools_come_and_go_with_the_list() {
        let mut model = Model::default();
        for (name, in_use) in [("a", 1), ("b", 3), ("c", 2)] {
            model.state(state(name, in_use, 0));
        }
        model.listed(false);
        assert_eq!(names(&model), ["b", "c", "a"]);
        model.select(1);
        model.select(1);
        assert_eq!(model.selected.as_deref(), Some("c"));
        model.select(-5);
        assert_eq!(model.selected.as_deref(), Some("b"));
        model.state(state("a", 1, 0));
        model.listed(false);
        assert_eq!(names(&model), ["a"]);
        assert_eq!(model.selected, None);
        model.select(9);
        assert_eq!(model.selected.as_deref(), Some("a"));
    }

    #[test]
    fn refusal_rates_come_from_increases_of_the_count() {
        let mut model = Model { now: Timestamp(10_000_000), ..Model::default() };
        for (second, refused) in [(10, 1000), (11, 1010), (12, 5), (13, 15), (14, 15)] {
            model.now = Timestamp(second * 1_000_000);
            model.state(state("a", 1, refused));
        }
        let [admitted, full, ..] = model.rates(model.rows()[0]);
        // 10 and 10 more in four seconds; the count before the restart is unknown.
        assert_eq!((full, admitted), (Some(5.0), None));
    }

    #[test]
    fn the_busiest_pools_and_the_selected_one_are_watched() {
        let mut model = Model::default();
        for number in 0..100u32 {
            model.state(state(&format!("pool-{number:02}"), number + 10, 0));
        }
        let watched = model.watch();
        assert_eq!((watched.len(), &*watched[0]), (32, "pool-68"));
        model.selected = Some("pool-00".into());
        assert_eq!(model.watch().len(), 33);
        model.selected = None;
        // Less than 1.5 times as busy as the watched pool.
        model.state(state("pool-67", 80, 0));
        assert!(!model.watch().contains(&"pool-67".into()));
        model.state(state("pool-67", 200, 0));
        assert!(model.watch().contains(&"pool-67".into()));
    }
}
