//! Parses requests into decisions. Each function reports all violations of a request together.

use std::ops::RangeInclusive;

use bytes::Bytes;
use tonic::Status;

use super::super::{fields::Fields, pb, scope::Scope};
use tollgate_core::{
    names::Name,
    stock::{
        AddStock, Buyer, CancelReservation, ConfirmReservation, HOLD_DEFAULT, HOLD_MAX, HOLD_MIN,
        QUANTITY_MAX, RESERVE_MAX, ReserveStock, SetStock,
    },
};

/// The largest quantity. Quantities are signed on the wire, so that a negative one is a violation
/// rather than a huge number.
const MOST: i64 = QUANTITY_MAX as i64;

/// Parses a quantity, which is required, because a forgotten field would otherwise set the stock to
/// 0.
pub(super) fn set_stock(request: pb::SetStockRequest, scope: Scope) -> Result<SetStock, Status> {
    let mut fields = Fields::new(scope);
    let sku = fields.partition("sku", request.sku);
    let on_hand = match request.on_hand {
        Some(on_hand) => quantity(&mut fields, "on_hand", on_hand, 0..=MOST),
        None => {
            fields.violation("on_hand", format!("is required: 0 to {MOST}"));
            0
        }
    };
    fields.finish(sku.map(|sku| SetStock { sku, on_hand }))
}

/// Parses a change. 0 is a violation, since it is most likely a forgotten field.
pub(super) fn add_stock(request: pb::AddStockRequest, scope: Scope) -> Result<AddStock, Status> {
    let mut fields = Fields::new(scope);
    let sku = fields.partition("sku", request.sku);
    let delta = request.delta;
    if delta == 0 || !(-MOST..=MOST).contains(&delta) {
        fields.violation("delta", format!("must be -{MOST} to {MOST}, and not 0"));
    }
    let request = fields.optional_name("request_id", request.request_id);
    fields.finish(sku.map(|sku| AddStock { sku, delta, request }))
}

/// Parses a reservation. The hold is 15 minutes by default.
pub(super) fn reserve_stock(
    request: pb::ReserveStockRequest,
    scope: Scope,
) -> Result<ReserveStock, Status> {
    let mut fields = Fields::new(scope);
    let sku = fields.partition("sku", request.sku);
    let order = fields.name("order_id", request.order_id);
    let quantity = quantity(&mut fields, "quantity", request.quantity, 1..=RESERVE_MAX as i64);
    let hold = fields.duration("hold_duration", request.hold_duration, HOLD_MIN..=HOLD_MAX);
    let buyer = buyer(&mut fields, request.buyer_id, request.buyer_limit);
    let reserve = sku.zip(order).map(|(sku, order)| {
        let hold = hold.unwrap_or(HOLD_DEFAULT);
        ReserveStock { sku, order, quantity, hold, buyer }
    });
    fields.finish(reserve)
}

/// Parses the buyer; a limit requires a name.
fn buyer(fields: &mut Fields, name: Bytes, limit: Option<i64>) -> Option<Buyer> {
    if name.is_empty() && limit.is_some() {
        fields.violation("buyer_id", "is required with buyer_limit: 1 to 256 bytes of UTF-8");
    }
    let name = fields.optional_name("buyer_id", name);
    let limit = limit.map(|limit| quantity(fields, "buyer_limit", limit, 1..=MOST));
    name.map(|name| Buyer { name, limit })
}

pub(super) fn confirm_reservation(
    request: pb::ConfirmReservationRequest,
    scope: Scope,
) -> Result<ConfirmReservation, Status> {
    let (sku, order) = reservation(request.sku, request.order_id, scope)?;
    Ok(ConfirmReservation { sku, order })
}

pub(super) fn cancel_reservation(
    request: pb::CancelReservationRequest,
    scope: Scope,
) -> Result<CancelReservation, Status> {
    let (sku, order) = reservation(request.sku, request.order_id, scope)?;
    Ok(CancelReservation { sku, order })
}

/// Parses the sku and the order. Permissions and namespaces apply to the sku only.
fn reservation(sku: Bytes, order: Bytes, scope: Scope) -> Result<(Name, Name), Status> {
    let mut fields = Fields::new(scope);
    let sku = fields.partition("sku", sku);
    let order = fields.name("order_id", order);
    fields.finish(sku.zip(order))
}

pub(super) fn get_stock(request: pb::GetStockRequest, scope: Scope) -> Result<Name, Status> {
    let mut fields = Fields::new(scope);
    let sku = fields.partition("sku", request.sku);
    fields.finish(sku)
}

/// Checks the range of a quantity, and collects a violation. `bounds` must not be negative.
fn quantity(fields: &mut Fields, field: &str, value: i64, bounds: RangeInclusive<i64>) -> u64 {
    if !bounds.contains(&value) {
        let (least, most) = bounds.into_inner();
        fields.violation(field, format!("must be {least} to {most}"));
    }
    value.unsigned_abs()
}
