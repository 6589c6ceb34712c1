//! `tollgate envoy explain`, and `tollgate check-config --envoy`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Subcommand;

use super::exit;
use crate::config::envoy;
use tollgate_cli::{OutputFlags, json, print};
use tollgate_core::envoy::explain;

/// The subcommands of `tollgate envoy`.
#[derive(Debug, Subcommand)]
pub(crate) enum EnvoyCommand {
    /// Print which rule applies to a descriptor and why; exits 1 if none does, 78 if the rules are
    /// invalid
    Explain {
        /// Folder with the rules
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// The domain of the request
        #[arg(long)]
        domain: String,
        /// Comma-separated entries of a descriptor; repeat the option for several descriptors
        #[arg(long, value_name = "KEY=VALUE,…", required = true)]
        descriptor: Vec<String>,
        /// Allow several files for one domain, as `envoy.merge_domains` does
        #[arg(long)]
        merge_domains: bool,
        /// The form of the result.
        #[command(flatten)]
        output: OutputFlags,
    },
}

/// Runs a command. If it fails, the error has been reported, and its exit code is returned.
pub(super) fn run(command: &EnvoyCommand) -> Result<ExitCode, ExitCode> {
    let EnvoyCommand::Explain { folder, domain, descriptor, merge_domains, output } = command;
    let rules = envoy::check_folder(folder, *merge_domains);
    let rules = rules.map_err(|error| exit::config(&error))?;
    let mut is_found = true;
    for text in descriptor {
        let (steps, found) = explain(&rules, domain, &entries(text));
        is_found &= found;
        if output.is_json() {
            let lines: Vec<&str> = steps.lines().map(str::trim_start).collect();
            let result = serde_json::json!({
                "domain": domain, "descriptor": text, "matched": found, "steps": lines,
            });
            print::line(&json::object(&result));
        } else {
            print::line(steps.trim_end())
        }
    }
    Ok(ExitCode::from(if is_found { 0 } else { exit::REFUSED }))
}

/// Parses `KEY=VALUE,KEY=VALUE`; without `=` the value is empty.
fn entries(text: &str) -> Vec<(String, String)> {
    let entry = |entry: &str| match entry.split_once('=') {
        Some((key, value)) => (key.to_owned(), value.to_owned()),
        None => (entry.to_owned(), String::new()),
    };
    text.split(',').map(entry).collect()
}

/// Checks the rules of a folder. The error is the exit code.
pub(super) fn check(
    folder: &Path,
    merge_domains: bool,
    output: OutputFlags,
) -> Result<(), ExitCode> {
    let (checked, name) =
        (envoy::check_folder(folder, merge_domains), folder.display().to_string());
    if output.is_json() {
        let error = checked.as_ref().err().cloned();
        let result = serde_json::json!({ "file": name, "valid": error.is_none(), "error": error });
        print::line(&json::object(&result));
    }
    let rules = checked.map_err(|error| exit::config(&error))?;
    if !output.is_json() {
        let (domains, rules) = rules.counts();
        print::line(&format!("{name}: valid, {domains} domains, {rules} rules"));
    }
    Ok(())
}
