//! Time series of the pools that match `[metrics] pools`.
//!
//! A scrape reads the pools from the engine, so all servers on one Redis report the same values. It
//! reads at most [`SERIES_MAX`] pools, at most once per second. The console samples them for its
//! charts.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use super::{
    page::{Labels, MetricsPage, SeriesValue},
    table::{DROPPED_SERIES, POOL_CAPACITY, POOL_IN_USE, POOL_QUEUED, POOL_REFUSED},
};
use tollgate_core::{
    admission::{GetPool, PoolView, Settings},
    error::Error,
    globs::Globs,
    names::{Name, Namespace},
    time::monotonic,
};
use tollgate_engine::{Engine, PartitionCursor};

/// Maximum number of pools with series.
pub const SERIES_MAX: usize = 1000;
/// Maximum number of listed pools that a scrape visits; further ones have no series.
const VISITED_MAX: usize = 20_000;
/// Number of pools per page and per batch of views.
const PAGE: u32 = 250;
/// Time limit for the reads of a scrape.
const READ_MAX: Duration = Duration::from_secs(2);
/// Minimum time between two reads.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Returns the settings of a pool.
type SettingsOf = Box<dyn Fn(&Name) -> Settings + Send + Sync>;
/// Counts the FULL answers of a pool on this server.
type Refused = Box<dyn Fn(&Name) -> u64 + Send + Sync>;

/// The pools with series.
pub struct PoolMetrics {
    globs: Globs,
    namespaces: Vec<Namespace>,
    settings: SettingsOf,
    refused: Refused,
    last: Mutex<Option<(Instant, Arc<PoolSeries>)>>,
}

/// The pools that one read found.
#[derive(Debug, Default)]
pub struct PoolSeries {
    pools: Vec<(Name, PoolView)>,
    /// Matching pools above [`SERIES_MAX`].
    dropped: usize,
}

impl fmt::Debug for PoolMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolMetrics").field("namespaces", &self.namespaces).finish_non_exhaustive()
    }
}

impl PoolSeries {
    /// Returns the names and the states of the pools, at most [`SERIES_MAX`].
    pub fn pools(&self) -> &[(Name, PoolView)] {
        &self.pools
    }
}

impl PoolMetrics {
    /// Creates the series of the pools that match one of the globs, in the default namespace and in
    /// `namespaces`. Fails if a glob is invalid.
    pub fn new(
        globs: &[String],
        namespaces: &[Namespace],
        settings: SettingsOf,
        refused: Refused,
    ) -> Result<PoolMetrics, globset::Error> {
        let namespaces = match globs {
            [] => Vec::new(),
            _ => [Namespace::DEFAULT].into_iter().chain(namespaces.iter().cloned()).collect(),
        };
        let namespaces = without_repeats(namespaces);
        let (globs, last) = (Globs::new(globs.iter())?, Mutex::default());
        Ok(PoolMetrics { globs, namespaces, settings, refused, last })
    }

    /// Adds the series, unless the store is unreachable.
    pub(super) async fn add(&self, page: &mut MetricsPage, engine: &Engine) {
        let series = self.current(engine).await;
        let rows = |value: &dyn Fn(&Name, &PoolView) -> SeriesValue| -> Vec<(Labels, SeriesValue)> {
            let pools = series.pools.iter();
            pools.map(|(name, view)| (labels(name), value(name, view))).collect()
        };
        let gauge = |number: u64| SeriesValue::Gauge(number as f64);
        page.add(POOL_IN_USE, rows(&|_, view| gauge(view.usage.in_use.into())));
        page.add(POOL_CAPACITY, rows(&|_, view| gauge(view.usage.capacity.into())));
        page.add(POOL_QUEUED, rows(&|_, view| gauge(view.queued)));
        page.add(POOL_REFUSED, rows(&|name, _| SeriesValue::Count((self.refused)(name))));
        page.gauge(DROPPED_SERIES, series.dropped as f64);
    }

    /// Returns the series of the last read or of a new one. Only one scrape reads at a time.
    pub(crate) async fn current(&self, engine: &Engine) -> Arc<PoolSeries> {
        if self.namespaces.is_empty() {
            return Arc::default();
        }
        let mut last = self.last.lock().await;
        let now = monotonic();
        match &*last {
            Some((read, series)) if now < *read + READ_EVERY => series.clone(),
            _ => {
                let read = self.read(engine, now + READ_MAX).await;
                let series = Arc::new(read.unwrap_or_else(|error| {
                    tracing::debug!(%error, "cannot read the pools for the metrics");
                    PoolSeries::default()
                }));
                *last = Some((monotonic(), series.clone()));
                series
            }
        }
    }

    /// Reads the pools.
    async fn read(&self, engine: &Engine, deadline: Instant) -> Result<PoolSeries, Error> {
        let (mut series, mut visited) = (PoolSeries::default(), 0);
        for namespace in &self.namespaces {
            let mut after: Option<PartitionCursor> = None;
            loop {
                let page = engine
                    .partitions::<tollgate_core::admission::Pool>(namespace, PAGE, after, deadline);
                let page = page.await?;
                visited += page.names.len();
                let wanted = page.names.into_iter().filter(|it| self.globs.first(it).is_some());
                let mut wanted: Vec<Name> = wanted.collect();
                let room = SERIES_MAX - series.pools.len();
                series.dropped += wanted.len().saturating_sub(room);
                wanted.truncate(room);
                self.view(engine, wanted, deadline, &mut series).await?;
                after = page.next;
                if after.is_none() || visited >= VISITED_MAX {
                    break;
                }
            }
        }
        Ok(series)
    }

    /// Reads the views of pools, skipping those whose state cannot be read.
    async fn view(
        &self,
        engine: &Engine,
        pools: Vec<Name>,
        deadline: Instant,
        series: &mut PoolSeries,
    ) -> Result<(), Error> {
        if pools.is_empty() {
            return Ok(());
        }
        let get = |pool: Name| GetPool { settings: (self.settings)(&pool), pool };
        let reads: Vec<GetPool> = pools.into_iter().map(get).collect();
        let views = engine.store_all(&reads, deadline).await?;
        let views = reads.into_iter().zip(views);
        series.pools.extend(views.filter_map(|(get, view)| Some((get.pool, view.ok()?))));
        Ok(())
    }
}

fn without_repeats(namespaces: Vec<Namespace>) -> Vec<Namespace> {
    let mut kept: Vec<Namespace> = Vec::with_capacity(namespaces.len());
    for namespace in namespaces {
        if !kept.contains(&namespace) {
            kept.push(namespace);
        }
    }
    kept
}

fn labels(pool: &Name) -> Labels {
    let (namespace, _) = Namespace::split(pool.as_bytes());
    vec![String::from_utf8_lossy(namespace).into_owned().into(), pool.as_str().to_owned().into()]
}
