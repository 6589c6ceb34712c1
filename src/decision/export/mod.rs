//! Exports: the state of an engine as a file, one JSON object per line, which any engine can
//! import.
//!
//! `deploy/archive.md` specifies the format. A line describes a stored entry with the terms of the
//! API, independent of the engine. An importing engine rebuilds everything that it derives from
//! entries, such as indexes. Each capability converts its entries of a data directory to lines; the
//! Redis engine converts its keys.

mod admission;
mod file;
mod lock;
mod rate;
mod sequence;
mod stock;
mod text;

use serde::{Deserialize, Serialize};

pub(crate) use admission::{PoolLine, QueuedLine, StandingName, StateName, TaskLine};
pub use file::{Counts, Unfit};
pub(crate) use file::{Reader, Writer};
pub(crate) use lock::LockLine;
pub(crate) use rate::{
    AnswerLine, BanLine, CounterLine, LimitLine, NoticeLine, RateLine, UsageLine, VerdictName,
};
pub(crate) use sequence::{RangeLine, SequenceLine};
pub(crate) use stock::{BuyerLine, HoldLine, OrderLine, OrderName, RestockLine, StockLine};
pub(crate) use text::Text;

use crate::decision::names::{Name, SEPARATOR};

/// Version of the format. An import refuses every other version.
const VERSION: u32 = 1;
/// Largest instant (µs) and token: below 2^52, which is the year 2112. The scripts rely on this
/// bound.
const TIME_MAX: u64 = (1 << 52) - 1;

/// A line of an export, except the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// Settings and last token of a pool.
    Pool(PoolLine),
    /// A task: its lease, its result and its queue entry.
    Task(TaskLine),
    /// The usage and the ban of a key.
    Rate(RateLine),
    /// A replay-cache entry: the answer to a rate request.
    RateReplay(AnswerLine),
    /// The highest value that a sequence has given out.
    Sequence(SequenceLine),
    /// A replay-cache entry: the answer to a request for serials.
    SequenceReplay(RangeLine),
    /// The last holder of a lock.
    Lock(LockLine),
    /// The counts of a sku.
    Stock(StockLine),
    /// The hold of an order.
    Hold(HoldLine),
    /// The reservation of an order.
    Order(OrderLine),
    /// The quantity that a buyer has reserved and bought.
    Buyer(BuyerLine),
    /// A replay-cache entry: the answer to a request that added stock.
    StockReplay(RestockLine),
    /// The last line: the number of lines of each kind.
    End(Counts),
}

impl Line {
    /// The `kind` field of the line, which is also its key in [`Counts`].
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Line::Pool(_) => "pool",
            Line::Task(_) => "task",
            Line::Rate(_) => "rate",
            Line::RateReplay(_) => "rate_replay",
            Line::Sequence(_) => "sequence",
            Line::SequenceReplay(_) => "sequence_replay",
            Line::Lock(_) => "lock",
            Line::Stock(_) => "stock",
            Line::Hold(_) => "hold",
            Line::Order(_) => "order",
            Line::Buyer(_) => "buyer",
            Line::StockReplay(_) => "stock_replay",
            Line::End(_) => "end",
        }
    }

    /// Returns when the entry expires, µs. `None` for an entry that never expires.
    pub(crate) fn forget(&self) -> Option<u64> {
        match self {
            Line::Task(task) => task.forget,
            Line::Rate(rate) => Some(rate.forget()),
            Line::RateReplay(answer) => Some(answer.forget),
            Line::SequenceReplay(range) => Some(range.forget),
            Line::Lock(lock) => Some(lock.forget()),
            Line::Order(order) => Some(order.forget),
            Line::StockReplay(restock) => Some(restock.forget),
            Line::Pool(_) | Line::Sequence(_) | Line::Stock(_) => None,
            Line::Hold(_) | Line::Buyer(_) | Line::End(_) => None,
        }
    }

    /// Whether the entry has expired at `now`, µs.
    pub(crate) fn has_lapsed(&self, now: u64) -> bool {
        self.forget().is_some_and(|forget| forget <= now)
    }

    /// Refuses values that no engine can have stored. The error names the field.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut checked = Checked(Ok(()));
        match self {
            Line::Pool(line) => line.check(&mut checked),
            Line::Task(line) => line.check(&mut checked),
            Line::Rate(line) => line.check(&mut checked),
            Line::RateReplay(line) => line.check(&mut checked),
            Line::Sequence(line) => line.check(&mut checked),
            Line::SequenceReplay(line) => line.check(&mut checked),
            Line::Lock(line) => line.check(&mut checked),
            Line::Stock(line) => line.check(&mut checked),
            Line::Hold(line) => line.check(&mut checked),
            Line::Order(line) => line.check(&mut checked),
            Line::Buyer(line) => line.check(&mut checked),
            Line::StockReplay(line) => line.check(&mut checked),
            Line::End(_) => {}
        }
        checked.0
    }
}

/// The first violation of a line, if there is one.
pub(crate) struct Checked(Result<(), String>);

impl Checked {
    /// Checks a name as in a request: 1 to 256 bytes of UTF-8 without control characters.
    pub(crate) fn name(&mut self, field: &str, name: &Text) {
        if let Err(why) = Name::parse(name.0.clone().into()) {
            self.refuse(format!("{field} {why}"));
        }
    }

    /// Checks a text that Redis stores between separators: it must not contain them.
    pub(crate) fn part(&mut self, field: &str, text: &Text) {
        if text.0.contains(&SEPARATOR) || text.0.contains(&0) {
            self.refuse(format!("{field} must not contain control characters"));
        }
    }

    /// Checks that instants and tokens are at most [`TIME_MAX`].
    pub(crate) fn times<const N: usize>(&mut self, times: [(&str, u64); N]) {
        for (field, time) in times {
            self.at_most(field, time, TIME_MAX);
        }
    }

    pub(crate) fn at_most(&mut self, field: &str, number: u64, most: u64) {
        if number > most {
            self.refuse(format!("{field} is {number}: must be at most {most}"));
        }
    }

    /// Records a violation; only the first one is kept.
    pub(crate) fn refuse(&mut self, why: String) {
        if self.0.is_ok() {
            self.0 = Err(why);
        }
    }
}
