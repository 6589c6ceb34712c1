//! The last steps of a simulation, for the report of a violation.

use std::{
    collections::VecDeque,
    fmt::Write,
    hash::{DefaultHasher, Hasher},
};

use crate::{
    callers::{Answer, Request},
    disk::End,
};

/// Number of steps that are kept, and number of steps in a report.
const KEPT: usize = 4000;
const SHOWN: usize = 30;

#[derive(Debug, Clone)]
pub enum Happened {
    /// A request was decided at this time of the engine, and answered.
    Answered(u64, Request, Answer),
    /// A request was decided, and waits for the disk.
    Waits(u64, Request),
    /// A request was not decided.
    Refused(Request, String),
    /// The journal has written up to this mark, or has failed.
    Written { mark: u64, is_down: bool },
    /// The log was written up to this mark, or has failed.
    Logged { mark: u64, is_logged: bool },
    /// Time passed, in µs.
    Passed(u64),
    /// The system clock was set: its distance from the true time, in µs.
    Stepped(i64),
    /// The disk became full, or has space again.
    Full(bool),
    /// The process closed in an orderly way.
    Closed,
    /// The process was killed, or its power failed.
    Ended(End),
    /// The next process found the state of this mark.
    Opened { mark: u64, now: u64 },
    /// A sweep dropped lapsed entries.
    Swept,
}

#[derive(Debug, Default)]
pub struct History {
    last: VecDeque<(u64, Happened)>,
    /// A digest of all steps, if one was requested.
    pub digest: Option<DefaultHasher>,
}

impl History {
    pub fn record(&mut self, step: u64, happened: Happened) {
        if let Some(digest) = &mut self.digest {
            digest.write(format!("{step} {happened:?}").as_bytes());
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back((step, happened));
    }

    /// Returns the last steps of the part of a request, or of all parts.
    pub fn about(&self, request: Option<&Request>) -> String {
        let matters = |happened: &Happened| match happened {
            Happened::Answered(_, other, _)
            | Happened::Waits(_, other)
            | Happened::Refused(other, _) => request.is_none_or(|request| request.is_about(other)),
            Happened::Written { is_down, .. } => !is_down,
            Happened::Logged { is_logged, .. } => !is_logged,
            Happened::Passed(_) | Happened::Swept => request.is_none(),
            _ => true,
        };
        let matters = self.last.iter().filter(|(_, happened)| matters(happened));
        let skip = matters.clone().count().saturating_sub(SHOWN);
        let mut text = String::new();
        for (step, happened) in matters.skip(skip) {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{step:>8} {happened:?}");
        }
        text
    }
}
