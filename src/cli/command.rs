//! The command line: its subcommands, and what a server prints when it starts.

use std::{
    io::{IsTerminal, stdout},
    net::SocketAddr,
    path::PathBuf,
};

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use super::{envoy::EnvoyCommand, version::VERSION};
use crate::config::{
    DataDir, EmbeddedOptions, EngineChoice, ServeFlags,
    store::{self, ExportFlags, ImportFlags},
};
use tollgate_cli::{
    ClientCommand, FIRST_CALLS, exit,
    output::{OutputFlags, OutputFormat},
    print,
};
use tollgate_engine::embedded::Durability;
use tollgate_fleet::{self as fleet, FleetOptions};

/// Backends ask Tollgate over gRPC before they act. It admits at most N concurrent tasks to an
/// external system, each with a lease, limits the rates of callers with warning and ban levels,
/// issues serial numbers that never repeat, grants locks with leases and fencing tokens, and sells
/// stock without overselling.
#[derive(Debug, Parser)]
#[command(version = VERSION, args_conflicts_with_subcommands = true, after_help = exit::TABLE)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) serve: ServeFlags,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (the default without a subcommand)
    Serve(ServeFlags),
    /// Check a configuration file, or rules for Envoy's rate limit service; exits 78 if they are
    /// invalid
    CheckConfig {
        /// The file; deploy/tollgate.toml documents every key
        #[arg(required_unless_present = "envoy")]
        file: Option<PathBuf>,
        /// Folder with rules for Envoy's rate limit service
        #[arg(long, value_name = "DIR")]
        envoy: Option<PathBuf>,
        /// Allow several files for one domain, as `envoy.merge_domains` does
        #[arg(long, requires = "envoy")]
        merge_domains: bool,
        /// The form of the result.
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Explain the rules for Envoy's rate limit service
    #[command(subcommand)]
    Envoy(EnvoyCommand),
    /// Write the state of an engine to a file that any engine can import
    #[command(after_help = store::HELP)]
    Export {
        /// The source and the target.
        #[command(flatten)]
        flags: ExportFlags,
        /// Format of the summary: text goes to standard error; JSON goes to standard output, unless
        /// the export itself does
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        summary: OutputFormat,
    },
    /// Load a file written by `tollgate export` into an engine
    #[command(after_help = store::HELP)]
    Import {
        /// The source and the target.
        #[command(flatten)]
        flags: ImportFlags,
        /// The form of the result.
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Simulate devices, callers or buyers against a running server; exits 1 if the server exceeded
    /// its cap, limit or stock
    #[command(after_help = fleet::HELP)]
    Fleet(Box<FleetOptions>),
    /// A command that is a client of a server.
    #[command(flatten)]
    Client(ClientCommand),
    /// Print a new token for a caller, and its digest for the configuration of the server
    Token(OutputFlags),
    /// Print the completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write one manual page for each command into a folder
    Man {
        /// The folder, such as /usr/local/share/man/man1; created if it does not exist
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// What a server reports when it starts.
pub(crate) struct Greeting<'a> {
    pub(crate) engine: &'a EngineChoice,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) has_console: bool,
    pub(crate) has_tls: bool,
    pub(crate) has_callers: bool,
    /// Whether the log is JSON, for programs.
    pub(crate) has_json_log: bool,
    /// The hash of the configuration.
    pub(crate) hash: &'a str,
}

impl Greeting<'_> {
    /// Logs the start. At a terminal it also prints example calls; otherwise, unless the log is
    /// JSON, it prints the address to standard output.
    pub(crate) fn announce(&self) {
        let admin = self.admin.map(|admin| admin.to_string()).unwrap_or_else(|| "off".to_owned());
        let (engine, listen, hash) = (self.engine(), self.listen, self.hash);
        tracing::info!(version = VERSION, %listen, admin, engine, hash, "the server has started");
        match (self.has_json_log, stdout().is_terminal()) {
            (true, _) => {}
            (false, false) => print::line(&format!("Listening on {listen}")),
            (false, true) => print::line(&self.banner()),
        }
    }

    fn engine(&self) -> String {
        match self.engine {
            EngineChoice::Embedded(EmbeddedOptions { data_dir: None, .. }) => {
                "embedded, in memory: all state is lost when the process ends".to_owned()
            }
            EngineChoice::Embedded(EmbeddedOptions { data_dir: Some(data_dir), .. }) => {
                let DataDir { path, durability } = data_dir;
                let what = match durability {
                    Durability::Always => "changes are synced before each answer",
                    Durability::Interval => {
                        "a kill loses nothing, a power failure at most the last second"
                    }
                    Durability::None => "a kill or a power failure loses at most the last second",
                };
                format!("embedded, data directory {}: {what}", path.display())
            }
            EngineChoice::Redis(_) => "Redis".to_owned(),
        }
    }

    fn banner(&self) -> String {
        let listen = self.listen;
        let mut options = if self.has_tls { "-cacert ca.crt" } else { "-plaintext" }.to_owned();
        if self.has_callers {
            options.push_str(" -H \"authorization: Bearer $TOKEN\"");
        }
        let pages = self.admin.map_or_else(String::new, |admin| {
            let console = format!("Console on http://{admin}/\n");
            let console = if self.has_console { &*console } else { "" };
            format!("{console}Metrics on http://{admin}/metrics, status on http://{admin}/status\n")
        });
        let calls = FIRST_CALLS.map(|(rpc, request)| {
            format!("  grpcurl {options} -d '{request}' \\\n    {listen} tollgate.v1.{rpc}\n")
        });
        format!(
            "Tollgate {VERSION}, engine: {engine}\n{pages}Listening on {listen}. Try:\n\n{calls}",
            engine = self.engine(),
            calls = calls.concat(),
        )
    }
}
