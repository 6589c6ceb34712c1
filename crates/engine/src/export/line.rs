//! The lines of an export, by kind. Both kinds of store pass their entries through here.

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use tollgate_core::{
    admission::{Pool, PoolLine, TaskLine},
    lock::{Lock, LockLine},
    names::Namespace,
    rate::{AnswerLine, BanIndex, Log, Meter, RateLine},
    record::{Changes, Checked, EntryLine, Recorded, Text, Unreadable, split_part, unknown_part},
    sequence::{Counter, RESERVED, RangeLine, SequenceLine},
    stock::{BuyerLine, HoldLine, OrderLine, RestockLine, Sku, StockLine},
};

macro_rules! lines {
    ($($name:ident($line:ty) = $kind:literal),* $(,)?) => {
        /// The contents of a line. Names appear as callers see them, without their namespace.
        #[derive(Debug, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub(crate) enum Contents {
            $(
                #[serde(rename = $kind)]
                $name($line),
            )*
            /// The last line: the number of lines of each kind.
            #[serde(rename = "end")]
            End(Counts),
        }

        impl Contents {
            fn kind(&self) -> &'static str {
                match self {
                    $(Contents::$name(_) => $kind,)*
                    Contents::End(_) => "end",
                }
            }

            fn forget(&self) -> Option<u64> {
                match self {
                    $(Contents::$name(line) => line.forget(),)*
                    Contents::End(_) => None,
                }
            }

            fn check(&self) -> Result<(), String> {
                match self {
                    $(Contents::$name(line) => Checked::line(line),)*
                    Contents::End(_) => Ok(()),
                }
            }

            fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
                match self {
                    $(Contents::$name(line) => line.record(to),)*
                    Contents::End(_) => Ok(()),
                }
            }
        }
    };
}

lines! {
    Pool(PoolLine) = "pool",
    Task(TaskLine) = "task",
    Rate(RateLine) = "rate",
    RateReplay(AnswerLine) = "rate_replay",
    Sequence(SequenceLine) = "sequence",
    SequenceReplay(RangeLine) = "sequence_replay",
    Lock(LockLine) = "lock",
    Stock(StockLine) = "stock",
    Hold(HoldLine) = "hold",
    Order(OrderLine) = "order",
    Buyer(BuyerLine) = "buyer",
    StockReplay(RestockLine) = "stock_replay",
}

impl Contents {
    /// Returns the contents of the line for a stored entry. `of` is its partition without the
    /// namespace.
    fn from_entry(
        kind: u8,
        of: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<Contents>, Unreadable> {
        let (letter, name) = split_part(part);
        Ok(Some(match (kind, letter) {
            (Pool::KIND, 0) => Contents::Pool(PoolLine::from_entry(of, value)?),
            (Pool::KIND, b't') => Contents::Task(TaskLine::from_entry(of, name, value)?),
            (Meter::KIND, 0) => Contents::Rate(RateLine::from_entry(of, value)?),
            (Meter::KIND, b'r') => Contents::RateReplay(AnswerLine::from_entry(of, name, value)?),
            (Counter::KIND, 0) => {
                return Ok(SequenceLine::from_entry(of, value)?.map(Contents::Sequence));
            }
            (Counter::KIND, b'r') => {
                Contents::SequenceReplay(RangeLine::from_entry(of, name, value)?)
            }
            (Lock::KIND, 0) => Contents::Lock(LockLine::from_entry(of, value)?),
            (Sku::KIND, 0) => Contents::Stock(StockLine::from_entry(of, value)?),
            (Sku::KIND, b'h') => Contents::Hold(HoldLine::from_entry(of, name, value)?),
            (Sku::KIND, b'b') => Contents::Buyer(BuyerLine::from_entry(of, name, value)?),
            (Sku::KIND, b'o') => Contents::Order(OrderLine::from_entry(of, name, value)?),
            (Sku::KIND, b'r') => Contents::StockReplay(RestockLine::from_entry(of, name, value)?),
            (Pool::KIND | Log::KIND | BanIndex::KIND, _) | (Counter::KIND, RESERVED) => {
                return Ok(None);
            }
            (Meter::KIND | Counter::KIND | Lock::KIND | Sku::KIND, _) => return unknown_part(part),
            _ => return Err(Unreadable(format!("unknown kind {kind}: a newer tollgate wrote it"))),
        }))
    }
}

/// A line of an export, except the first.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line {
    #[serde(flatten)]
    contents: Contents,
    /// The namespace of the names in the line; unset for the default one.
    namespace: Option<Text>,
}

impl Line {
    /// Creates the last line.
    pub(crate) fn end(counts: Counts) -> Line {
        Line { contents: Contents::End(counts), namespace: None }
    }

    /// Returns the counts of the last line; `None` for any other line.
    pub(crate) fn counts(&self) -> Option<&Counts> {
        match &self.contents {
            Contents::End(counts) => Some(counts),
            _ => None,
        }
    }

    /// Returns the line for a stored entry; `None` for entries that are not exported: histories
    /// start from scratch, and the schedule and the ban index are derived from other entries.
    pub(in super::super) fn from_entry(
        kind: u8,
        of: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<Line>, Unreadable> {
        let (namespace, of) = Namespace::split(of);
        let namespace = (!namespace.is_empty()).then(|| Text::new(namespace));
        let contents = Contents::from_entry(kind, of, part, value)?;
        Ok(contents.map(|contents| Line { contents, namespace }))
    }

    /// Returns the `kind` field of the line, which is also its key in [`Counts`].
    pub fn kind(&self) -> &'static str {
        self.contents.kind()
    }

    /// Whether the entry has expired at `now`, µs.
    pub fn has_lapsed(&self, now: u64) -> bool {
        self.forget().is_some_and(|forget| forget <= now)
    }

    /// Returns when the entry expires, µs. `None` for an entry that never expires.
    pub fn forget(&self) -> Option<u64> {
        self.contents.forget()
    }

    /// Fails if a value cannot have been stored by any engine. The error names the field.
    pub fn check(&self) -> Result<(), String> {
        self.namespace().map_err(|why| format!("namespace {why}"))?;
        self.contents.check()
    }

    fn namespace(&self) -> Result<Namespace, &'static str> {
        let namespace = self.namespace.as_ref().map_or(&[][..], |namespace| &namespace.0);
        Namespace::parse(namespace)
    }

    /// Appends the entries of the line to a write batch.
    pub(in super::super) fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
        to.within(&self.namespace()?);
        self.contents.record(to)
    }
}
