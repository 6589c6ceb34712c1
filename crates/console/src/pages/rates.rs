//! Rates: the policies, their refusals, and a form to look up a key.

use askama::Template;
use tollgate_client::pb::{
    Algorithm, Limit, ListPoliciesRequest, Policy, Rule, Tier, TierAction,
    rate_service_client::RateServiceClient,
};

use crate::{
    format::{count, duration},
    page::{ConsolePage, Problem},
    visit::{Visit, encoded, stored},
};
use tollgate_telemetry::metrics::refusals::{self, RefusedChecks};

#[derive(Template)]
#[template(path = "rates_policies.html")]
struct PoliciesTemplate {
    rows: Vec<PolicyRow>,
}

struct PolicyRow {
    name: String,
    /// The name in a URL.
    link: String,
    limits: Vec<String>,
    tiers: Vec<String>,
    overrides: usize,
    refused: String,
    a_second: String,
}

#[derive(Template)]
#[template(path = "rates_lookup.html")]
struct LookupTemplate {
    names: Vec<String>,
}

/// Describes a limit: `100 per 1 min, sliding window`.
fn limit(limit: &Limit) -> String {
    let algorithm = match limit.algorithm() {
        Algorithm::FixedWindow => "fixed window",
        Algorithm::CalendarWindow => "calendar window",
        Algorithm::SlidingWindow | Algorithm::Unspecified => "sliding window",
        Algorithm::TokenBucket => "token bucket",
    };
    let name = if limit.name.is_empty() { String::new() } else { format!("{}: ", limit.name) };
    let max = count(limit.max.unwrap_or_default());
    let burst = limit.burst.map_or(String::new(), |burst| format!(", burst {}", count(burst)));
    format!("{name}{max} per {}, {algorithm}{burst}", duration(limit.window.as_ref()))
}

/// Describes a tier: `above 100: ban 1 min, 1 h`.
fn tier(tier: &Tier) -> String {
    let action = match tier.action() {
        TierAction::Warn => "warn".to_owned(),
        TierAction::Throttle => "throttle".to_owned(),
        TierAction::Ban | TierAction::Unspecified => {
            let lengths: Vec<_> =
                tier.ban_durations.iter().map(|length| duration(Some(length))).collect();
            format!("ban {}", lengths.join(", "))
        }
    };
    format!("above {}: {action}", count(tier.above.unwrap_or_default()))
}

/// Describes the limits and the tiers of a rule.
pub(super) fn in_words(rule: Option<&Rule>) -> (Vec<String>, Vec<String>) {
    let (limits, tiers) = rule.map_or((&[][..], &[][..]), |rule| (&rule.limits, &rule.tiers));
    (limits.iter().map(limit).collect(), tiers.iter().map(tier).collect())
}

/// Loads the policies that the visitor may read.
pub(super) async fn policies(visit: &Visit) -> Result<Vec<Policy>, Problem> {
    let mut rates = visit.client(RateServiceClient::new);
    Ok(rates.list_policies(ListPoliciesRequest {}).await?.into_inner().policies)
}

/// Returns the refusals by this server under a policy.
pub(super) fn refused(visit: &Visit, policy: &str) -> RefusedChecks {
    let namespace = visit.permitted("RateService/GetKey");
    let name = namespace.and_then(|namespace| stored(policy, &namespace));
    name.map_or_else(RefusedChecks::default, |name| refusals::lookup(name.as_bytes()))
}

/// Formats the refused checks per second over the last minute.
fn a_second(refused: u64) -> String {
    format!("{:.1}", refused as f64 / 60.0)
}

fn row(visit: &Visit, policy: Policy) -> PolicyRow {
    let (limits, tiers) = in_words(policy.rule.as_ref());
    let refused = refused(visit, &policy.name).count;
    PolicyRow {
        link: encoded(&policy.name),
        limits,
        tiers,
        overrides: policy.overrides.len(),
        refused: count(refused),
        a_second: a_second(refused),
        name: policy.name,
    }
}

/// Loads the page.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let policies = policies(visit).await?;
    let names = policies.iter().map(|policy| policy.name.clone()).collect();
    let rows = policies.into_iter().map(|policy| row(visit, policy)).collect();
    ConsolePage::new("Rates")
        .fixed("lookup", &LookupTemplate { names })?
        .live("policies", &PoliciesTemplate { rows })
}
