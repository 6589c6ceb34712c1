//! CheckRates: all checks pass.

use std::ops::Range;

use tollgate_client::pb::{self, RateVerdict, check_rate_request::Against};

use crate::{
    keys::{Keys, name},
    site::Site,
};

/// The checks of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) policy: &'static str,
    /// Whether each check has a new request_id.
    pub(crate) has_request_ids: bool,
}

pub(crate) async fn check(site: &Site, check: Check, keys: Keys, decisions: Range<u64>) {
    let checks: Vec<_> = decisions
        .map(|decision| pb::CheckRateRequest {
            key: name("key:", keys.number(decision)),
            against: Some(Against::Policy(check.policy.into())),
            request_id: if check.has_request_ids { name("ask:", decision) } else { String::new() },
            ..pb::CheckRateRequest::default()
        })
        .collect();
    let count = checks.len();
    let answer = site.rates.clone().check_rates(pb::CheckRatesRequest { checks }).await.unwrap();
    let results = answer.into_inner().results;
    assert_eq!(results.len(), count);
    for result in results {
        let is_first = !(result.replayed || result.cached || result.degraded);
        assert!(is_first && result.verdict() == RateVerdict::Allow, "{result:?}");
    }
}
