//! The limits of an engine on the resources that callers and each namespace can use.
//!
//! The code that enforces a limit records in [`ReachedLimit`] each time the limit rejects or ends
//! something. [`report`] logs the counters that have increased, at most once per `REPORT_EVERY`, so
//! that a flood of rejected calls costs one log line. `docs/limits.md` lists every limit with its
//! default, its configuration key and its error.

mod callers;
mod namespace_limits;
mod namespaces;
mod places;
mod refused;
mod refused_calls;
mod tally;
mod usage;

use std::{collections::HashMap, time::Duration};

use tokio::time::sleep;

pub use callers::CallerLimits;
pub use namespace_limits::{NamespaceLimits, NamespaceRule};
pub use namespaces::{Held, NamespaceBudget, NamespaceUse};
pub use places::{Place, Places};
pub use refused::RefusedByLimit;
pub use refused_calls::REFUSED_SERIES_MAX;
pub use tally::{Added, Total};
pub(crate) use tollgate_telemetry::limits::ReachedLimit;
pub use usage::{LimitUsage, NamespaceUsage};

use tollgate_core::error::Error;
use tollgate_telemetry::limits::ReachedLimits;

/// Minimum time between two log lines about limits.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// Returns the error for a call that this limit rejects, and counts it.
pub fn overloaded(limit: ReachedLimit) -> Error {
    limit.record();
    Error::Overloaded
}

/// Logs the limits that were reached since the last log line, and the namespaces that reached
/// theirs. Never completes.
pub async fn report(namespaces: &NamespaceBudget) {
    let (mut reported, mut reported_namespaces) = (ReachedLimits::default(), HashMap::new());
    loop {
        sleep(REPORT_EVERY).await;
        if let Some(line) = reported.line() {
            let namespaces = namespaces.refused_line(&mut reported_namespaces);
            tracing::warn!(reached = line, namespaces, "limits were reached");
        }
    }
}
