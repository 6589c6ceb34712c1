//! The table of all metrics: names, types, labels and help texts. The page is built from it, and tests
//! compare docs/metrics.md with it.

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows, and starts at 0 with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size.
    Histogram,
    /// Always 1, with labels that describe the process.
    Info,
}

impl MetricKind {
    /// Returns the name of the type in the text format.
    pub const fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Info => "info",
        }
    }

    /// Returns the suffix that the text format adds to the name of the family.
    pub const fn suffix(self) -> &'static str {
        match self {
            MetricKind::Counter => "_total",
            MetricKind::Info => "_info",
            MetricKind::Gauge | MetricKind::Histogram => "",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name, with its suffix.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// What it counts or measures.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(super) const $constant: Metric = Metric {
                name: $name,
                kind: MetricKind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*

        /// All metrics, in the order of the page.
        pub const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    CALLS_STARTED = Counter "grpc_server_started_total"
        ["grpc_type", "grpc_service", "grpc_method"]
        "Calls whose headers were read.";
    CALLS_HANDLED = Counter "grpc_server_handled_total"
        ["grpc_type", "grpc_service", "grpc_method", "grpc_code"]
        "Calls that ended, by status code; Canceled if the client ended the call.";
    CALL_SECONDS = Histogram "grpc_server_handling_seconds"
        ["grpc_type", "grpc_service", "grpc_method"]
        "Time of a call from its headers to its status.";
    DECISIONS = Counter "tollgate_decisions_total" ["capability", "verb", "outcome"]
        "Answered decisions by outcome; a call that waits counts once.";
    DENIAL_CACHE_ANSWERS = Counter "tollgate_denial_cache_answers_total" []
        "Refusals that the denial cache repeated without asking Redis.";
    FALLBACK_ANSWERS = Counter "tollgate_fallback_answers_total" ["answer"]
        "Answers while Redis was unreachable: refused, or decided within this server's share.";
    ENVOY_HITS = Counter "tollgate_envoy_hits_total" ["domain", "rule", "result"]
        "Hits of a rule of Envoy's rate limit service, in total and by result; 1,000 rules have \
         series, all others are the rule other.";
    ENVOY_UNKNOWN_DOMAINS = Counter "tollgate_envoy_unknown_domains_total" []
        "Requests of Envoy whose domain has no rules: they pass.";
    WAITERS = Gauge "tollgate_waiters" [] "Calls that wait for a slot or a lock.";
    WATCHERS = Gauge "tollgate_watchers" [] "Streams of events.";
    WAIT_SECONDS = Histogram "tollgate_wait_seconds" []
        "Time that calls with max_wait waited, whatever their outcome.";
    LEASES_EXPIRED = Counter "tollgate_leases_expired_total" []
        "Leases of pools that expired, even if a late result followed; counted when a decision or \
         a sweep of this server has written the expiry.";
    LATE_RESULTS = Counter "tollgate_late_results_total" []
        "Results of tasks whose lease had ended.";
    STORE_UP = Gauge "tollgate_store_up" []
        "1 if the store answers and accepts writes, else 0.";
    STORE_LOST = Gauge "tollgate_store_lost" []
        "1 if the store has lost its data and no operator has accepted the loss, else 0.";
    STORE_ROUND_TRIP_SECONDS = Histogram "tollgate_store_round_trip_seconds" []
        "Time of a round trip to Redis.";
    STORE_BATCH_SIZE = Histogram "tollgate_store_batch_size" []
        "Decisions of a round trip to Redis.";
    STORE_ERRORS = Counter "tollgate_store_errors_total" ["kind"]
        "Decisions that failed because of the store.";
    STORE_FAILOVERS = Counter "tollgate_store_failovers_total" []
        "Changes or restarts of the Redis primary.";
    DATA_SYNC_SECONDS = Histogram "tollgate_data_sync_seconds" []
        "Time of a synced write to the data directory.";
    DATA_BYTES = Gauge "tollgate_data_bytes" [] "Size of the data directory's file.";
    DATA_JOURNAL_WAITING = Gauge "tollgate_data_journal_waiting" []
        "Changes that wait for the disk.";
    LIMITS_REACHED = Counter "tollgate_limits_reached_total" ["limit"]
        "How often a limit refused or ended something; docs/limits.md lists the limits.";
    NAMESPACE_REFUSED = Counter "tollgate_namespace_refused_total" ["namespace", "limit"]
        "Calls that a limit of their namespace refused; 1,000 namespaces have series, all others are the namespace other.";
    MEMORY_BYTES = Gauge "tollgate_memory_bytes" [] "Resident memory of the process.";
    MEMORY_MAX_BYTES = Gauge "tollgate_memory_max_bytes" [] "The value of memory_max, if it is set.";
    CONNECTIONS = Gauge "tollgate_connections" [] "Open gRPC connections.";
    OPEN_FILES = Gauge "process_open_fds" [] "Open file descriptors of the process.";
    OPEN_FILES_MAX = Gauge "process_max_fds" []
        "Maximum number of open file descriptors; each connection needs one.";
    TLS_EXPIRY = Gauge "tollgate_tls_certificate_expiry_timestamp_seconds" []
        "When the server's certificate expires, in seconds since the Unix epoch.";
    BUILD = Info "tollgate_build_info" ["version"] "The version of the program.";
    CONFIG_SUCCESS = Gauge "tollgate_config_last_reload_success" []
        "1 if the last load of the configuration succeeded, else 0.";
    CONFIG_TIME = Gauge "tollgate_config_last_reload_timestamp_seconds" []
        "When the configuration in use was loaded, in seconds since the Unix epoch.";
    CONFIG = Info "tollgate_config_info" ["hash"]
        "The hash of the configuration in use, without the keys of one server.";
    POOL_IN_USE = Gauge "tollgate_pool_in_use" ["namespace", "pool"] "Slots of a pool that are in \
        use.";
    POOL_CAPACITY = Gauge "tollgate_pool_capacity" ["namespace", "pool"] "Slots of a pool.";
    POOL_QUEUED = Gauge "tollgate_pool_queued" ["namespace", "pool"] "Queued tasks of a pool.";
    POOL_REFUSED = Counter "tollgate_pool_refused_total" ["namespace", "pool"]
        "AdmitTask calls that this server answered FULL.";
    DROPPED_SERIES = Gauge "tollgate_metrics_dropped_series" []
        "Pools that match [metrics] pools and have no series, because 1,000 have them.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_end_as_their_type_demands() {
        for (index, metric) in METRICS.iter().enumerate() {
            assert!(metric.name.ends_with(metric.kind.suffix()), "{}", metric.name);
            assert!(METRICS[..index].iter().all(|other| other.name != metric.name));
            assert!(metric.help.ends_with('.'), "{}", metric.name);
        }
    }
}
