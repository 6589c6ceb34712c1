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

  Accept the loss, without a question:
    tollgate store accept-loss --yes

After a loss, sequences that Redis does not know fail with STORE_LOST, because their values
could repeat. Restore an export or set floors before you accept the loss: a sequence that is
still unknown then begins again. docs/runbook.md has the steps.

Exit status: 0 if there is no loss, or it is accepted; 1 if there is one, or the answer to the
question is no; 64 for a wrong command line; 69 for no answer, or an error such as
PERMISSION_DENIED.";

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
    /// Show the id of the store and its losses; exits 1 if a loss is not accepted
    Status,
    /// Accept the loss on all servers: calls are answered as on a new store
    AcceptLoss {
        /// Do not ask
        #[arg(long)]
        yes: bool,
    },
}

const QUESTION: &str = "Accept the loss? Sequences that Redis does not know begin again, and their \
                        values can repeat.";

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
        output.say("GetStatusResponse", &status, || text(&status));
        return Ok(if is_lost { exit::REFUSED } else { 0 });
    };
    if is_lost && let Err(code) = confirm(yes, QUESTION) {
        return Ok(code);
    }
    let accepted = connection.accept_store_loss().await?;
    output.say("AcceptStoreLossResponse", &accepted, || accepted_text(&accepted));
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
        "refusing" => "sequences that it does not know fail with STORE_LOST",
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
            "use a caller with the permission `read`, to accept a loss `manage`, for the whole \
             server"
        }
        "UNAUTHENTICATED" => "give a token with --token-file",
        "UNIMPLEMENTED" => "this server does not recognise losses: update it",
        _ => client::advice(code),
    }
}
