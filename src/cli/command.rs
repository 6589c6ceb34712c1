//! The command line: its sub-commands, and what a server prints at its start.

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
    print::say,
};
use tollgate_engine::embedded::Durability;
use tollgate_fleet::{self as fleet, FleetOptions};

/// Tollgate decides for backends, over gRPC, whether something may happen. It admits at most N
/// tasks at once to an external system, with a lease for each. It limits the rates of callers, with
/// warn and ban levels. It gives out serial numbers that never repeat, grants locks with leases and
/// fencing tokens, and sells stock without overselling.
#[derive(Debug, Parser)]
#[command(version = VERSION, args_conflicts_with_subcommands = true, after_help = exit::TABLE)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Option<Command>,
    #[command(flatten)]
    pub(super) serve: ServeFlags,
}

/// The sub-commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server (also without a sub-command)
    Serve(ServeFlags),
    /// Check a configuration file, or rules of Envoy; exits 78 if they are invalid
    CheckConfig {
        /// The file; deploy/tollgate.toml documents every key
        #[arg(required_unless_present = "envoy")]
        file: Option<PathBuf>,
        /// Folder with the rules of Envoy's rate limit service
        #[arg(long, value_name = "DIR")]
        envoy: Option<PathBuf>,
        /// Allow several files of one domain, as `envoy.merge_domains` does
        #[arg(long, requires = "envoy")]
        merge_domains: bool,
        /// The form of the result.
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Explain the rules of Envoy's rate limit service
    #[command(subcommand)]
    Envoy(EnvoyCommand),
    /// Write the state of an engine to a file that any engine can import
    #[command(after_help = store::HELP)]
    Export {
        /// The source and the target.
        #[command(flatten)]
        flags: ExportFlags,
        /// Form of the summary: text on standard error; JSON on standard output, unless the export
        /// itself is written there
        #[arg(long, value_name = "FORMAT", default_value = "text")]
        summary: OutputFormat,
    },
    /// Read a file that `tollgate export` has written into an engine
    #[command(after_help = store::HELP)]
    Import {
        /// The source and the target.
        #[command(flatten)]
        flags: ImportFlags,
        /// The form of the result.
        #[command(flatten)]
        output: OutputFlags,
    },
    /// Simulate devices, callers or buyers against a running server; exits 1 if the cap, the limit
    /// or the stock was exceeded
    #[command(after_help = fleet::HELP)]
    Fleet(Box<FleetOptions>),
    /// A command that is a client of a server.
    #[command(flatten)]
    Client(ClientCommand),
    /// Print a new token for a caller, and the digest that the configuration of the server needs
    Token(OutputFlags),
    /// Print the completion script of a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write manual pages into a folder, one for each command
    Man {
        /// The folder, such as /usr/local/share/man/man1; it is created if it is missing
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// What a server reports at its start.
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
    /// Logs the start. A person at a terminal also gets example calls; a program without a JSON log
    /// gets the address on standard output.
    pub(crate) fn say(&self) {
        let admin = self.admin.map(|admin| admin.to_string()).unwrap_or_else(|| "off".to_owned());
        let (engine, listen, hash) = (self.engine(), self.listen, self.hash);
        tracing::info!(version = VERSION, %listen, admin, engine, hash, "the server has started");
        match (self.has_json_log, stdout().is_terminal()) {
            (true, _) => {}
            (false, false) => say(&format!("Listening on {listen}")),
            (false, true) => say(&self.banner()),
        }
    }

    fn engine(&self) -> String {
        match self.engine {
            EngineChoice::Embedded(EmbeddedOptions { data_dir: None, .. }) => {
                "embedded, in memory: state ends with the process".to_owned()
            }
            EngineChoice::Embedded(EmbeddedOptions { data_dir: Some(data_dir), .. }) => {
                let DataDir { path, durability } = data_dir;
                let what = match durability {
                    Durability::Always => "each answer is synced before it is sent",
                    Durability::Interval => {
                        "a kill loses no answer, a power loss at most one second of answers"
                    }
                    Durability::None => "a kill or power loss loses at most one second of answers",
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
