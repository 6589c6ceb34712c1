//! Pools: a list sorted by occupancy or name, filtered by prefix.

use askama::Template;
use tollgate_client::pb::{
    ListPoolsRequest, Pool, admission_service_client::AdmissionServiceClient,
};

use crate::{
    format::{count, percent},
    page::{ConsolePage, Problem},
    pool_history::PoolStep,
    visit::{Visit, encoded, stored},
};

/// Number of pools on a page.
const PAGE: usize = 100;
/// Maximum number of pools that a page reads.
const READ_MAX: usize = 5_000;
/// Number of pools per call.
const CALL: u32 = 1_000;

/// A row of the list.
#[derive(Debug, Clone)]
pub(super) struct ListedPool {
    pub(super) name: String,
    /// The name in a URL.
    pub(super) link: String,
    pub(super) in_use: u32,
    pub(super) capacity: u32,
    pub(super) percent: u64,
    pub(super) waiters: u32,
    pub(super) queued: String,
    pub(super) refused: String,
    /// `paused`, `on hold`, `full`, `over capacity` or empty.
    pub(super) state: &'static str,
    pub(super) is_readable: bool,
}

/// The pools of a namespace.
#[derive(Debug, Default)]
pub(super) struct ListedPools {
    pub(super) rows: Vec<ListedPool>,
    /// Whether there are more pools than a page reads.
    pub(super) is_cut: bool,
}

/// Returns the state of a pool in a few words; empty if it has free slots.
pub(super) fn state(pool: &Pool) -> &'static str {
    let (config, usage) = (pool.config.as_ref(), pool.usage.as_ref());
    match (config, usage) {
        _ if pool.hold_end_time.is_some() => "on hold",
        (Some(config), _) if config.paused => "paused",
        (_, Some(usage)) if usage.over_by > 0 => "over capacity",
        (_, Some(usage)) if usage.available == 0 => "full",
        _ => "",
    }
}

impl ListedPool {
    fn new(pool: &Pool) -> ListedPool {
        let usage = pool.usage.unwrap_or_default();
        ListedPool {
            name: pool.pool.clone(),
            link: encoded(&pool.pool),
            in_use: usage.in_use,
            capacity: usage.capacity,
            percent: percent(usage.in_use.into(), usage.capacity.into()),
            waiters: pool.waiters,
            queued: count(pool.queued),
            refused: count(pool.refused),
            state: state(pool),
            is_readable: pool.usage.is_some(),
        }
    }
}

/// Loads the pools whose names begin with a prefix, the fullest first, and records their usage.
pub(super) async fn load_rows(visit: &Visit, prefix: &str) -> Result<ListedPools, Problem> {
    let (mut all, mut read, mut token) = (ListedPools::default(), 0, String::new());
    let (namespace, holder) = (visit.permitted("AdmissionService/ListPools"), visit.holder());
    let note = |pool: &str, step| {
        let name = namespace.as_ref().and_then(|namespace| stored(pool, namespace));
        name.into_iter().for_each(|name| visit.pools().record(&holder, &name, step));
    };
    loop {
        let request = ListPoolsRequest { page_size: Some(CALL), page_token: token };
        let page =
            visit.client(AdmissionServiceClient::new).list_pools(request).await?.into_inner();
        read += page.pools.len();
        for pool in page.pools.iter().filter(|pool| pool.pool.starts_with(prefix)) {
            if let Some(usage) = pool.usage {
                let step = PoolStep::new(usage.in_use, usage.capacity, pool.waiters);
                note(&pool.pool, step);
            }
            all.rows.push(ListedPool::new(pool));
        }
        token = page.next_page_token;
        all.is_cut = !token.is_empty();
        if token.is_empty() || read >= READ_MAX {
            break;
        }
    }
    let fullness = |row: &ListedPool| (row.percent, u64::from(row.in_use), u64::from(row.waiters));
    all.rows.sort_by(|one, other| {
        fullness(other).cmp(&fullness(one)).then_with(|| one.name.cmp(&other.name))
    });
    Ok(all)
}

#[derive(Template)]
#[template(path = "pools_filter.html")]
struct FilterTemplate<'a> {
    prefix: &'a str,
    is_by_name: bool,
}

#[derive(Template)]
#[template(path = "pools_list.html")]
struct ListTemplate<'a> {
    rows: &'a [ListedPool],
    all: String,
    is_cut: bool,
    /// The number of the page, from 1, and of the last one.
    page: usize,
    last: usize,
    /// The query without the page.
    query: String,
}

/// Loads the page.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let query = visit.query();
    let (prefix, is_by_name) = (query.get("prefix"), query.get("sort") == "name");
    let page = ConsolePage::new("Pools").fixed("filter", &FilterTemplate { prefix, is_by_name })?;
    let ListedPools { mut rows, is_cut } = match load_rows(visit, prefix).await {
        Err(Problem::Store(why)) => return Ok(page.lacking(why)),
        rows => rows?,
    };
    if is_by_name {
        rows.sort_by(|one, other| one.name.cmp(&other.name));
    }
    let last = rows.len().div_ceil(PAGE).max(1);
    let number = query.number("page").unwrap_or(1).clamp(1, last);
    let all = count(rows.len() as u64);
    let shown = rows.iter().skip((number - 1) * PAGE).take(PAGE).cloned().collect::<Vec<_>>();
    let sort = if is_by_name { "&sort=name" } else { "" };
    let query = format!("prefix={}{sort}", encoded(prefix));
    page.live("pools", &ListTemplate { rows: &shown, all, is_cut, page: number, last, query })
}
