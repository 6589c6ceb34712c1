//! What has happened, for whoever looks for the cause.

use std::{
    collections::VecDeque,
    fmt::Write,
    hash::{DefaultHasher, Hasher},
};

use crate::{
    callers::{Answer, Request},
    disk::End,
};

/// So much of it is kept, and so much shown.
const KEPT: usize = 4000;
const SHOWN: usize = 30;

#[derive(Debug, Clone)]
pub enum Happened {
    /// A request was decided at this time of the engine, and answered.
    Answered(u64, Request, Answer),
    /// It was decided, and waits for the disk.
    Waits(u64, Request),
    /// It was not decided.
    Refused(Request, String),
    /// The journal was written up to this mark, or it could not be.
    Written { mark: u64, is_down: bool },
    /// Time went by, in µs.
    Passed(u64),
    /// The system's clock was set: so far is it from the true time, in µs.
    Stepped(i64),
    /// The disk is full, or no longer.
    Full(bool),
    /// The process ended in order.
    Closed,
    /// It ended otherwise.
    Ended(End),
    /// The next one found what was written up to this mark.
    Opened { mark: u64, now: u64 },
    /// What had lapsed was dropped.
    Swept,
}

#[derive(Debug, Default)]
pub struct History {
    last: VecDeque<(u64, Happened)>,
    /// Of all that has happened, where it is asked for.
    pub digest: Option<DefaultHasher>,
}

impl History {
    pub fn note(&mut self, step: u64, happened: Happened) {
        if let Some(digest) = &mut self.digest {
            digest.write(format!("{step} {happened:?}").as_bytes());
        }
        if self.last.len() == KEPT {
            self.last.pop_front();
        }
        self.last.push_back((step, happened));
    }

    /// The last that happened to the part of a request, and to all.
    pub fn about(&self, request: Option<&Request>) -> String {
        let matters = |happened: &Happened| match happened {
            Happened::Answered(_, other, _)
            | Happened::Waits(_, other)
            | Happened::Refused(other, _) => request.is_none_or(|request| request.is_about(other)),
            Happened::Written { is_down, .. } => !is_down,
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
