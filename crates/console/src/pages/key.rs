//! A key under a policy: its usage of each limit, its ban, and the actions of an operator.

use askama::Template;
use tollgate_client::pb::{
    GetKeyRequest, GetKeyResponse, ResetRateRequest, rate_service_client::RateServiceClient,
};

use super::policy;
use crate::{
    fields::FormFields,
    format::{Left, count, duration, of_wire, percent},
    page::{ConsolePage, Problem},
    visit::{Visit, encoded},
};

#[derive(Template)]
#[template(path = "key_usage.html")]
struct LimitsTemplate {
    rows: Vec<LimitRow>,
}

struct LimitRow {
    name: String,
    count: String,
    max: String,
    percent: u64,
    remaining: String,
    window: String,
    reset_after: String,
}

#[derive(Template)]
#[template(path = "key_ban.html")]
struct BanTemplate {
    key: String,
    policy: String,
    policy_link: String,
    state: GetKeyResponse,
    left: Option<Left>,
    may_ban: bool,
    may_lift: bool,
    may_reset: bool,
}

fn usage(state: &GetKeyResponse) -> LimitsTemplate {
    let rows = state.limits.iter().map(|limit| LimitRow {
        name: if limit.name.is_empty() { "default".to_owned() } else { limit.name.clone() },
        count: count(limit.count),
        max: count(limit.max),
        percent: percent(limit.count, limit.max),
        remaining: count(limit.remaining),
        window: duration(limit.window.as_ref()),
        reset_after: duration(limit.reset_after.as_ref()),
    });
    LimitsTemplate { rows: rows.collect() }
}

/// Loads the page.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let (key, policy) = (visit.name().to_owned(), visit.query().get("policy").to_owned());
    let request = GetKeyRequest { key: key.clone(), policy: policy.clone() };
    let state = visit.client(RateServiceClient::new).get_key(request).await?.into_inner();
    let until = state.ban.as_ref().and_then(|ban| of_wire(ban.until.as_ref()));
    let ban = BanTemplate {
        policy_link: encoded(&policy),
        left: until.map(|until| Left::new(until, visit.now())),
        may_ban: visit.may("RateService/Ban"),
        may_lift: visit.may("RateService/Unban"),
        may_reset: visit.may("RateService/ResetRate"),
        key,
        policy,
        state,
    };
    ConsolePage::new(visit.name()).live("limits", &usage(&ban.state))?.live("ban", &ban)
}

async fn reset(visit: &Visit, policy: &str) -> Result<String, Problem> {
    let key = visit.name().to_owned();
    let request = ResetRateRequest { key: key.clone(), policy: policy.to_owned() };
    let answer = visit.client(RateServiceClient::new).reset_rate(request).await?.into_inner();
    Ok(if answer.existed {
        format!("Reset the usage of {key}.")
    } else {
        format!("{key} has no usage.")
    })
}

/// Runs an action.
pub(super) async fn act(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    let policy = visit.query().get("policy");
    match form.get("action") {
        "ban" => policy::ban(visit, policy, form).await,
        "lift" => policy::lift(visit, policy, visit.name()).await,
        "reset" => reset(visit, policy).await,
        _ => Err(Problem::Invalid("no such action".to_owned())),
    }
}
