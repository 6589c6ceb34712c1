//! Queries of the alerts and dashboards: they parse, and a server after use has the series that
//! they name.

mod prometheus;
mod promql;
mod scrape;

use crate::deploy::skipped;
use promql::{Selected, dashboards, queries, selected};
use scrape::Series;
pub use scrape::has_admin;

/// Labels that Prometheus adds to each series.
const TARGET: [&str; 2] = ["job", "instance"];

#[test]
fn dashboards_import_into_every_grafana() {
    let dashboards = dashboards();
    assert_eq!(dashboards.len(), 5);
    for (file, dashboard) in dashboards {
        assert_eq!(dashboard["schemaVersion"], 39, "{file}");
        assert!(dashboard.get("id").is_none(), "{file}: an id belongs to one Grafana");
        let expected = format!("tollgate-{}", file.trim_end_matches(".json"));
        assert_eq!(dashboard["uid"], expected.as_str());
        let variables = dashboard["templating"]["list"].as_array().unwrap();
        assert_eq!(variables[0]["type"], "datasource", "{file}");
        for panel in dashboard["panels"].as_array().unwrap() {
            assert!(panel.get("id").is_none(), "{file}: {}", panel["title"]);
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{file}: {}", panel["title"]);
            for target in panel["targets"].as_array().unwrap() {
                assert_eq!(target["datasource"]["uid"], "${datasource}", "{file}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_used_server_has_every_metric_and_label() {
    let queries = queries();
    assert!(queries.len() > 60, "{}", queries.len());
    if !scrape::has_admin() {
        return skipped("the admin listener of this build");
    }
    let series = scrape::used().await;
    let problems: Vec<String> = queries
        .iter()
        .flat_map(|query| {
            let of_query = selected(&query.expr);
            let problems = of_query.iter().filter_map(|it| problem(&series, it));
            problems.map(|problem| format!("{}: {problem}", query.place)).collect::<Vec<_>>()
        })
        .collect();
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// Returns what a server after use lacks of a metric in a query.
fn problem(series: &Series, selected: &Selected) -> Option<String> {
    let metric = &selected.metric;
    if metric == "up" {
        return None; // Prometheus's own.
    }
    let Some(rows) = series.get(metric) else { return Some(format!("no metric {metric}")) };
    let matched = selected.matchers.iter().map(|matcher| &matcher.name);
    for label in matched.chain(&selected.grouped).filter(|it| !TARGET.contains(&it.as_str())) {
        if !rows.iter().any(|row| row.contains_key(label)) {
            return Some(format!("{metric} has no label {label}"));
        }
    }
    // A value in a query exists. Of a pattern, such as some status codes, it need not.
    let is_plain =
        |op: &promql_parser::label::MatchOp| matches!(op, promql_parser::label::MatchOp::Equal);
    let plain: Vec<_> = selected.matchers.iter().filter(|it| is_plain(&it.op)).collect();
    let is_match = |row: &scrape::Labels| {
        let value = |name: &str| row.get(name).map_or("", String::as_str);
        let own = plain.iter().filter(|it| !TARGET.contains(&it.name.as_str()));
        own.into_iter().all(|matcher| matcher.is_match(value(&matcher.name)))
    };
    let shown = || plain.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    (!rows.iter().any(is_match)).then(|| format!("{metric} has no series {}", shown()))
}
