//! `GetStock`: reads the stock of a sku.

use super::{Sku, StockOutcome};
use crate::{
    Call, Decision, OK, Outcomes, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    time::Timestamp,
};

/// Reads the stock of a sku, and its number of holds. Reclaims expired holds, but changes nothing
/// else.
///
/// The answer contains no expired hold: while some remain, it is `Again`. The numbers can be out of
/// date as soon as they are read. Only ReserveStock promises a quantity.
#[derive(Debug, Clone)]
pub struct GetStock {
    /// The sku.
    pub sku: Name,
}

impl Decision for GetStock {
    type State = Sku;
    type Outcome = StockOutcome<u64>;

    const SCRIPT: &'static Script = &script::stock::GET;
    const PROPERTIES: Properties<GetStock> = Properties {
        outcomes: Outcomes::new(&["ok", "not_found", "unfinished"], |outcome| match outcome {
            StockOutcome::Decided { .. } => 0,
            StockOutcome::NotFound => 1,
            StockOutcome::Again => 2,
        }),
        is_unfinished: StockOutcome::is_unfinished,
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        self.sku.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"stock"]);
        call.key(&[b"holds"]);
        call.key(&[b"buyers"]);
    }

    fn parse(reply: &mut Reply) -> Result<StockOutcome<u64>, Error> {
        StockOutcome::parse(reply, |status, reply| match status {
            OK => reply.number().map(Some),
            _ => Ok(None),
        })
    }

    fn decide(&self, sku: &mut Sku, now: Timestamp) -> StockOutcome<u64> {
        match sku.reclaim(now) {
            None => StockOutcome::NotFound,
            Some(standing) if standing.lapsed_remain => StockOutcome::Again,
            Some(standing) => {
                StockOutcome::Decided { outcome: sku.count_holds(), stock: standing.stock }
            }
        }
    }
}
