//! The queries of the alerts and the dashboards, and the metrics that they name.

use std::{convert::Infallible, fs};

use promql_parser::{
    label::Matcher,
    parser::{self, Expr, VectorSelector},
    util::{ExprVisitor, walk_expr},
};
use serde_json::Value;

use crate::deploy::{path, text};

/// A query, and where its text is.
pub struct Query {
    pub place: String,
    pub expr: Expr,
}

/// Returns all queries of the alerts and of the dashboards.
pub fn queries() -> Vec<Query> {
    let mut texts = alerts(&text("deploy/prometheus/alerts.yaml"));
    for (file, dashboard) in dashboards() {
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let place = format!("{file}, {}", panel["title"]);
                texts.push((place, target["expr"].as_str().unwrap().to_owned()));
            }
        }
    }
    let parsed = texts.into_iter().map(|(place, text)| {
        let mut plain = text.replace("$__rate_interval", "5m");
        for variable in ["$job", "$instance", "$namespace", "$pool"] {
            plain = plain.replace(&format!("\"{variable}\""), "\".*\"");
        }
        assert!(!plain.contains('$'), "{place}: an unknown variable in {text}");
        let expr = parser::parse(&plain).unwrap_or_else(|error| panic!("{place}: {error}\n{text}"));
        Query { place, expr }
    });
    parsed.collect()
}

/// Returns the dashboards by the names of their files.
pub fn dashboards() -> Vec<(String, Value)> {
    let folder = path("deploy/grafana/dashboards");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path()).collect();
    files.sort();
    let read = files.into_iter().map(|file| {
        let name = file.file_name().unwrap().to_str().unwrap().to_owned();
        (name, serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap())
    });
    read.collect()
}

/// Returns the expressions of a file with alerts: the text from `expr:` to the next key.
fn alerts(file: &str) -> Vec<(String, String)> {
    let alerts = file.split("- alert:").skip(1).map(|alert| {
        let expr = alert.split_once("expr:").unwrap().1.split("\n        for:").next().unwrap();
        let name = alert.lines().next().unwrap().trim();
        (format!("alert {name}"), expr.trim().trim_start_matches(">-").trim().to_owned())
    });
    alerts.collect()
}

/// A metric in a query.
#[derive(Default)]
pub struct Selected {
    pub metric: String,
    pub matchers: Vec<Matcher>,
    /// The labels that the query groups it by.
    pub grouped: Vec<String>,
}

/// Returns the metrics of a query.
pub fn selected(expr: &Expr) -> Vec<Selected> {
    let mut walk = Walk::default();
    let Ok(_) = walk_expr(&mut walk, expr);
    walk.found
}

#[derive(Default)]
struct Walk {
    /// The labels of the aggregations around the expression.
    groups: Vec<Vec<String>>,
    found: Vec<Selected>,
}

impl Walk {
    fn find(&mut self, selector: &VectorSelector) {
        assert!(selector.matchers.or_matchers.is_empty(), "{selector:?}");
        self.found.push(Selected {
            metric: selector.name.clone().expect("a selector names its metric"),
            matchers: selector.matchers.matchers.clone(),
            grouped: self.groups.concat(),
        });
    }
}

impl ExprVisitor for Walk {
    type Error = Infallible;

    fn pre_visit(&mut self, expr: &Expr) -> Result<bool, Infallible> {
        match expr {
            Expr::Aggregate(aggregate) => {
                let by = aggregate.modifier.iter().flat_map(|by| by.labels().labels.clone());
                self.groups.push(by.collect());
            }
            Expr::VectorSelector(selector) => self.find(selector),
            Expr::MatrixSelector(matrix) => self.find(&matrix.vs),
            _ => {}
        }
        Ok(true)
    }

    fn post_visit(&mut self, expr: &Expr) -> Result<bool, Infallible> {
        if matches!(expr, Expr::Aggregate(_)) {
            self.groups.pop();
        }
        Ok(true)
    }
}
