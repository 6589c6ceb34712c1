//! System: the version, the configuration in use, the limits of namespaces, and the reload.

use askama::Template;
use tollgate_client::pb::{
    ConfigDifference, ReloadConfigRequest, admin_service_client::AdminServiceClient,
};

use crate::{
    fields::FormFields,
    format::{count, length},
    page::{ConsolePage, Problem},
    visit::Visit,
};
use tollgate_engine::budget::{LimitUsage, NamespaceUsage};
use tollgate_status::status::Status;

#[derive(Template)]
#[template(path = "system_program.html")]
struct ProgramTemplate {
    status: Status,
    uptime: String,
    may_reload: bool,
}

#[derive(Template)]
#[template(path = "system_namespaces.html")]
struct NamespacesTemplate {
    rows: Vec<NamespaceRow>,
}

struct NamespaceRow {
    name: String,
    key: &'static str,
    used: Option<String>,
    max: String,
    refused: String,
}

#[derive(Template)]
#[template(path = "system_values.html")]
struct ValuesTemplate {
    values: Vec<(String, String)>,
}

#[derive(Template)]
#[template(path = "reload_differences.html")]
struct DifferencesTemplate {
    rows: Vec<ConfigDifference>,
    /// Why the files cannot be used; empty if they can.
    problem: String,
}

fn program(visit: &Visit) -> ProgramTemplate {
    let status = visit.server().status();
    let uptime = length(std::time::Duration::from_secs(status.uptime_seconds));
    ProgramTemplate { status, uptime, may_reload: visit.may("AdminService/ReloadConfig") }
}

fn namespaces(all: Vec<NamespaceUsage>) -> NamespacesTemplate {
    let rows = all.into_iter().flat_map(|NamespaceUsage { prefix, limits }| {
        let name = String::from_utf8_lossy(&prefix);
        let name = match name.trim_matches(|letter: char| letter.is_control()) {
            "" => "default".to_owned(),
            name => name.to_owned(),
        };
        limits.into_iter().map(move |LimitUsage { key, used, max, refused }| NamespaceRow {
            name: name.clone(),
            key,
            used: used.map(count),
            max: count(max),
            refused: count(refused),
        })
    });
    NamespacesTemplate { rows: rows.collect() }
}

/// Loads the page, which concerns all namespaces.
pub(super) async fn load(visit: &Visit) -> Result<ConsolePage, Problem> {
    if !visit.may_read_server() {
        let reason = "requires a caller that may read in every namespace";
        return Err(Problem::Forbidden(reason.to_owned()));
    }
    let values = visit.server().configuration();
    ConsolePage::new("System")
        .live("program", &program(visit))?
        .live("namespaces", &namespaces(visit.server().namespaces()))?
        .live("values", &ValuesTemplate { values })
}

async fn run(visit: &Visit, dry_run: bool) -> Result<Vec<ConfigDifference>, Problem> {
    let mut admin = visit.client(AdminServiceClient::new);
    let answer = admin.reload_config(ReloadConfigRequest { dry_run }).await?.into_inner();
    Ok(answer.differences)
}

/// Loads the page of the reload, with the differences that it would apply.
pub(super) async fn load_reload(visit: &Visit) -> Result<ConsolePage, Problem> {
    let differences = match run(visit, true).await {
        Ok(rows) => DifferencesTemplate { rows, problem: String::new() },
        Err(Problem::Invalid(problem)) => DifferencesTemplate { rows: Vec::new(), problem },
        Err(problem) => return Err(problem),
    };
    ConsolePage::new("Reload the configuration").fixed("differences", &differences)
}

/// Reloads the configuration.
pub(super) async fn reload(visit: &Visit, form: &FormFields) -> Result<String, Problem> {
    if form.get("action") != "reload" {
        return Err(Problem::Invalid("no such action".to_owned()));
    }
    match run(visit, false).await?.len() {
        0 => Ok("The files match the configuration in use.".to_owned()),
        number => Ok(format!("Applied {number} differences.")),
    }
}
