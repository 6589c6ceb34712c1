//! Hits of rules, for the metrics.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;

/// Maximum number of rules with their own series. The hits of other rules are counted together, as
/// domain and rule `other`.
pub const SERIES_MAX: usize = 1000;

/// Requests of unknown domains.
pub static NOT_FOUND: AtomicU64 = AtomicU64::new(0);

/// The hits of a rule since the start of the process.
#[derive(Debug, Default)]
pub struct RuleCounters {
    total: AtomicU64,
    over: AtomicU64,
    near: AtomicU64,
    within: AtomicU64,
    shadow: AtomicU64,
}

/// The hits of a descriptor, and the count before them.
#[derive(Debug, Clone, Copy)]
pub struct RuleHits {
    /// The hits.
    pub hits: u64,
    /// The count before them.
    pub before: u64,
    /// The limit.
    pub limit: u64,
    /// The count above which hits are near the limit.
    pub near: u64,
    /// Whether the limit is exceeded.
    pub is_over: bool,
    /// Whether the hits were counted.
    pub is_counted: bool,
    /// Whether the rule is in shadow mode.
    pub is_shadow: bool,
}

/// The counters of each series with the length of its domain, by `DOMAIN.RULE`.
type AllSeries = BTreeMap<Box<str>, (usize, Arc<RuleCounters>)>;

static SERIES: LazyLock<Mutex<AllSeries>> = LazyLock::new(Mutex::default);
static OTHER: LazyLock<Arc<RuleCounters>> = LazyLock::new(Arc::default);

/// Domain, rule and counters of each series, and of `other` if some rules have no series.
pub fn series() -> Vec<(String, String, Arc<RuleCounters>)> {
    let series = SERIES.lock();
    let all = series.iter().map(|(key, (domain, counters))| {
        let rule = key.get(domain + 1..).unwrap_or_default();
        (key[..*domain].to_owned(), rule.to_owned(), counters.clone())
    });
    let mut all: Vec<_> = all.collect();
    if series.len() >= SERIES_MAX {
        all.push(("other".to_owned(), "other".to_owned(), OTHER.clone()));
    }
    all
}

impl RuleCounters {
    /// Returns the counters of a rule: `DOMAIN.RULE`, where the domain has `domain` bytes. A reload
    /// keeps them.
    pub(super) fn lookup(domain: usize, key: &str) -> Arc<RuleCounters> {
        let mut series = SERIES.lock();
        if let Some((_, counters)) = series.get(key) {
            return counters.clone();
        }
        if series.len() >= SERIES_MAX {
            return OTHER.clone();
        }
        series.entry(key.into()).or_insert_with(|| (domain, Arc::default())).1.clone()
    }

    /// Name and value of each counter.
    pub fn values(&self) -> [(&'static str, u64); 5] {
        [
            ("total", &self.total),
            ("over_limit", &self.over),
            ("near_limit", &self.near),
            ("within_limit", &self.within),
            ("shadow_mode", &self.shadow),
        ]
        .map(|(name, counter)| (name, counter.load(Ordering::Relaxed)))
    }

    /// Counts the hits of a descriptor in the categories of envoyproxy/ratelimit.
    pub fn record(&self, rule_hits: RuleHits) {
        let RuleHits { hits, before, limit, near, is_over, is_counted, is_shadow } = rule_hits;
        let add = |counter: &AtomicU64, hits: u64| {
            if hits > 0 {
                counter.fetch_add(hits, Ordering::Relaxed);
            }
        };
        let after = before.saturating_add(hits);
        add(&self.total, hits);
        if !is_over {
            add(&self.within, hits);
            if after > near {
                add(&self.near, if before >= near { hits } else { after - near });
            }
            return;
        }
        // Hits up to the limit were near it; only hits above exceed it. Hits that were not counted
        // were all refused.
        let over = if before >= limit || !is_counted { hits } else { after - limit };
        add(&self.over, over);
        if before < limit && is_counted {
            add(&self.near, limit - near.max(before).min(limit));
        }
        if is_shadow {
            add(&self.shadow, over);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_divided_at_the_limit_and_near_it() {
        let counted = |hits, before, is_counted, is_shadow| {
            let counters = RuleCounters::default();
            let is_over = before + hits > 10;
            let (limit, near) = (10, 8);
            let hits = RuleHits { hits, before, limit, near, is_over, is_counted, is_shadow };
            counters.record(hits);
            counters.values().map(|(_, value)| value)
        };
        let values =
            |hits: u64, after: u64, is_shadow| counted(hits, after - hits, true, is_shadow);
        assert_eq!(values(1, 5, false), [1, 0, 0, 1, 0]);
        assert_eq!(values(4, 10, false), [4, 0, 2, 4, 0]);
        assert_eq!(values(1, 10, false), [1, 0, 1, 1, 0]);
        assert_eq!(values(5, 13, false), [5, 3, 2, 0, 0]);
        assert_eq!(values(5, 20, true), [5, 5, 0, 0, 5]);
        assert_eq!(values(20, 20, true), [20, 10, 2, 0, 10]);
        // Refused without being counted.
        assert_eq!(counted(7, 9, false, false), [7, 7, 0, 0, 0]);
        assert_eq!(counted(7, 12, false, true), [7, 7, 0, 0, 7]);
    }
}
