//! Overview: the store, the load of this server, the fullest pools.

use askama::Template;
use tollgate_client::pb::{
    ConfigurationStatus, GetStatusRequest, admin_service_client::AdminServiceClient,
};

use super::pools::{self, ListedPool, ListedPools};
use crate::{
    admin::{metrics::ProcessTotals, status::Status},
    console::{
        chart::{Chart, ChartLine},
        format::{Ago, Moment, count, of_wire},
        history::CallStep,
        page::{ConsolePage, Problem},
        visit::Visit,
    },
};

/// Pools in the list.
const POOLS: usize = 12;

#[derive(Template)]
#[template(path = "overview_store.html")]
struct StoreTemplate {
    status: Status,
    running: Ago,
    totals: Option<OverviewTotals>,
    /// The configured number of servers.
    replicas: u32,
}

/// The counters, with thousands separators.
struct OverviewTotals {
    failovers: String,
    store_failures: String,
    expired_leases: String,
    late_results: String,
    connections: usize,
}

#[derive(Template)]
#[template(path = "overview_load.html")]
struct LoadTemplate {
    chart: Chart,
}

#[derive(Template)]
#[template(path = "overview_pools.html")]
struct PoolsTemplate<'a> {
    rows: &'a [ListedPool],
    all: String,
}

#[derive(Template)]
#[template(path = "overview_config.html")]
struct ConfigTemplate {
    hash: String,
    loaded: Option<Moment>,
    loaded_ago: Option<Ago>,
    error: String,
    failed: Option<Moment>,
}

fn load_chart(steps: &[CallStep]) -> Chart {
    let line = |name, class, value: fn(&CallStep) -> f64| ChartLine {
        name,
        class,
        values: steps.iter().map(|step| Some(value(step))).collect(),
    };
    let lines = vec![
        line("calls", "one", |step| step.calls),
        line("refusals", "two", |step| step.refusals),
    ];
    Chart { title: "Calls and refusals per second, this server", lines }
}

fn store(visit: &Visit) -> StoreTemplate {
    let status = visit.server().status();
    let running = Ago::new(visit.server().start(), visit.now());
    let totals = visit.may_read_server().then(|| {
        let totals = ProcessTotals::now();
        OverviewTotals {
            failovers: count(totals.failovers),
            store_failures: count(totals.store_failures),
            expired_leases: count(totals.expired_leases),
            late_results: count(totals.late_results),
            connections: visit.server().connections(),
        }
    });
    StoreTemplate { status, running, totals, replicas: visit.server().replicas() }
}

async fn configuration(visit: &Visit) -> Result<ConfigTemplate, Problem> {
    let status =
        visit.client(AdminServiceClient::new).get_status(GetStatusRequest {}).await?.into_inner();
    let ConfigurationStatus { hash, load_time, last_error, error_time } =
        status.configuration.unwrap_or_default();
    let loaded = of_wire(load_time.as_ref());
    Ok(ConfigTemplate {
        hash,
        loaded: loaded.map(Moment),
        loaded_ago: loaded.map(|time| Ago::new(time, visit.now())),
        error: last_error,
        failed: of_wire(error_time.as_ref()).map(Moment),
    })
}

/// Loads the page.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    let mut page = ConsolePage::new("Overview").live("store", &store(visit))?;
    if visit.may("AdminService/GetStatus") {
        page = page.live("configuration", &configuration(visit).await?)?;
    }
    if visit.may_read_server() {
        page = page.live("load", &LoadTemplate { chart: load_chart(&visit.calls().steps()) })?;
    }
    if !visit.may("AdmissionService/ListPools") {
        return Ok(page);
    }
    let ListedPools { rows, .. } = match pools::read(visit, "").await {
        Err(Problem::Store(why)) => return Ok(page.lacking(why)),
        rows => rows?,
    };
    let shown = &rows[..rows.len().min(POOLS)];
    page.live("pools", &PoolsTemplate { rows: shown, all: count(rows.len() as u64) })
}
