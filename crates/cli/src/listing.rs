//! Listings: all pages of an RPC, as a table or as JSON lines.

use prost::Message;
use tollgate_client::Error;

use super::{
    client::ClientError,
    json,
    output::OutputFlags,
    print::{print, warn},
    table::{Column, Table},
};

/// Warns that entries of a listing cannot be read.
pub(crate) fn warn_unreadable(kind: &str, names: &[String]) {
    for name in names {
        warn(&format!("cannot read the {kind} `{name}`; lua/README.md describes how to repair it"));
    }
}

/// How the entries of a listing are printed.
pub(crate) struct PrintedList<T, const N: usize> {
    /// Message type of an entry.
    pub message: &'static str,
    /// Columns of the table.
    pub columns: [Column; N],
    /// The cells of an entry.
    pub row: fn(&T) -> [String; N],
}

impl<T: Message, const N: usize> PrintedList<T, N> {
    /// Reads and prints one page after another, until the last one or until the reader closes the
    /// output. `fail` converts the error of a call.
    pub(crate) async fn print(
        &self,
        output: OutputFlags,
        mut read: impl AsyncFnMut(&str) -> Result<(Vec<T>, String), Error>,
        fail: impl Fn(&Error) -> ClientError,
    ) -> Result<(), ClientError> {
        let (mut table, mut token) = (Table::new(self.columns), String::new());
        loop {
            let (entries, next) = read(&token).await.map_err(|error| fail(&error))?;
            let text = if output.is_json() {
                let line = |entry: &T| json::message(self.message, entry) + "\n";
                entries.iter().map(line).collect()
            } else {
                table.page(entries.iter().map(self.row))
            };
            let reads_on = print(&text)
                .map_err(|error| ClientError(format!("cannot print the list: {error}")))?;
            if next.is_empty() || !reads_on {
                return Ok(());
            }
            token = next;
        }
    }
}
