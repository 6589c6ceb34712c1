//! The requests of callers about a SKU.

use tollgate::{
    decision::time::Millis,
    engine::Engine,
    stock::{
        AddStock, Buyer, CancelOutcome, CancelReservation, ConfirmOutcome, ConfirmReservation,
        GetStock, ReserveOutcome, ReserveStock, Restocked, Ruling, SetStock,
    },
};

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
    Stocked(Ruling<Restocked>),
    Reserved(Ruling<ReserveOutcome>),
    Confirmed(Ruling<ConfirmOutcome>),
    Cancelled(Ruling<CancelOutcome>),
    View(Ruling<()>),
}

pub async fn run(
    part: Part,
    ask: Ask,
    engine: &Engine,
) -> Result<Answer, tollgate::decision::error::Error> {
    let (sku, of) = (name(&part.text('k')), |order: u32| name(&text('o', order)));
    Ok(match ask {
        Ask::Set(on_hand) => {
            Answer::Stocked(engine.run(&SetStock { sku, on_hand }, deadline()).await?)
        }
        Ask::Add { delta, request } => {
            let add = AddStock { sku, delta, request: Some(of(request)) };
            Answer::Stocked(engine.run(&add, deadline()).await?)
        }
        Ask::Reserve { order, quantity, hold, buyer } => {
            let buyer = buyer.map(|(buyer, limit)| Buyer { name: name(&text('b', buyer)), limit });
            let (order, hold) = (of(order), Millis(hold));
            let reserve = ReserveStock { sku, order, quantity, hold, buyer };
            Answer::Reserved(engine.run(&reserve, deadline()).await?)
        }
        Ask::Confirm(order) => {
            let confirm = ConfirmReservation { sku, order: of(order) };
            Answer::Confirmed(engine.run(&confirm, deadline()).await?)
        }
        Ask::Cancel(order) => {
            let cancel = CancelReservation { sku, order: of(order) };
            Answer::Cancelled(engine.run(&cancel, deadline()).await?)
        }
        Ask::Get => Answer::View(engine.run(&GetStock { sku }, deadline()).await?),
    })
}
