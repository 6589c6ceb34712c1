//! `tollgate stock`: sets, reserves, sells and lists stock.

mod line;
mod list;
mod options;

pub use options::{HELP, StockCommand, StockOptions, StockVerb};

use tollgate_client::{
    CancelOutcome, ConfirmOutcome, Connection, Error, Order, ReserveOutcome, pb,
};

use super::{
    client::{self, ClientError, connect, failed},
    output::OutputFlags,
};

/// The answer of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StockAnswer {
    /// The answer as a line of text or JSON; empty if it has already been printed.
    pub text: String,
    /// Whether the requested state has been reached, by this call or an earlier one. If not, the
    /// call was refused.
    pub done: bool,
}

/// Makes the call. Lists are printed page by page.
pub async fn run(options: &StockOptions) -> Result<StockAnswer, ClientError> {
    let StockOptions { command, output, server, access } = options;
    let verb = match command {
        StockCommand::List(flags) => {
            list::run(options, flags).await?;
            return Ok(StockAnswer { text: String::new(), done: true });
        }
        StockCommand::One(verb) => verb,
    };
    let what = verb.what();
    let connection = connect(server, access, &what).await?;
    let answer = call(&connection, verb, *output).await;
    answer.map_err(|error| failed(&what, server, &error, advice(client::fate(&error), verb)))
}

async fn call(
    connection: &Connection,
    verb: &StockVerb,
    output: OutputFlags,
) -> Result<StockAnswer, Error> {
    let sku = verb.sku();
    let (word, done, stock, json) = match verb {
        StockVerb::Set { on_hand, .. } => {
            let stock = connection.set_stock(sku, *on_hand).await?;
            let answer = pb::SetStockResponse { stock: Some(stock.clone()) };
            (String::new(), true, stock, output.json("SetStockResponse", &answer))
        }
        StockVerb::Add { delta, request_id, .. } => {
            let (stock, replayed) =
                connection.add_stock(sku, *delta, request_id.as_deref()).await?;
            let word =
                if replayed { "replayed; the stock at the time of the first call" } else { "" };
            let answer = pb::AddStockResponse { stock: Some(stock.clone()), replayed };
            (word.to_owned(), true, stock, output.json("AddStockResponse", &answer))
        }
        StockVerb::Reserve { sku, order, quantity, hold, buyer, buyer_limit } => {
            let wanted = Order {
                sku,
                order,
                quantity: *quantity,
                hold: hold.map(|hold| hold.duration()),
                buyer: buyer.as_deref().unwrap_or_default(),
                buyer_limit: *buyer_limit,
            };
            let (mut answer, stock) = connection.reserve_stock(&wanted).await?;
            let done = answer.outcome() == ReserveOutcome::Reserved;
            let word = line::reserved(&answer);
            answer.stock = Some(stock.clone());
            (word, done, stock, output.json("ReserveStockResponse", &answer))
        }
        StockVerb::Confirm { order, .. } => {
            let (mut answer, stock) = connection.confirm_reservation(sku, order).await?;
            let sold = [ConfirmOutcome::Confirmed, ConfirmOutcome::AlreadyConfirmed];
            let (word, done) = (line::confirmed(&answer), sold.contains(&answer.outcome()));
            answer.stock = Some(stock.clone());
            (word, done, stock, output.json("ConfirmReservationResponse", &answer))
        }
        StockVerb::Cancel { order, .. } => {
            let (outcome, stock) = connection.cancel_reservation(sku, order).await?;
            let done = [CancelOutcome::Cancelled, CancelOutcome::AlreadyCancelled];
            let (word, done) = (line::cancelled(outcome).to_owned(), done.contains(&outcome));
            let answer = pb::CancelReservationResponse {
                outcome: outcome.into(),
                stock: Some(stock.clone()),
            };
            (word, done, stock, output.json("CancelReservationResponse", &answer))
        }
        StockVerb::Get { .. } => {
            let (stock, holds) = connection.get_stock(sku).await?;
            let answer = pb::GetStockResponse { stock: Some(stock.clone()), holds };
            let json = output.json("GetStockResponse", &answer);
            let text = json.unwrap_or_else(|| line::with_holds(sku, &stock, holds));
            return Ok(StockAnswer { text, done: true });
        }
    };
    Ok(StockAnswer { text: json.unwrap_or_else(|| line::line(&word, sku, &stock)), done })
}

/// Returns what to do about a failed call.
fn advice(code: &str, verb: &StockVerb) -> &'static str {
    match code {
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" if verb.is_repeatable() => {
            "the change may have been made: repeat the same command to find out"
        }
        "CANCELLED" | "DEADLINE_EXCEEDED" | "UNKNOWN" => {
            "the change may have been made: check with `tollgate stock get` before you repeat it"
        }
        "FAILED_PRECONDITION" => "cancel reservations, or wait until their holds lapse",
        "INTERNAL" => "other skus are not affected; lua/README.md describes how to repair this one",
        "NOT_FOUND" => "create the sku with `tollgate stock set`",
        "OUT_OF_RANGE" => "set or add less",
        "UNIMPLEMENTED" => "this server does not support stock: upgrade it",
        _ => client::advice(code),
    }
}
