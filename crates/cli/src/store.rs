//! `tollgate store`: shows whether Redis has lost its data, and accepts a loss.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use tollgate_client::{
    Connection, Error,
    pb::{AcceptStoreLossResponse, GetStatusResponse, StoreLoss},
};

use super::{
    client::{self, ClientError, connect, failed},
    confirm::confirm,
    exit,
    flags::ServerFlags,
    output::OutputFlags,
    watch::millis,
};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  Whether Redis has lost its data:
    tollgate store status

  Accept the loss without being asked:
    tollgate store accept-loss --yes

After a loss, calls for sequences that Redis does not know fail with STORE_LOST, because their
values could repeat. Restore an export or set floors before you accept the loss: sequences
that are still unknown then start again. docs/runbook.md describes the steps.

Exit status: 0 if there is no loss, or it has been accepted; 1 if there is one, or if you do
not confirm; 64 if the command line is invalid; 69 if the server does not answer or fails, for
example with PERMISSION_DENIED.";

/// Options of `tollgate store`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(disable_help_subcommand = true)]
pub struct StoreOptions {
    /// The verb.
    #[command(subcommand)]
    pub verb: StoreVerb,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Verbs of `tollgate store`.
#[derive(Debug, Clone, Copy, Subcommand)]
pub enum StoreVerb {
    /// Show the id of the store and its losses; exits 1 if a loss has not been accepted
    Status,
    /// Accept the loss on all servers, which then treat the store as a new one
    AcceptLoss {
        /// Do not ask for confirmation
        #[arg(long)]
        yes: bool,
    },
}

const QUESTION: &str = "Accept the loss? Sequences that Redis does not know will start again, and \
    their values can repeat.";

/// Makes the call of the verb and prints the result.
pub async fn run(options: &StoreOptions) -> Result<ExitCode, ClientError> {
    let StoreOptions { verb, output, server } = options;
    let what = match verb {
        StoreVerb::Status => "read the status of the store",
        StoreVerb::AcceptLoss { .. } => "accept the loss",
    };
    let connection = connect(&server.url, &server.access, what).await?;
    let fail = |error: &Error| failed(what, &server.url, error, advice(client::fate(error)));
    let code = call(&connection, *verb, *output).await.map_err(|error| fail(&error))?;
    Ok(ExitCode::from(code))
}

async fn call(connection: &Connection, verb: StoreVerb, output: OutputFlags) -> Result<u8, Error> {
    let status = connection.status().await?;
    let is_lost = status.store_losses.iter().any(|loss| loss.state != "accepted");
    let StoreVerb::AcceptLoss { yes } = verb else {
        output.print("GetStatusResponse", &status, || text(&status));
        return Ok(if is_lost { exit::REFUSED } else { 0 });
    };
    if is_lost && let Err(code) = confirm(yes, QUESTION) {
        return Ok(code);
    }
    let accepted = connection.accept_store_loss().await?;
    output.print("AcceptStoreLossResponse", &accepted, || accepted_text(&accepted));
    Ok(0)
}

fn text(status: &GetStatusResponse) -> String {
    let GetStatusResponse { engine, topology, store, store_id, store_losses, .. } = status;
    let mut lines = vec![format!("store  {store}, {engine}, {topology}")];
    if !store_id.is_empty() {
        lines.push(format!("id     {store_id}"));
    }
    if store_losses.is_empty() {
        lines.push("loss   none".to_owned())
    } else {
        lines.extend(store_losses.iter().map(|loss| format!("loss   {}", line(loss))))
    }
    lines.join("\n")
}

fn line(loss: &StoreLoss) -> String {
    let StoreLoss { node, state, loss_time } = loss;
    let time = tollgate_client::time::time(*loss_time).map(millis).unwrap_or_default();
    let effect = match &**state {
        "refusing" => "calls for sequences that it does not know fail with STORE_LOST",
        "continued" => "no call fails (on_store_loss); serial numbers can repeat",
        _ => "an operator has accepted it",
    };
    format!("{state}, {node}, recognised {time}: {effect}")
}

fn accepted_text(accepted: &AcceptStoreLossResponse) -> String {
    if accepted.losses.is_empty() {
        return "there is no loss to accept".to_owned();
    }
    let nodes: Vec<&str> = accepted.losses.iter().map(|loss| &*loss.node).collect();
    format!("accepted the loss of {}; pools stay on hold until lost leases end", nodes.join(", "))
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "PERMISSION_DENIED" => {
            "use a caller with the permission `read`, or `manage` to accept a loss, for the whole \
             server"
        }
        "UNAUTHENTICATED" => "pass a token with --token-file",
        "UNIMPLEMENTED" => "this server does not detect losses: upgrade it",
        _ => client::advice(code),
    }
}
