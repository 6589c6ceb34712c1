//! Parses the arguments and the environment.

use std::{
    env,
    io::{Write, stderr},
    process::ExitCode,
};

use clap::{
    ArgMatches, CommandFactory, Error, FromArgMatches,
    error::{ContextKind, ContextValue, ErrorKind},
    parser::ValueSource,
};

use super::{
    command::{Cli, Command},
    exit,
};
use crate::config::secret::has_password;
use tollgate_telemetry::text::escaped_lines;

/// Parses the arguments. The error is the exit code: 64 if the command line is invalid, 0 after
/// `--help`.
pub(super) fn parse() -> Result<Command, ExitCode> {
    read().map_err(|mut error| {
        if !error.use_stderr() {
            // If standard output fails, there is nowhere to report it.
            let _ = error.print();
            return ExitCode::SUCCESS;
        }
        hide_passwords(&mut error);
        // Written without colors, because escape sequences in an argument could imitate them.
        let _ = write!(stderr(), "{}", escaped_lines(&error.to_string()));
        ExitCode::from(exit::USAGE)
    })
}

fn read() -> Result<Command, Error> {
    let mut command = definition();
    let matches = command.try_get_matches_from_mut(env::args_os())?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
    let mut read = cli.command.unwrap_or(Command::Serve(cli.serve));
    check(&mut command, &read)?;
    match &mut read {
        Command::Serve(flags) => {
            flags.shows_password = shows_password(&matches, flags.engine.as_deref());
        }
        Command::Export { flags, .. } => {
            let store = &mut flags.store;
            store.shows_password = shows_password(&matches, store.engine.as_deref());
        }
        Command::Import { flags, .. } => {
            let store = &mut flags.store;
            store.shows_password = shows_password(&matches, store.engine.as_deref());
        }
        _ => {}
    }
    Ok(read)
}

/// Returns the definition of the command line.
pub(super) fn definition() -> clap::Command {
    let mut command = Cli::command();
    command.build();
    as_typed(command)
}

/// Returns the command with a fixed usage line, so that errors show the same usage as `--help`.
/// Otherwise clap would list an option that an environment variable sets as required.
fn as_typed(mut command: clap::Command) -> clap::Command {
    let usage = command.render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    command.override_usage(usage).mut_subcommands(as_typed)
}

/// Checks rules that involve several flags.
fn check(command: &mut clap::Command, read: &Command) -> Result<(), Error> {
    let checked = match read {
        Command::Fleet(options) => options.check().map_err(|error| ("fleet", error)),
        Command::Client(options) => options.check(),
        _ => return Ok(()),
    };
    checked.map_err(|(name, message)| match command.find_subcommand_mut(name) {
        Some(command) => command.error(ErrorKind::ValueValidation, message),
        None => command.error(ErrorKind::ValueValidation, message),
    })
}

/// Whether `--engine` was given on the command line, not in the environment, with a password in its
/// URL.
fn shows_password(matches: &ArgMatches, engine: Option<&str>) -> bool {
    let matches = matches.subcommand().map_or(matches, |(_, matches)| matches);
    matches.value_source("engine") == Some(ValueSource::CommandLine)
        && engine.is_some_and(has_password)
}

/// Removes what may be a password from an error: the value of `--engine`, and any URL with a
/// password.
fn hide_passwords(error: &mut Error) {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_engine = text(ContextKind::InvalidArg).is_some_and(|it| it.starts_with("--engine"));
    let kinds =
        [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue];
    let hidden = kinds.map(|kind| {
        let is_value = is_engine && matches!(kind, ContextKind::InvalidValue);
        text(kind).is_some_and(|text| is_value || has_password(text))
    });
    for (kind, is_hidden) in kinds.into_iter().zip(hidden) {
        if is_hidden {
            error.insert(kind, ContextValue::String("…".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h19_every_command_shows_its_usage_as_typed() {
        Cli::command().debug_assert();
        let mut command = definition();
        let rate = command.find_subcommand_mut("rate").expect("a command");
        assert_eq!(rate.render_usage().to_string(), "Usage: tollgate rate [OPTIONS] <KEY>");
        let stock = command.find_subcommand_mut("stock").expect("a command");
        let set = stock.find_subcommand_mut("set").expect("a verb");
        let usage = "Usage: tollgate stock set [OPTIONS] <SKU> <ON_HAND>";
        assert_eq!(set.render_usage().to_string(), usage);
    }
}
