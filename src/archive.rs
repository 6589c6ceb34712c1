//! Archives: what an engine holds as a file, a JSON object a line, which any engine takes in.
//!
//! The form is the contract of `deploy/archive.md`. A line says what is, in the words of the
//! API, and nothing of where it was kept: what an engine derives it derives anew. Each
//! capability says what its entries of a data directory are as lines, the Redis engine what
//! its keys are.

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

use crate::names::{Name, SEPARATOR};

/// The version of the form.
const VERSION: u32 = 1;
/// Instants and tokens stay below 2^52, the year 2112, as the scripts have it.
const TIME_MAX: u64 = (1 << 52) - 1;

/// A line of an archive, but the first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// What holds for a pool as a whole.
    Pool(PoolLine),
    /// What is known of a task: its lease, its result, its place in the queue.
    Task(TaskLine),
    /// What a key has used, and its ban.
    Rate(RateLine),
    /// The answer to a request for a rate, for its repeats.
    RateReplay(AnswerLine),
    /// How far a sequence has come.
    Sequence(SequenceLine),
    /// The answer to a request for serials, for its repeats.
    SequenceReplay(RangeLine),
    /// Who held a lock last.
    Lock(LockLine),
    /// The numbers of a sku.
    Stock(StockLine),
    /// What is held for an order.
    Hold(HoldLine),
    /// What became of an order.
    Order(OrderLine),
    /// What a buyer has reserved and bought.
    Buyer(BuyerLine),
    /// The answer to a request that added to stock, for its repeats.
    StockReplay(RestockLine),
    /// The last line.
    End(Counts),
}

impl Line {
    /// The kind, as lines and counts have it.
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

    /// From when on it says nothing any more; none of what stays.
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

    /// Whether it says nothing any more.
    pub(crate) fn has_lapsed(&self, now: u64) -> bool {
        self.forget().is_some_and(|forget| forget <= now)
    }

    /// Refuses what no engine can have held.
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

/// What is wrong with a line first, if anything is.
struct Checked(Result<(), String>);

impl Checked {
    fn name(&mut self, field: &str, name: &Text) {
        if let Err(why) = Name::parse(name.0.clone().into()) {
            self.refuse(format!("{field} {why}"));
        }
    }

    /// A text that stands between separators where it is kept.
    fn part(&mut self, field: &str, text: &Text) {
        if text.0.contains(&SEPARATOR) || text.0.contains(&0) {
            self.refuse(format!("{field} must not contain control characters"));
        }
    }

    fn times<const N: usize>(&mut self, times: [(&str, u64); N]) {
        for (field, time) in times {
            self.at_most(field, time, TIME_MAX);
        }
    }

    fn at_most(&mut self, field: &str, number: u64, most: u64) {
        if number > most {
            self.refuse(format!("{field} is {number}, and {most} is the most"));
        }
    }

    fn refuse(&mut self, why: String) {
        if self.0.is_ok() {
            self.0 = Err(why);
        }
    }
}
