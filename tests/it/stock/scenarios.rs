//! Scenarios D of stock: errors of common recipes, on both engines.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_client::pb::{ConfirmOutcome, ReservationState, ReserveOutcome};
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    stocks::{Shop, Stocks, add, by, held, patient, reserve, set},
    world::{Undated, World},
};

const MOST: i64 = (1 << 53) - 1;
const SECOND: Duration = Duration::from_secs(1);
const HOLD: Duration = Duration::from_secs(15 * 60);

on_both_engines! {
    d7_fifty_items_are_reserved_fifty_times,
    d7_a_hundred_skus_each_reserve_their_stock_concurrently,
    d11_a_quantity_of_zero_or_less_is_refused,
    d13_an_order_that_is_sent_twice_is_deducted_once,
    d14_quantities_are_exact_up_to_2_53_and_refused_above,
    d19_a_hold_that_is_never_paid_lapses,
    d19_a_late_payment_is_retaken_or_expired,
    j6_another_quantity_for_an_order_is_an_outcome_of_its_own,
    d22_items_of_crashed_callers_return_to_stock,
}

/// Reserves an item for each of `orders` concurrent orders, on several connections. Returns the
/// number of RESERVED and of SHORT answers.
async fn race(shop: &Shop, sku: &str, orders: usize) -> (usize, usize) {
    let mut clients = Vec::new();
    for _ in 0..8 {
        clients.push(Stocks::connect(shop.world.address.clone()).await.unwrap());
    }
    let mut calls = JoinSet::new();
    for order in 0..orders {
        let mut client = clients[order % clients.len()].clone();
        let request = patient(reserve(sku, &format!("order {order}"), 1));
        calls.spawn(async move { client.reserve_stock(request).await.unwrap().into_inner() });
    }
    let answers = calls.join_all().await;
    let count = |outcome| answers.iter().filter(|response| response.outcome() == outcome).count();
    (count(ReserveOutcome::Reserved), count(ReserveOutcome::Short))
}

/// A repeat with another quantity is not a success: its caller would deliver 5 and have paid for 1.
async fn j6_another_quantity_for_an_order_is_an_outcome_of_its_own(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 50).await;
    let first = shop.reserve(held(60 * SECOND, reserve("tv", "order-1", 1))).await;
    for quantity in [5, 1_000_000_000, 2] {
        let differs = shop.reserve(by("ann", 1, reserve("tv", "order-1", quantity))).await;
        assert_eq!(differs.outcome(), ReserveOutcome::QuantityDiffers, "{quantity}");
        assert!(!differs.replayed);
        assert_eq!(differs.reservation.undated(), first.reservation.undated());
        let held = differs.reservation.unwrap();
        assert_eq!((held.state(), held.quantity), (ReservationState::Held, 1));
        assert!(held.expires_in.is_some());
    }
    assert_eq!(shop.get("tv").await, [50, 49, 1, 0]);
    assert!(shop.reserve(reserve("tv", "order-1", 1)).await.replayed);
    // Once the hold has lapsed, the order is reserved anew, with any quantity.
    shop.advance(60 * SECOND).await;
    let anew = shop.reserve(reserve("tv", "order-1", 5)).await;
    assert_eq!((anew.outcome(), anew.replayed), (ReserveOutcome::Reserved, false));
    // A settled order is settled, whatever quantity is asked for.
    shop.confirm("tv", "order-1").await;
    assert_eq!(shop.asked(reserve("tv", "order-1", 1)).await, ReserveOutcome::AlreadySettled);
}

async fn d7_fifty_items_are_reserved_fifty_times(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 50).await;
    assert_eq!(race(&shop, "tv", 1000).await, (50, 950));
    assert_eq!(shop.get("tv").await, [50, 0, 50, 0]);
    // All orders ask again: the same fifty have a reservation.
    assert_eq!(race(&shop, "tv", 1000).await, (50, 950));
    assert_eq!(shop.get("tv").await, [50, 0, 50, 0]);
}

async fn d7_a_hundred_skus_each_reserve_their_stock_concurrently(world: World) {
    let shop = Shop::from_world(world).await;
    for sku in 0..100 {
        shop.set(&format!("sku {sku}"), sku % 7).await;
    }
    let mut calls = JoinSet::new();
    for call in 0..1000i64 {
        let mut client = shop.client.clone();
        let request = patient(reserve(&format!("sku {}", call % 100), &format!("{call}"), 1));
        calls.spawn(async move { client.reserve_stock(request).await.unwrap().into_inner() });
    }
    let answers = calls.join_all().await;
    for sku in 0..100u64 {
        let name = format!("sku {sku}");
        let reserved = answers.iter().filter(|response| {
            response.outcome() == ReserveOutcome::Reserved
                && response.reservation.as_ref().unwrap().sku == name
        });
        assert_eq!(reserved.count() as u64, sku % 7, "{name}");
        assert_eq!(shop.get(&name).await, [sku % 7, 0, sku % 7, 0], "{name}");
    }
}

async fn d11_a_quantity_of_zero_or_less_is_refused(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 50).await;
    for quantity in [0, -1, -100, i64::MIN, 1_000_000_001, i64::MAX] {
        let status =
            shop.client.clone().reserve_stock(reserve("tv", "o", quantity)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{quantity}: {status:?}");
        let details = status.get_error_details();
        let bad = &details.bad_request().unwrap().field_violations;
        assert_eq!(bad[0].field, "quantity");
        assert!(bad[0].description.contains("1 to 1000000000"), "{bad:?}");
    }
    for on_hand in [-1, i64::MIN] {
        let status = shop.client.clone().set_stock(set("tv", on_hand)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{on_hand}: {status:?}");
    }
    assert_eq!(shop.get("tv").await, [50, 50, 0, 0]);
}

async fn d13_an_order_that_is_sent_twice_is_deducted_once(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 50).await;
    let first = shop.reserve(reserve("tv", "order-1", 2)).await;
    assert_eq!((first.outcome(), first.replayed), (ReserveOutcome::Reserved, false));
    shop.advance(SECOND).await;
    // An order has one reservation, however long a repeat asks to hold it.
    for again in [reserve("tv", "order-1", 2), held(SECOND, reserve("tv", "order-1", 2))] {
        let again = shop.reserve(again).await;
        assert_eq!((again.outcome(), again.replayed), (ReserveOutcome::Reserved, true));
        assert_eq!(again.reservation.undated(), first.reservation.undated());
    }
    assert_eq!(shop.get("tv").await, [50, 48, 2, 0]);
    let confirmed = shop.confirm("tv", "order-1").await;
    assert_eq!(confirmed, (ConfirmOutcome::Confirmed, false));
    assert_eq!(shop.confirm("tv", "order-1").await.0, ConfirmOutcome::AlreadyConfirmed);
    assert_eq!(shop.get("tv").await, [48, 48, 0, 2]);
    let settled = shop.reserve(reserve("tv", "order-1", 2)).await;
    assert_eq!(settled.outcome(), ReserveOutcome::AlreadySettled);
    let reservation = settled.reservation.unwrap();
    assert_eq!((reservation.state(), reservation.quantity), (ReservationState::Confirmed, 2));
    assert_eq!(shop.get("tv").await, [48, 48, 0, 2]);
    // The same order of another SKU is another reservation.
    shop.set("radio", 1).await;
    assert_eq!(shop.asked(reserve("radio", "order-1", 1)).await, ReserveOutcome::Reserved);
}

async fn d14_quantities_are_exact_up_to_2_53_and_refused_above(world: World) {
    let shop = Shop::from_world(world).await;
    let most = MOST as u64;
    for on_hand in [MOST + 1, MOST + 2, i64::MAX] {
        let status = shop.client.clone().set_stock(set("sand", on_hand)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{on_hand}: {status:?}");
        assert!(status.message().contains("on_hand must be 0 to 9007199254740991"), "{status:?}");
        let status = shop.client.clone().add_stock(add("sand", -on_hand)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{on_hand}: {status:?}");
    }
    assert_eq!(shop.set("sand", MOST - 1).await, [most - 1, most - 1, 0, 0]);
    assert_eq!(shop.asked(reserve("sand", "a", 999_999_999)).await, ReserveOutcome::Reserved);
    assert_eq!(shop.get("sand").await, [most - 1, most - 1_000_000_000, 999_999_999, 0]);
    assert_eq!(shop.confirm("sand", "a").await.0, ConfirmOutcome::Confirmed);
    let sold = [most - 1_000_000_000, most - 1_000_000_000, 0, 999_999_999];
    assert_eq!(shop.get("sand").await, sold);
    // The bound applies to the sum of on hand and sold. Beyond it nothing changes.
    for delta in [2, 3, 1_000_000_001, MOST - 1, MOST] {
        let status = shop.client.clone().add_stock(add("sand", delta)).await.unwrap_err();
        assert_eq!(status.code(), Code::OutOfRange, "{delta}: {status:?}");
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "QUANTITY_TOO_LARGE");
        assert_eq!(shop.get("sand").await, sold);
    }
    let status = shop.client.clone().set_stock(set("sand", MOST - 999_999_998)).await.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    shop.add(add("sand", 1)).await;
    assert_eq!(shop.get("sand").await, [most - 999_999_999, most - 999_999_999, 0, 999_999_999]);
    // Exact to the last unit.
    shop.add(add("sand", -(MOST - 999_999_999) + 3)).await;
    assert_eq!(shop.get("sand").await, [3, 3, 0, 999_999_999]);
    let status = shop.client.clone().add_stock(add("sand", -4)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
    assert_eq!(shop.asked(reserve("sand", "b", 4)).await, ReserveOutcome::Short);
    assert_eq!(shop.asked(reserve("sand", "b", 3)).await, ReserveOutcome::Reserved);
}

async fn d19_a_hold_that_is_never_paid_lapses(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 1).await;
    assert_eq!(shop.asked(reserve("tv", "a", 1)).await, ReserveOutcome::Reserved);
    shop.advance(HOLD - Duration::from_micros(1)).await;
    let short = shop.reserve(reserve("tv", "b", 1)).await;
    assert_eq!(short.outcome(), ReserveOutcome::Short);
    // The remaining microsecond is a millisecond on the wire, and not 0.
    let wait = short.retry_after.expect("the hold of a ends");
    assert_eq!((wait.seconds, wait.nanos), (0, 1_000_000));
    // The hold lapses exactly at its end, without a call.
    shop.advance(Duration::from_micros(1)).await;
    assert_eq!(shop.get("tv").await, [1, 1, 0, 0]);
    assert_eq!(shop.asked(reserve("tv", "b", 1)).await, ReserveOutcome::Reserved);
    assert_eq!(shop.get("tv").await, [1, 0, 1, 0]);
}

async fn d19_a_late_payment_is_retaken_or_expired(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 2).await;
    for order in ["a", "b"] {
        shop.reserve(held(SECOND, reserve("tv", order, 1))).await;
    }
    shop.advance(SECOND).await;
    // The items are still available, and the order gets them.
    assert_eq!(shop.confirm("tv", "a").await, (ConfirmOutcome::Confirmed, true));
    assert_eq!(shop.get("tv").await, [1, 1, 0, 1]);
    // The items are held by another order.
    shop.reserve(held(SECOND, reserve("tv", "c", 1))).await;
    assert_eq!(shop.confirm("tv", "b").await, (ConfirmOutcome::Expired, false));
    assert_eq!(shop.confirm("tv", "b").await, (ConfirmOutcome::Expired, false));
    assert_eq!(shop.get("tv").await, [1, 0, 1, 1]);
    // The hold of c lapses too, and b can be confirmed.
    shop.advance(SECOND).await;
    assert_eq!(shop.confirm("tv", "b").await, (ConfirmOutcome::Confirmed, true));
    assert_eq!(shop.confirm("tv", "b").await, (ConfirmOutcome::AlreadyConfirmed, false));
    assert_eq!(shop.confirm("tv", "c").await, (ConfirmOutcome::Expired, false));
    assert_eq!(shop.get("tv").await, [0, 0, 0, 2]);
}

async fn d22_items_of_crashed_callers_return_to_stock(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 50).await;
    // The callers disconnect without reading their answers.
    let mut calls = JoinSet::new();
    for order in 0..200 {
        let mut client = shop.client.clone();
        let request = patient(reserve("tv", &format!("order {order}"), 1));
        calls.spawn(async move { client.reserve_stock(request).await });
        if order % 3 == 0 {
            calls.abort_all();
        }
    }
    while calls.join_next().await.is_some() {}
    let [on_hand, available, reserved, sold] = shop.get("tv").await;
    assert_eq!((on_hand, available + reserved, sold), (50, 50, 0));
    // Cancelled calls may still be in flight.
    for _ in 0..100 {
        shop.advance(HOLD).await;
        if shop.get("tv").await == [50, 50, 0, 0] {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(race(&shop, "tv", 100).await, (50, 50));
}
