//! Overview: the store, the load of this server, the fullest pools.

use askama::Template;
use tollgate_client::pb::{
    ConfigurationStatus, GetStatusRequest, admin_service_client::AdminServiceClient,
};

use super::pools::{self, ListedPool, ListedPools};
use crate::{
    chart::{Chart, ChartLine},
    format::{Ago, Moment, count, of_wire},
    history::CallStep,
    page::{ConsolePage, Problem},
    visit::Visit,
};
use tollgate_status::status::Status;
use tollgate_telemetry::metrics::{CODE_NAMES, CODES};

/// Number of pools in the list.
const POOLS: usize = 12;
/// The CSS classes of the lines for errors.
const ERROR_STYLES: [&str; 3] = ["three", "four", "five"];

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
    let lines = lines.into_iter().chain(error_lines(steps)).collect();
    Chart { title: "Calls, refusals and errors per second, this server", lines }
}

/// Returns a line for each status code that calls ended with, the most frequent first. Codes for
/// which no class is left share one line. A call that its client has cancelled is not an error.
fn error_lines(steps: &[CallStep]) -> Vec<ChartLine> {
    let sum = |code: usize| steps.iter().map(|step| step.codes[code]).sum::<f64>();
    let is_error = |code: &usize| !matches!(CODE_NAMES[*code], "OK" | "Canceled");
    let mut codes: Vec<usize> =
        (0..CODES).filter(is_error).filter(|code| sum(*code) > 0.0).collect();
    codes.sort_by(|one, other| sum(*other).total_cmp(&sum(*one)));
    let last = ERROR_STYLES.len() - 1;
    let (named, rest) = codes.split_at(if codes.len() > last + 1 { last } else { codes.len() });
    let rest = (!rest.is_empty()).then_some(("other errors", rest));
    let groups = named.iter().map(|code| (CODE_NAMES[*code], std::slice::from_ref(code)));
    let lines = groups.chain(rest).zip(ERROR_STYLES).map(|((name, codes), class)| ChartLine {
        name,
        class,
        values: steps
            .iter()
            .map(|step| Some(codes.iter().map(|code| step.codes[*code]).sum()))
            .collect(),
    });
    lines.collect()
}

fn store(visit: &Visit) -> StoreTemplate {
    let status = visit.server().status();
    let running = Ago::new(visit.server().start(), visit.now());
    let totals = visit.may_read_server().then(|| {
        let totals = visit.server().totals();
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
    let ListedPools { rows, .. } = match pools::load_rows(visit, "").await {
        Err(Problem::Store(why)) => return Ok(page.lacking(why)),
        rows => rows?,
    };
    let shown = &rows[..rows.len().min(POOLS)];
    page.live("pools", &PoolsTemplate { rows: shown, all: count(rows.len() as u64) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j29_errors_are_in_the_chart_by_code() {
        let step = |errors: &[(usize, f64)]| {
            let mut codes = [0.0; CODES];
            codes[0] = 100.0;
            codes[1] = 50.0;
            errors.iter().for_each(|(code, number)| codes[*code] = *number);
            CallStep { calls: 8226.0, refusals: 0.0, codes }
        };
        let names = |steps: &[CallStep]| -> Vec<&str> {
            load_chart(steps).lines.iter().map(|line| line.name).collect()
        };
        assert_eq!(names(&[step(&[])]), ["calls", "refusals"]);
        let refused = [step(&[]), step(&[(8, 8226.0), (14, 1.0)])];
        assert_eq!(names(&refused), ["calls", "refusals", "ResourceExhausted", "Unavailable"]);
        let chart = load_chart(&refused).to_string();
        assert!(chart.contains("ResourceExhausted <b>8226</b>"), "{chart}");
        let many = [step(&[(8, 5.0), (14, 4.0), (4, 3.0), (13, 2.0)])];
        let names = names(&many);
        assert_eq!(names[2..], ["ResourceExhausted", "Unavailable", "other errors"]);
        assert_eq!(load_chart(&many).lines[4].values, [Some(5.0)]);
    }
}
