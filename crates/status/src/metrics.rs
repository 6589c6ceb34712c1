//! The metrics page: sums the cells of all threads, and reads gauges.
//!
//! Names follow the conventions of Prometheus; metrics of calls are named as in other gRPC servers.
//! Callers cannot choose the values of labels, except for the names of pools that match `[metrics]
//! pools` and of namespaces whose limits have rejected their calls.

mod exemplars;
mod page;
mod pools;
mod table;
mod totals;

use std::{fmt, sync::atomic::Ordering};

use tokio::task::spawn_blocking;

pub use page::CONTENT_TYPE;
pub use pools::{PoolMetrics, PoolSeries, SERIES_MAX};
pub use table::{METRICS, Metric, MetricKind};
pub use totals::{ProcessTotals, REFUSALS};

use page::{Labels, MetricsPage, SeriesValue};
use table as t;
use tollgate_core::{envoy, script};
use tollgate_engine::{CountedVerb, Engine, StoreLoss, StoreState, budget::RefusedByLimit};
use tollgate_telemetry::{
    limits,
    metrics::{
        CODE_NAMES, CellTotals, Durations, Exemplar, RpcLabels, Sizes, StoreFailure, configuration,
    },
};

/// What a scrape reads.
#[derive(Debug)]
pub struct Scrape<'a> {
    /// The engine of the server.
    pub engine: &'a Engine,
    /// All RPCs, in the order of their counters.
    pub rpcs: &'a [RpcLabels],
    /// The verbs whose outcomes are counted.
    pub verbs: &'a [CountedVerb],
    /// The number of open connections.
    pub connections: usize,
    /// The pools with series.
    pub pools: &'a PoolMetrics,
}

impl Scrape<'_> {
    /// Collects all metrics, as OpenMetrics text.
    pub async fn text(self) -> Result<String, fmt::Error> {
        let (mut page, totals) = (MetricsPage::default(), CellTotals::now());
        calls(&mut page, &totals, self.rpcs);
        decisions(&mut page, &totals, self.verbs);
        envoy_rules(&mut page);
        self.waiting(&mut page, &totals);
        self.store(&mut page, &totals);
        self.process(&mut page);
        configured(&mut page);
        self.pools.add(&mut page, self.engine).await;
        let rpcs = self.rpcs.iter().enumerate();
        let traced: Vec<_> =
            rpcs.filter_map(|(rpc, labels)| Some((*labels, Exemplar::lookup(rpc)?))).collect();
        let text = move || {
            let text = page.text()?;
            Ok(match &traced[..] {
                [] => text,
                traced => exemplars::add(&text, t::CALL_SECONDS.name, traced),
            })
        };
        // Yields, because building the text can take milliseconds and this thread accepts
        // connections.
        spawn_blocking(text).await.unwrap_or(Err(fmt::Error))
    }

    fn waiting(&self, page: &mut MetricsPage, totals: &CellTotals) {
        let hub = self.engine.hub();
        page.gauge(t::WAITERS, hub.calls() as f64);
        page.gauge(t::WATCHERS, hub.watching() as f64);
        let waits = Durations::total(&totals.each().map(|cells| &cells.waits));
        page.add_one(t::WAIT_SECONDS, SeriesValue::Histogram(waits));
    }

    fn store(&self, page: &mut MetricsPage, totals: &CellTotals) {
        let is_up = *self.engine.state().borrow() == StoreState::Up;
        page.gauge(t::STORE_UP, f64::from(u8::from(is_up)));
        let failures = StoreFailure::ALL.map(|(kind, name)| {
            let count = totals.sum(|cells| &cells.store_failures[kind as usize]);
            (vec![name.into()], SeriesValue::Count(count))
        });
        page.add(t::STORE_ERRORS, failures);
        if self.engine.is_remote() {
            let is_lost = self.engine.store_losses().iter().any(StoreLoss::is_open);
            page.gauge(t::STORE_LOST, f64::from(u8::from(is_lost)));
            let round_trips = Durations::total(&totals.each().map(|cells| &cells.round_trips));
            page.add_one(t::STORE_ROUND_TRIP_SECONDS, SeriesValue::Histogram(round_trips));
            let sizes = Sizes::total(&totals.each().map(|cells| &cells.batches));
            page.add_one(t::STORE_BATCH_SIZE, SeriesValue::Histogram(sizes));
            page.count(t::STORE_FAILOVERS, totals.sum(|cells| &cells.failovers));
        }
        if let Some((bytes, waiting)) = self.engine.data_usage() {
            let syncs = Durations::total(&totals.each().map(|cells| &cells.syncs));
            page.add_one(t::DATA_SYNC_SECONDS, SeriesValue::Histogram(syncs));
            page.gauge(t::DATA_BYTES, bytes as f64);
            page.gauge(t::DATA_JOURNAL_WAITING, waiting as f64);
        }
    }

    fn process(&self, page: &mut MetricsPage) {
        let limits = limits::counts().map(|(limit, count)| (one(limit), SeriesValue::Count(count)));
        page.add(t::LIMITS_REACHED, limits);
        let refused = self.engine.hub().namespaces().refused().into_iter();
        let refused = refused.map(|RefusedByLimit { namespace, limit, count }| {
            (vec![namespace.into(), limit.into()], SeriesValue::Count(count))
        });
        page.add(t::NAMESPACE_REFUSED, refused);
        if let Some(memory) = memory_stats::memory_stats() {
            page.gauge(t::MEMORY_BYTES, memory.physical_mem as f64);
        }
        if let Some(most) = self.engine.memory_max() {
            page.gauge(t::MEMORY_MAX_BYTES, most as f64);
        }
        page.gauge(t::CONNECTIONS, self.connections as f64);
        // Reading the folder itself opens one more.
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            page.gauge(t::OPEN_FILES, open.count().saturating_sub(1) as f64);
        }
        if let Ok((max, _)) = rlimit::Resource::NOFILE.get() {
            page.gauge(t::OPEN_FILES_MAX, max as f64);
        }
        if let Some(expiry) = configuration::certificate_expiry() {
            page.gauge(t::TLS_EXPIRY, expiry as f64);
        }
        page.add(t::BUILD, [(one(env!("CARGO_PKG_VERSION")), SeriesValue::Info)]);
    }
}

fn one(label: &'static str) -> Labels {
    vec![label.into()]
}

/// Adds the calls by RPC. An RPC without calls has only the counter of started calls.
fn calls(page: &mut MetricsPage, totals: &CellTotals, rpcs: &[RpcLabels]) {
    let labels = |rpc: &RpcLabels| -> Labels {
        vec![rpc.kind.into(), rpc.service.into(), rpc.method.into()]
    };
    let started = rpcs.iter().enumerate().map(|(rpc, names)| {
        (labels(names), SeriesValue::Count(totals.sum(|cells| &cells.calls[rpc].started)))
    });
    page.add(t::CALLS_STARTED, started);
    let mut handled = Vec::new();
    let mut seconds = Vec::new();
    for (rpc, names) in rpcs.iter().enumerate() {
        for (code, name) in CODE_NAMES.iter().enumerate() {
            let count = totals.sum(|cells| &cells.calls[rpc].handled[code]);
            if count > 0 {
                let mut labels = labels(names);
                labels.push((*name).into());
                handled.push((labels, SeriesValue::Count(count)));
            }
        }
        let durations = Durations::total(&totals.each().map(|cells| &cells.calls[rpc].durations));
        if durations.count > 0 {
            seconds.push((labels(names), SeriesValue::Histogram(durations)));
        }
    }
    page.add(t::CALLS_HANDLED, handled);
    page.add(t::CALL_SECONDS, seconds);
}

/// Adds the decisions by outcome, including zeros.
fn decisions(page: &mut MetricsPage, totals: &CellTotals, verbs: &[CountedVerb]) {
    let (mut rows, mut late) = (Vec::new(), 0);
    for verb in verbs {
        let (capability, name) = verb.script.name.split_once('/').unwrap_or_default();
        for (index, outcome) in verb.outcomes.iter().enumerate() {
            let count = totals.sum(|cells| &cells.decisions[verb.script.index][index]);
            if verb.script.index == script::admission::COMPLETE.index && *outcome == "late" {
                late = count;
            }
            rows.push((
                vec![capability.into(), name.into(), (*outcome).into()],
                SeriesValue::Count(count),
            ));
        }
    }
    page.add(t::DECISIONS, rows);
    page.count(t::DENIAL_CACHE_ANSWERS, totals.sum(|cells| &cells.cached));
    let refused = SeriesValue::Count(totals.sum(|cells| &cells.fallback_refusals));
    let shares = SeriesValue::Count(totals.sum(|cells| &cells.fallback_shares));
    page.add(t::FALLBACK_ANSWERS, [(one("refused"), refused), (one("share"), shares)]);
    page.count(t::LEASES_EXPIRED, totals.sum(|cells| &cells.expired_leases));
    page.count(t::LATE_RESULTS, late);
}

/// Adds the hits of the rules for Envoy's service.
fn envoy_rules(page: &mut MetricsPage) {
    let rules = envoy::series().into_iter().flat_map(|(domain, rule, counters)| {
        counters.values().map(|(result, count)| {
            let labels = vec![domain.clone().into(), rule.clone().into(), result.into()];
            (labels, SeriesValue::Count(count))
        })
    });
    page.add(t::ENVOY_HITS, rules);
    page.count(t::ENVOY_UNKNOWN_DOMAINS, envoy::NOT_FOUND.load(Ordering::Relaxed));
}

/// Adds the configuration in use.
fn configured(page: &mut MetricsPage) {
    let configuration = configuration::current();
    let is_success = configuration.failure.is_none();
    page.gauge(t::CONFIG_SUCCESS, f64::from(u8::from(is_success)));
    let loaded = configuration.loaded.map_or(0.0, |time| time as f64 / 1e6);
    page.gauge(t::CONFIG_TIME, loaded);
    page.add(t::CONFIG, [(vec![configuration.hash.into()], SeriesValue::Info)]);
}
