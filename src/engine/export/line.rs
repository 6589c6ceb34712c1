//! The lines of an export, by kind. Both kinds of store pass their entries through here.

use serde::{Deserialize, Serialize};

use super::counts::Counts;
use crate::{
    admission::{Pool, PoolLine, TaskLine},
    decision::{
        export::{Checked, EntryLine},
        persistence::{Changes, Recorded, Unreadable, split_part, unknown_part},
    },
    lock::{Lock, LockLine},
    rate::{AnswerLine, BanIndex, Log, Meter, RateLine},
    sequence::{Counter, RangeLine, SequenceLine},
    stock::{BuyerLine, HoldLine, OrderLine, RestockLine, Sku, StockLine},
};

macro_rules! lines {
    ($($name:ident($line:ty) = $kind:literal),* $(,)?) => {
        /// A line of an export, except the first.
        #[derive(Debug, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub(crate) enum Line {
            $(
                #[serde(rename = $kind)]
                $name($line),
            )*
            /// The last line: the number of lines of each kind.
            #[serde(rename = "end")]
            End(Counts),
        }

        impl Line {
            /// The `kind` field of the line, which is also its key in [`Counts`].
            pub(crate) fn kind(&self) -> &'static str {
                match self {
                    $(Line::$name(_) => $kind,)*
                    Line::End(_) => "end",
                }
            }

            /// Returns when the entry expires, µs. `None` for an entry that never expires.
            pub(crate) fn forget(&self) -> Option<u64> {
                match self {
                    $(Line::$name(line) => line.forget(),)*
                    Line::End(_) => None,
                }
            }

            /// Refuses values that no engine can have stored. The error names the field.
            pub(crate) fn check(&self) -> Result<(), String> {
                match self {
                    $(Line::$name(line) => Checked::line(line),)*
                    Line::End(_) => Ok(()),
                }
            }

            /// Appends the entries of the line to a write batch.
            pub(in super::super) fn record(&self, to: &mut Changes) -> Result<(), &'static str> {
                match self {
                    $(Line::$name(line) => line.record(to),)*
                    Line::End(_) => Ok(()),
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

impl Line {
    /// Whether the entry has expired at `now`, µs.
    pub(crate) fn has_lapsed(&self, now: u64) -> bool {
        self.forget().is_some_and(|forget| forget <= now)
    }

    /// The line of a stored entry; `None` for entries that are not exported: histories start anew,
    /// and the schedule and the ban index follow from other entries.
    pub(in super::super) fn of(
        kind: u8,
        of: &[u8],
        part: &[u8],
        value: &[u8],
    ) -> Result<Option<Line>, Unreadable> {
        let (letter, name) = split_part(part);
        Ok(Some(match (kind, letter) {
            (Pool::KIND, 0) => Line::Pool(PoolLine::of(of, value)?),
            (Pool::KIND, b't') => Line::Task(TaskLine::of(of, name, value)?),
            (Meter::KIND, 0) => Line::Rate(RateLine::of(of, value)?),
            (Meter::KIND, b'r') => Line::RateReplay(AnswerLine::of(of, name, value)?),
            (Counter::KIND, 0) => return Ok(SequenceLine::of(of, value)?.map(Line::Sequence)),
            (Counter::KIND, b'r') => Line::SequenceReplay(RangeLine::of(of, name, value)?),
            (Lock::KIND, 0) => Line::Lock(LockLine::of(of, value)?),
            (Sku::KIND, 0) => Line::Stock(StockLine::of(of, value)?),
            (Sku::KIND, b'h') => Line::Hold(HoldLine::of(of, name, value)?),
            (Sku::KIND, b'b') => Line::Buyer(BuyerLine::of(of, name, value)?),
            (Sku::KIND, b'o') => Line::Order(OrderLine::of(of, name, value)?),
            (Sku::KIND, b'r') => Line::StockReplay(RestockLine::of(of, name, value)?),
            (Pool::KIND | Log::KIND | BanIndex::KIND, _) => return Ok(None),
            (Meter::KIND | Counter::KIND | Lock::KIND | Sku::KIND, _) => return unknown_part(part),
            _ => return Err(Unreadable(format!("unknown kind {kind}: a newer tollgate wrote it"))),
        }))
    }
}
