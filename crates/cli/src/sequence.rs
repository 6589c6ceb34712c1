//! `tollgate sequence`: shows the last values of sequences, and moves a sequence forward.

use std::process::ExitCode;

use clap::{Args, Subcommand, value_parser};
use tollgate_client::{
    Error,
    pb::{GetSequenceResponse, Sequence, SetSequenceFloorResponse},
};

use super::{
    client::{self, ClientError, connect, failed},
    exit::REFUSED,
    flags::{self, PrefixFlags, ServerFlags},
    listing::{PrintedList, warn_unreadable},
    output::OutputFlags,
    table::Column,
    watch::millis,
};
use tollgate_core::sequence::VALUE_MAX;

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  The last number of `order`, and when it was issued:
    tollgate sequence get order

  All sequences whose names begin with `order:`:
    tollgate sequence list --prefix order:

  Continue after 41999, the last number of the previous system:
    tollgate sequence floor order 42000

get and list do not take a number; `tollgate next` does. floor sets the minimum of the next
number and never moves a sequence back. With a calendar the floor consists of the digits of a
serial. With --output json, get prints a GetSequenceResponse, list a Sequence on each line,
and floor a SetSequenceFloorResponse.

Exit status: 0 if the values are printed, or the floor applies; 1 if the floor is not above
the last number, so that nothing changed; 64 if the command line is invalid; 69 if the server
does not answer or fails, for example because the floor is too far ahead of the clock.";

/// Options of `tollgate sequence`.
#[derive(Debug, Clone, Args)]
#[command(subcommand_value_name = "VERB", subcommand_help_heading = "Verbs")]
#[command(disable_help_subcommand = true)]
pub struct SequenceOptions {
    /// The verb.
    #[command(subcommand)]
    pub verb: SequenceVerb,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// The server.
    #[command(flatten)]
    pub server: ServerFlags,
}

/// Verbs of `tollgate sequence`.
#[derive(Debug, Clone, Subcommand)]
pub enum SequenceVerb {
    /// Show the last value that was issued
    Get {
        /// Name of the sequence, such as `order`
        #[arg(value_name = "NAME", value_parser = flags::name)]
        name: String,
    },
    /// Move a sequence forward, so that its next value is at least FLOOR
    Floor {
        /// Name of the sequence, such as `order`
        #[arg(value_name = "NAME", value_parser = flags::name)]
        name: String,
        /// Lower bound for the next value, 0 to 2^63-1
        #[arg(value_name = "FLOOR", value_parser = value_parser!(u64).range(..=VALUE_MAX))]
        floor: u64,
    },
    /// List the sequences and their last values, in no particular order
    List(PrefixFlags),
}

/// Prints the last value of a sequence or of all sequences, or moves a sequence forward.
pub async fn run(options: &SequenceOptions) -> Result<ExitCode, ClientError> {
    let SequenceOptions { verb, output, server } = options;
    let what = match verb {
        SequenceVerb::Get { name } => format!("get the sequence `{name}`"),
        SequenceVerb::Floor { name, .. } => format!("set the floor of the sequence `{name}`"),
        SequenceVerb::List(_) => "list the sequences".to_owned(),
    };
    let connection = connect(&server.url, &server.access, &what).await?;
    let fail = |error: &Error| failed(&what, &server.url, error, advice(error.code));
    match verb {
        SequenceVerb::Get { name } => {
            let answer = connection.sequence(name).await.map_err(|error| fail(&error))?;
            output.print("GetSequenceResponse", &answer, || text(name, &answer));
        }
        SequenceVerb::Floor { name, floor } => {
            let set = connection.set_sequence_floor(name, *floor).await;
            let answer = set.map_err(|error| fail(&error))?;
            output.print("SetSequenceFloorResponse", &answer, || moved(name, *floor, &answer));
            if !answer.applied {
                return Ok(ExitCode::from(REFUSED));
            }
        }
        SequenceVerb::List(PrefixFlags { prefix }) => {
            let read = async |token: &str| {
                let page = connection.list_sequences(prefix, token).await?;
                warn_unreadable("sequence", &page.unreadable);
                Ok((page.sequences, page.next_page_token))
            };
            let listing = PrintedList { message: "Sequence", columns: COLUMNS, row };
            listing.print(*output, read, fail).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

const COLUMNS: [Column; 4] = [
    Column::Text("SEQUENCE"),
    Column::Number("LAST"),
    Column::Text("SERIAL"),
    Column::Text("GIVEN OUT"),
];

fn row(sequence: &Sequence) -> [String; 4] {
    let Sequence { name, last, update_time, serial } = sequence.clone();
    let given_out = tollgate_client::time::time(update_time).map(millis);
    let serial = if serial.is_empty() { "-".to_owned() } else { serial };
    [name, last.to_string(), serial, given_out.unwrap_or_else(|_| "-".to_owned())]
}

fn text(name: &str, answer: &GetSequenceResponse) -> String {
    let GetSequenceResponse { last, update_time, serial, .. } = answer;
    let Ok(time) = tollgate_client::time::time(*update_time) else {
        return format!("{name}: no value has been issued");
    };
    let serial = if serial.is_empty() { String::new() } else { format!(", {serial}") };
    format!("{name}: last {last}{serial}, issued {}", millis(time))
}

fn moved(name: &str, floor: u64, answer: &SetSequenceFloorResponse) -> String {
    let SetSequenceFloorResponse { applied, last, serial } = answer;
    if *applied {
        return format!("{name}: the next value is at least {floor}");
    }
    let serial = if serial.is_empty() { String::new() } else { format!(", {serial}") };
    format!("{name}: last {last}{serial}; the floor {floor} is not above it, nothing changed")
}

/// Returns what to do about a failed call.
fn advice(code: &str) -> &'static str {
    match code {
        "INTERNAL" => "other sequences are not affected; lua/README.md describes how to repair one",
        "PERMISSION_DENIED" => {
            "use the token of a caller that may read this sequence, or may manage it to set a floor"
        }
        "UNIMPLEMENTED" => "this server does not support sequences: upgrade it",
        _ => client::advice(code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_that_is_not_above_the_last_value_says_so() {
        let mut answer = SetSequenceFloorResponse { applied: true, last: 41, ..Default::default() };
        assert_eq!(moved("order", 42, &answer), "order: the next value is at least 42");
        answer.applied = false;
        let text = moved("order", 7, &answer);
        assert_eq!(text, "order: last 41; the floor 7 is not above it, nothing changed");
    }

    #[test]
    fn a_sequence_that_was_never_used_has_no_value() {
        let mut answer = GetSequenceResponse::default();
        assert_eq!(text("order", &answer), "order: no value has been issued");
        answer.last = 42;
        answer.update_time = Some(prost_types::Timestamp { seconds: 1_763_711_100, nanos: 0 });
        assert_eq!(text("order", &answer), "order: last 42, issued 2025-11-21T07:45:00.000Z");
        answer.serial = "ORD-42".to_owned();
        assert!(text("order", &answer).contains("last 42, ORD-42, issued"));
    }
}
