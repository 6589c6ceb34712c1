//! `--output`: the format of results.

use clap::{Args, ValueEnum};
use prost::Message;

use super::{json, print};

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OutputFormat {
    /// Text for people, which may change between versions
    #[default]
    Text,
    /// JSON with stable keys, one object per line
    Json,
}

/// The form of the result of a command.
#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputFlags {
    /// Format of the result
    #[arg(long, value_name = "FORMAT", default_value = "text", global = true)]
    pub output: OutputFormat,
}

impl OutputFlags {
    /// Whether the result is JSON.
    pub fn is_json(self) -> bool {
        self.output == OutputFormat::Json
    }

    /// Returns a message of the contract as JSON if that is the format.
    pub fn json(self, name: &str, message: &impl Message) -> Option<String> {
        self.is_json().then(|| json::message(name, message))
    }

    /// Prints a result: a message of the contract as JSON, or else its text.
    pub fn print(self, name: &str, message: &impl Message, text: impl FnOnce() -> String) {
        print::line(&self.json(name, message).unwrap_or_else(text));
    }
}
