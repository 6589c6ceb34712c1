//! A policy: its rules, the keys that it refuses most, and its bans.

use askama::Template;
use futures_util::future::join_all;
use tollgate_client::pb::{
    Ban, BanRequest, GetKeyRequest, ListBansRequest, UnbanRequest,
    rate_service_client::RateServiceClient,
};

use super::rates;
use crate::{
    fields::FormFields,
    format::{Left, count, of_wire},
    page::{ConsolePage, Problem},
    paging::Paging,
    visit::{Visit, encoded},
};

/// Number of bans on a page.
const PAGE: u32 = 50;
/// Number of refused keys in the list.
const KEYS: usize = 10;

#[derive(Template)]
#[template(path = "policy_rules.html")]
struct RulesTemplate {
    rows: Vec<RuleRow>,
}

struct RuleRow {
    /// The glob on keys; empty for the rule without an override.
    keys: String,
    limits: Vec<String>,
    tiers: Vec<String>,
}

#[derive(Template)]
#[template(path = "policy_refused.html")]
struct RefusedTemplate {
    policy: String,
    rows: Vec<RefusedRow>,
    refused: String,
}

struct RefusedRow {
    key: String,
    link: String,
    refused: String,
    is_banned: bool,
}

#[derive(Template)]
#[template(path = "policy_bans.html")]
struct BansTemplate {
    policy: String,
    rows: Vec<BanRow>,
    may_lift: bool,
    may_ban: bool,
    paging: Paging,
}

struct BanRow {
    ban: Ban,
    link: String,
    left: Option<Left>,
}

async fn rules(visit: &Visit) -> Result<RulesTemplate, Problem> {
    let policies = rates::policies(visit).await?;
    let policy = policies.into_iter().find(|policy| policy.name == visit.name());
    let policy = policy.ok_or_else(|| Problem::Absent("no such policy".to_owned()))?;
    let row = |keys: &str, rule| {
        let (limits, tiers) = rates::in_words(rule);
        RuleRow { keys: keys.to_owned(), limits, tiers }
    };
    let overrides = policy.overrides.iter().map(|one| row(&one.r#match, one.rule.as_ref()));
    let rows = overrides.chain([row("", policy.rule.as_ref())]).collect();
    Ok(RulesTemplate { rows })
}

/// Loads a refused key; `None` if the visitor may not read it.
async fn refused_row(
    visit: &Visit,
    key: &str,
    refused: u64,
) -> Result<Option<RefusedRow>, Problem> {
    let request = GetKeyRequest { key: key.to_owned(), policy: visit.name().to_owned() };
    let state = match visit.client(RateServiceClient::new).get_key(request).await {
        Ok(state) => state.into_inner(),
        Err(status) if status.code() == tonic::Code::PermissionDenied => return Ok(None),
        Err(status) => return Err(status.into()),
    };
    Ok(Some(RefusedRow {
        link: encoded(key),
        key: key.to_owned(),
        refused: count(refused),
        is_banned: state.ban.is_some(),
    }))
}

/// Loads the keys that were refused most, as far as the visitor may read them, all concurrently.
async fn refused(visit: &Visit) -> Result<RefusedTemplate, Problem> {
    let refused = rates::refused(visit, visit.name());
    let keys = refused.keys.iter().take(KEYS);
    let keys = keys.filter_map(|(key, number)| Some((std::str::from_utf8(key).ok()?, *number)));
    let rows = join_all(keys.map(|(key, number)| refused_row(visit, key, number))).await;
    let rows = rows.into_iter().filter_map(Result::transpose).collect::<Result<_, Problem>>()?;
    let policy = encoded(visit.name());
    Ok(RefusedTemplate { policy, rows, refused: count(refused.count) })
}

async fn bans(visit: &Visit) -> Result<BansTemplate, Problem> {
    let token = visit.query().get("bans");
    let request = ListBansRequest {
        policy: visit.name().to_owned(),
        page_size: Some(PAGE),
        page_token: token.to_owned(),
    };
    let page = visit.client(RateServiceClient::new).list_bans(request).await?.into_inner();
    let now = visit.now();
    let policy = encoded(visit.name());
    let rows = page.bans.into_iter().map(|ban| BanRow {
        link: encoded(&ban.key),
        left: of_wire(ban.until.as_ref()).map(|until| Left::new(until, now)),
        ban,
    });
    let url = |token: &str| match token {
        "" => format!("/policy?name={policy}#bans"),
        token => format!("/policy?name={policy}&bans={}#bans", encoded(token)),
    };
    let paging = Paging::new("bans", token, &page.next_page_token, url);
    Ok(BansTemplate {
        rows: rows.collect(),
        may_lift: visit.may("RateService/Unban"),
        may_ban: visit.may("RateService/Ban"),
        paging,
        policy,
    })
}

/// Loads the page.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let page = ConsolePage::new(visit.name()).fixed("rules", &rules(visit).await?)?;
    match (refused(visit).await, bans(visit).await) {
        (Err(Problem::Store(why)), _) | (_, Err(Problem::Store(why))) => Ok(page.lacking(why)),
        (refused, bans) => page.live("refused", &refused?)?.live("bans", &bans?),
    }
}

/// Bans a key.
pub(super) async fn ban(visit: &Visit, policy: &str, form: &FormFields) -> Result<String, Problem> {
    let (key, minutes) = (form.get("key"), form.number::<i64>("minutes")?);
    let seconds =
        minutes.checked_mul(60).ok_or_else(|| Problem::Invalid("minutes: too many".to_owned()))?;
    let request = BanRequest {
        key: key.to_owned(),
        policy: policy.to_owned(),
        duration: Some(prost_types::Duration { seconds, nanos: 0 }),
        reason: form.get("reason").to_owned(),
    };
    visit.client(RateServiceClient::new).ban(request).await?;
    Ok(format!("Banned {key} for {minutes} min."))
}

/// Lifts the ban of a key.
pub(super) async fn lift(visit: &Visit, policy: &str, key: &str) -> Result<String, Problem> {
    let request = UnbanRequest { key: key.to_owned(), policy: policy.to_owned() };
    let answer = visit.client(RateServiceClient::new).unban(request).await?.into_inner();
    if answer.existed {
        Ok(format!("Lifted the ban of {key}."))
    } else {
        Err(Problem::Invalid(format!("{key} is not banned.")))
    }
}

/// Runs an action.
pub(super) async fn act(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    match form.get("action") {
        "ban" => ban(visit, visit.name(), form).await,
        "lift" => lift(visit, visit.name(), form.get("key")).await,
        _ => Err(Problem::Invalid("no such action".to_owned())),
    }
}
