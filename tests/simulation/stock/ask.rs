//! The requests of callers about a SKU.

use std::sync::Arc;

use tollgate_core::{
    stock::{
        AddStock, Buyer, CancelOutcome, CancelReservation, ConfirmOutcome, ConfirmReservation,
        GetStock, ReserveOutcome, ReserveStock, Restocked, SetStock, StockOutcome,
    },
    time::Millis,
};
use tollgate_engine::Engine;

use crate::capability::{Part, deadline, name, text};

#[derive(Debug, Clone)]
pub enum Ask {
    Set(u64),
    Add { delta: i64, request: u32 },
    Reserve { order: u32, quantity: u64, hold: u64, buyer: Option<(u8, Option<u64>)> },
    Confirm(u32),
    Cancel(u32),
    Get,
}

#[derive(Debug, Clone)]
pub enum Answer {
    Stocked(StockOutcome<Restocked>),
    Reserved(StockOutcome<ReserveOutcome>),
    Confirmed(StockOutcome<ConfirmOutcome>),
    Cancelled(StockOutcome<CancelOutcome>),
    View(StockOutcome<u64>),
}

pub async fn run(
    part: Part,
    ask: Ask,
    engine: &Arc<Engine>,
) -> Result<Answer, tollgate_core::error::Error> {
    let (sku, of) = (name(&part.text('k')), |order: u32| name(&text('o', order)));
    Ok(match ask {
        Ask::Set(on_hand) => {
            Answer::Stocked(engine.submit(&SetStock { sku, on_hand }, deadline()).await?.outcome)
        }
        Ask::Add { delta, request } => {
            let add = AddStock { sku, delta, request: Some(of(request)) };
            Answer::Stocked(engine.submit(&add, deadline()).await?.outcome)
        }
        Ask::Reserve { order, quantity, hold, buyer } => {
            let buyer = buyer.map(|(buyer, limit)| Buyer { name: name(&text('b', buyer)), limit });
            let (order, hold) = (of(order), Millis(hold));
            let reserve = ReserveStock { sku, order, quantity, hold, buyer };
            Answer::Reserved(engine.submit(&reserve, deadline()).await?.outcome)
        }
        Ask::Confirm(order) => {
            let confirm = ConfirmReservation { sku, order: of(order) };
            Answer::Confirmed(engine.submit(&confirm, deadline()).await?.outcome)
        }
        Ask::Cancel(order) => {
            let cancel = CancelReservation { sku, order: of(order) };
            Answer::Cancelled(engine.submit(&cancel, deadline()).await?.outcome)
        }
        Ask::Get => Answer::View(engine.submit(&GetStock { sku }, deadline()).await?.outcome),
    })
}
