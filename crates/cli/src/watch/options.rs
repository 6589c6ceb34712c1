//! Options of `tollgate watch`, with validation.

use clap::{Args, value_parser};

use super::super::{flags, output::OutputFlags};

/// Text after the options in `--help`.
pub const HELP: &str = "\
Examples:
  The events of a pool, from now on:
    tollgate watch ar:0571

  Notices and bans of a policy's keys:
    tollgate watch --policy login

  All stored events of a pool as JSON, and later those after the last one:
    tollgate watch ar:0571 --from-start --output json > events.jsonl
    tollgate watch ar:0571 --after 1795289490525801 --output json \\
        >> events.jsonl

Prints a line for each event: the time (UTC, on the engine's clock), kind, device, task,
attempt and token, outcome, and the slots in use after it and the capacity, with `>=` if
older leases may still be running. For a policy: the time, kind, key, the count and the level
that it exceeds, the end and the strike of a ban, and who set or lifted it. With --output
json each line is an object in protobuf's JSON format, as grpcurl prints it, whose `cursor`
can be passed to --after.

A lost connection is reported on standard error and retried without limit; the watch then
continues where it stopped. GAP means that events in between are no longer stored. The watch
ends on Ctrl-C, or when the reader of its output closes the pipe.

Exit status: 0 at the end; 64 if the command line is invalid; 69 if the server is
unreachable at the start, or has no such stream.";

/// Options of `tollgate watch`.
#[derive(Debug, Clone, Args)]
pub struct WatchOptions {
    /// The pool, such as `ar:0571`
    #[arg(value_name = "POOL", value_parser = flags::name)]
    #[arg(required_unless_present = "policy")]
    pub pool: Option<String>,

    /// Watch the keys of a policy in the configuration of the server instead
    #[arg(long, value_name = "NAME", conflicts_with = "pool", value_parser = flags::name)]
    pub policy: Option<String>,

    /// Same as `--output json`
    #[arg(long)]
    pub json: bool,

    /// Start after the event with this cursor
    #[arg(long, value_name = "CURSOR", conflicts_with = "from_start")]
    pub after: Option<String>,

    /// Start with the oldest stored event
    #[arg(long)]
    pub from_start: bool,

    /// Exit after this number of events
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// The form of the result.
    #[command(flatten)]
    pub output: OutputFlags,

    /// URL of the server
    #[arg(long, value_name = "URL", env = "TOLLGATE_SERVER", value_parser = flags::server)]
    #[arg(default_value = "http://127.0.0.1:50051")]
    pub server: String,

    /// TLS and token.
    #[command(flatten)]
    pub access: flags::AccessFlags,
}

/// The watched pool or policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target<'a> {
    Pool(&'a str),
    Policy(&'a str),
}

impl<'a> Target<'a> {
    pub(super) fn name(self) -> &'a str {
        match self {
            Target::Pool(name) | Target::Policy(name) => name,
        }
    }
}

impl WatchOptions {
    pub(super) fn target(&self) -> Target<'_> {
        match &self.policy {
            Some(policy) => Target::Policy(policy),
            // clap requires one of them.
            None => Target::Pool(self.pool.as_deref().unwrap_or_default()),
        }
    }

    /// Whether events are printed as JSON.
    pub(super) fn is_json(&self) -> bool {
        self.json || self.output.is_json()
    }

    /// Returns the start cursor; `None` for the present.
    pub(super) fn after(&self) -> Option<String> {
        if self.from_start { Some("0".to_owned()) } else { self.after.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::tests::parse;

    #[test]
    fn a_watch_starts_now_unless_a_start_is_given() {
        let after = |arguments: &str| parse::<WatchOptions>(arguments).expect("good").after();
        assert_eq!(after("p"), None);
        assert_eq!(after("p --from-start").as_deref(), Some("0"));
        assert_eq!(after("p --after 17").as_deref(), Some("17"));
        let pool: WatchOptions = parse("p").expect("good");
        assert_eq!(pool.target(), Target::Pool("p"));
        let policy: WatchOptions = parse("--policy q").expect("good");
        assert_eq!(policy.target(), Target::Policy("q"));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (arguments, part) in [
            ("", "<POOL>"),
            ("p --policy q", "--policy"),
            ("p --count 0", "--count"),
            ("p --after 1 --from-start", "--from-start"),
            ("p --server ftp://x", "--server"),
        ] {
            let error = parse::<WatchOptions>(arguments).expect_err(arguments);
            assert!(error.contains(part), "{arguments}: {error}");
        }
    }
}
