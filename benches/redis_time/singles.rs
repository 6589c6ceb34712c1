//! Verbs without a bulk call: ReserveStock, AcquireLock and NextSequence.

use prost_types::Duration;
use tollgate_client::pb::{self, AcquireLockOutcome, ReserveOutcome};

use crate::{keys::name, site::Site};

const SKU: &str = "ticket";
/// Length of a lease of a lock, in ms: it ends before the lock is acquired again, because all
/// locks are acquired in turn.
const LEASE: i32 = 10;

/// Sets the stock, which is enough for all reservations.
pub(crate) async fn stock(site: &Site) {
    let request = pb::SetStockRequest { sku: SKU.into(), on_hand: Some(1 << 50) };
    site.stock.clone().set_stock(request).await.unwrap();
}

/// Reserves one unit for a new order.
pub(crate) async fn reserve(site: &Site, order: u64) {
    let request = pb::ReserveStockRequest {
        sku: SKU.into(),
        order_id: name("ord:", order),
        quantity: 1,
        ..pb::ReserveStockRequest::default()
    };
    let answer = site.stock.clone().reserve_stock(request).await.unwrap().into_inner();
    assert!(answer.outcome() == ReserveOutcome::Reserved && !answer.replayed, "{answer:?}");
}

/// Acquires a lock for a new owner.
pub(crate) async fn acquire(site: &Site, lock: u64, owner: u64) {
    let request = pb::AcquireLockRequest {
        name: name("lock", lock),
        owner: name("own:", owner),
        lease_duration: Some(Duration { seconds: 0, nanos: LEASE * 1_000_000 }),
        ..pb::AcquireLockRequest::default()
    };
    let answer = site.locks.clone().acquire_lock(request).await.unwrap().into_inner();
    assert!(answer.outcome() == AcquireLockOutcome::Acquired && !answer.replayed, "{answer:?}");
}

/// Gets the next value of a sequence.
pub(crate) async fn next(site: &Site) {
    let request =
        pb::NextSequenceRequest { name: "order".into(), ..pb::NextSequenceRequest::default() };
    let answer = site.sequences.clone().next_sequence(request).await.unwrap().into_inner();
    assert!(answer.first > 0 && answer.first == answer.last && !answer.replayed, "{answer:?}");
}
