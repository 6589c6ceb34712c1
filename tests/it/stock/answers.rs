//! Answers of the stock contract that no scenario covers, on both engines.

use std::time::Duration;

use tollgate_client::pb::{self, CancelOutcome, ConfirmOutcome, ReservationState, ReserveOutcome};
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    stocks::{Shop, add, by, cancel, confirm, get, held, reserve, set},
    world::{START, World, length},
};

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

on_both_engines! {
    an_unknown_sku_is_not_found,
    a_reservation_has_its_items_and_its_end,
    set_stock_keeps_reserved_and_sold,
    add_stock_repeats_its_answer_to_a_request,
    the_limit_of_a_buyer_is_enforced,
    a_limit_counts_for_late_payments_too,
    short_returns_the_time_until_the_next_release,
    a_settled_reservation_does_not_change,
    orders_are_forgotten_after_a_day,
    different_names_share_no_state,
    holds_are_counted_until_they_end,
}

async fn an_unknown_sku_is_not_found(world: World) {
    let shop = Shop::from_world(world).await;
    let mut client = shop.client.clone();
    shop.set("other", 5).await;
    for refused in [
        client.add_stock(add("tv", 1)).await.map(drop),
        client.reserve_stock(reserve("tv", "o", 1)).await.map(drop),
        client.confirm_reservation(confirm("tv", "o")).await.map(drop),
        client.cancel_reservation(cancel("tv", "o")).await.map(drop),
        client.get_stock(get("tv")).await.map(drop),
    ] {
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{status:?}");
        assert!(status.message().contains("`tv`; create it with SetStock"), "{status:?}");
        let details = status.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "STOCK_NOT_FOUND");
    }
    let keys = shop.world.keys().await;
    assert!(keys.iter().all(|key| !key.contains("tv")), "{keys:?}");
    // A SKU with nothing on hand is known.
    assert_eq!(shop.set("tv", 0).await, [0, 0, 0, 0]);
    assert_eq!(shop.get("tv").await, [0, 0, 0, 0]);
    assert_eq!(shop.asked(reserve("tv", "o", 1)).await, ReserveOutcome::Short);
}

async fn a_reservation_has_its_items_and_its_end(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 50).await;
    let response = shop.reserve(by("ann", 3, reserve("tv", "order-1", 3))).await;
    let reservation = response.reservation.unwrap();
    let [reserved, expires] = [&reservation.reserve_time, &reservation.expire_time]
        .map(|time| time.as_ref().unwrap().seconds as u64);
    assert_eq!((reserved, expires - reserved), (START / 1_000_000, 15 * 60));
    let parts = (reservation.sku.as_str(), reservation.order_id.as_str());
    assert_eq!((parts, reservation.quantity), (("tv", "order-1"), 3));
    assert_eq!(
        (reservation.buyer_id.as_str(), reservation.state()),
        ("ann", ReservationState::Held)
    );
    for hold in [Duration::from_millis(100), 30 * DAY] {
        let order = format!("{hold:?}");
        let response = shop.reserve(held(hold, reserve("tv", &order, 1))).await;
        let reservation = response.reservation.unwrap();
        let [from, until] = [reservation.reserve_time, reservation.expire_time]
            .map(|time| Duration::try_from(prost_types_duration(time.unwrap())).unwrap());
        assert_eq!(until - from, hold);
        assert_eq!(length(reservation.expires_in), hold);
    }
    shop.world.advance(SECOND).await;
    let again = shop.reserve(reserve("tv", "order-1", 3)).await;
    assert!(again.replayed);
    assert_eq!(length(again.reservation.unwrap().expires_in), Duration::from_secs(899));
    shop.confirm("tv", "order-1").await;
    let settled = shop.reserve(reserve("tv", "order-1", 3)).await.reservation.unwrap();
    assert_eq!((settled.state(), settled.expires_in), (ReservationState::Confirmed, None));
}

async fn holds_are_counted_until_they_end(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 1000).await;
    assert_eq!(shop.holds("tv").await, 0);
    for (order, quantity) in [("a", 3), ("b", 2), ("c", 4), ("b", 2)] {
        shop.reserve(reserve("tv", order, quantity)).await;
    }
    assert_eq!((shop.holds("tv").await, shop.get("tv").await[2]), (3, 9));
    shop.confirm("tv", "a").await;
    shop.cancel("tv", "b").await;
    assert_eq!(shop.holds("tv").await, 1);
    // More holds lapse together than one decision reclaims.
    for order in 0..600 {
        shop.reserve(held(SECOND, reserve("tv", &format!("order {order}"), 1))).await;
    }
    assert_eq!(shop.holds("tv").await, 601);
    shop.advance(SECOND).await;
    assert_eq!((shop.holds("tv").await, shop.get("tv").await[2]), (1, 4));
}

/// Returns a time as the duration since the Unix epoch.
fn prost_types_duration(time: prost_types::Timestamp) -> prost_types::Duration {
    prost_types::Duration { seconds: time.seconds, nanos: time.nanos }
}

async fn set_stock_keeps_reserved_and_sold(world: World) {
    let shop = Shop::from_world(world).await;
    let mut client = shop.client.clone();
    shop.set("tv", 10).await;
    shop.reserve(held(SECOND, reserve("tv", "a", 4))).await;
    shop.reserve(reserve("tv", "b", 3)).await;
    shop.confirm("tv", "b").await;
    assert_eq!(shop.get("tv").await, [7, 3, 4, 3]);
    assert_eq!(shop.set("tv", 4).await, [4, 0, 4, 3]);
    for refused in [
        client.set_stock(set("tv", 3)).await.map(drop),
        client.add_stock(add("tv", -1)).await.map(drop),
        client.add_stock(add("tv", -((1 << 53) - 1))).await.map(drop),
    ] {
        let status = refused.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{status:?}");
        assert!(
            status.message().contains("`tv` must not be below the reserved quantity, 4"),
            "{status:?}"
        );
        let details = status.get_error_details();
        let violations = &details.precondition_failure().unwrap().violations;
        assert_eq!((&*violations[0].r#type, &*violations[0].subject), ("RESERVED", "tv"));
    }
    assert_eq!(shop.set("tv", 100).await, [100, 96, 4, 3]);
    // A lapsed hold no longer limits the stock.
    shop.advance(SECOND).await;
    assert_eq!(shop.set("tv", 0).await, [0, 0, 0, 3]);
}

async fn add_stock_repeats_its_answer_to_a_request(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 10).await;
    let named = |id: &str, delta| pb::AddStockRequest { request_id: id.into(), ..add("tv", delta) };
    let first = shop.add(named("truck-1", 5)).await;
    assert!(!first.replayed);
    shop.reserve(reserve("tv", "a", 1)).await;
    for again in [named("truck-1", 5), named("truck-1", -3)] {
        let again = shop.add(again).await;
        assert!(again.replayed);
        assert_eq!(again.stock, first.stock, "as it was then");
    }
    assert!(!shop.add(named("truck-2", 5)).await.replayed);
    assert_eq!(shop.get("tv").await, [20, 19, 1, 0]);
    // A refused request can be sent again.
    let status = shop.client.clone().add_stock(named("recall", -20)).await.unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    shop.cancel("tv", "a").await;
    assert!(!shop.add(named("recall", -20)).await.replayed);
    // Without a request id, or after 5 minutes, a call is a new request.
    shop.add(add("tv", 1)).await;
    shop.add(add("tv", 1)).await;
    shop.advance(Duration::from_secs(300) - Duration::from_micros(1)).await;
    assert!(shop.add(named("truck-1", 5)).await.replayed);
    shop.advance(Duration::from_micros(1)).await;
    assert!(!shop.add(named("truck-1", 5)).await.replayed);
    assert_eq!(shop.get("tv").await, [7, 7, 0, 0]);
}

async fn the_limit_of_a_buyer_is_enforced(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 50).await;
    let ask = |order: &str, quantity| by("ann", 3, held(SECOND, reserve("tv", order, quantity)));
    assert_eq!(shop.asked(ask("1", 4)).await, ReserveOutcome::BuyerLimit);
    assert_eq!(shop.asked(ask("1", 2)).await, ReserveOutcome::Reserved);
    let over = shop.reserve(ask("2", 2)).await;
    assert_eq!((over.outcome(), over.buyer_quantity), (ReserveOutcome::BuyerLimit, 2));
    assert!(over.reservation.is_none() && over.retry_after.is_none());
    assert_eq!(shop.asked(ask("2", 1)).await, ReserveOutcome::Reserved);
    // Repeats are not counted again. Other buyers and other SKUs have separate limits.
    assert!(shop.reserve(ask("2", 1)).await.replayed);
    assert_eq!(shop.asked(by("bob", 3, reserve("tv", "3", 3))).await, ReserveOutcome::Reserved);
    shop.set("radio", 9).await;
    assert_eq!(shop.asked(by("ann", 1, reserve("radio", "1", 1))).await, ReserveOutcome::Reserved);
    // Cancelled and lapsed items no longer count; bought items do.
    assert_eq!(shop.cancel("tv", "2").await, CancelOutcome::Cancelled);
    assert_eq!(shop.confirm("tv", "1").await.0, ConfirmOutcome::Confirmed);
    assert_eq!(shop.asked(ask("4", 1)).await, ReserveOutcome::Reserved);
    assert_eq!(shop.asked(ask("5", 1)).await, ReserveOutcome::BuyerLimit);
    shop.advance(40 * DAY).await;
    assert_eq!(shop.reserve(ask("5", 2)).await.buyer_quantity, 2);
    assert_eq!(shop.asked(ask("5", 1)).await, ReserveOutcome::Reserved);
    // Without a limit a buyer may have more, and those items count as well.
    assert_eq!(shop.asked(by("ann", None, reserve("tv", "6", 5))).await, ReserveOutcome::Reserved);
    assert_eq!(shop.reserve(ask("7", 1)).await.buyer_quantity, 8);
}

async fn a_limit_counts_for_late_payments_too(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 50).await;
    for order in ["1", "2"] {
        let ask = by("ann", 2, held(SECOND, reserve("tv", order, 2)));
        assert_eq!(shop.asked(ask).await, ReserveOutcome::Reserved);
        shop.advance(SECOND).await;
    }
    assert_eq!(shop.confirm("tv", "2").await, (ConfirmOutcome::Confirmed, true));
    // Enough items are available, but the buyer's limit is reached.
    assert_eq!(shop.confirm("tv", "1").await, (ConfirmOutcome::Expired, false));
    assert_eq!(shop.get("tv").await, [48, 48, 0, 2]);
}

async fn short_returns_the_time_until_the_next_release(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 5).await;
    shop.reserve(held(60 * SECOND, reserve("tv", "a", 2))).await;
    shop.reserve(held(20 * SECOND, reserve("tv", "b", 2))).await;
    let wait = async |quantity| {
        let response = shop.reserve(reserve("tv", "c", quantity)).await;
        assert_eq!(response.outcome(), ReserveOutcome::Short, "{quantity}");
        assert!(response.reservation.is_none());
        response.retry_after.map(|wait| Duration::try_from(wait).unwrap())
    };
    assert_eq!(wait(2).await, Some(20 * SECOND));
    assert_eq!(wait(5).await, Some(20 * SECOND), "the earliest end of a hold, though not enough");
    assert_eq!(wait(6).await, None, "more than on hand");
    shop.confirm("tv", "b").await;
    assert_eq!(wait(2).await, Some(60 * SECOND));
    shop.confirm("tv", "a").await;
    assert_eq!(wait(2).await, None, "sold out");
}

async fn a_settled_reservation_does_not_change(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 5).await;
    assert_eq!(shop.confirm("tv", "a").await, (ConfirmOutcome::Unknown, false));
    assert_eq!(shop.cancel("tv", "a").await, CancelOutcome::Unknown);
    for order in ["a", "b", "c"] {
        shop.reserve(held(SECOND, reserve("tv", order, 1))).await;
    }
    assert_eq!(shop.cancel("tv", "a").await, CancelOutcome::Cancelled);
    assert_eq!(shop.cancel("tv", "a").await, CancelOutcome::AlreadyCancelled);
    assert_eq!(shop.confirm("tv", "a").await, (ConfirmOutcome::Cancelled, false));
    let again = shop.reserve(reserve("tv", "a", 1)).await;
    assert_eq!(again.outcome(), ReserveOutcome::AlreadySettled);
    assert_eq!(again.reservation.unwrap().state(), ReservationState::Cancelled);

    assert_eq!(shop.confirm("tv", "b").await, (ConfirmOutcome::Confirmed, false));
    assert_eq!(shop.cancel("tv", "b").await, CancelOutcome::AlreadyConfirmed);
    assert_eq!(shop.get("tv").await, [4, 3, 1, 1]);

    shop.advance(SECOND).await;
    for _ in 0..2 {
        assert_eq!(shop.cancel("tv", "c").await, CancelOutcome::Expired);
    }
    assert_eq!(shop.get("tv").await, [4, 4, 0, 1]);
    // The hold has lapsed, so the order can be reserved again.
    let anew = shop.reserve(reserve("tv", "c", 2)).await;
    assert_eq!((anew.outcome(), anew.replayed), (ReserveOutcome::Reserved, false));
    assert_eq!(shop.confirm("tv", "c").await, (ConfirmOutcome::Confirmed, false));
    assert_eq!(shop.get("tv").await, [2, 2, 0, 3]);
}

async fn orders_are_forgotten_after_a_day(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 9).await;
    for order in ["sold", "cancelled", "lapsed"] {
        shop.reserve(held(SECOND, reserve("tv", order, 1))).await;
    }
    shop.confirm("tv", "sold").await;
    shop.cancel("tv", "cancelled").await;
    shop.advance(DAY - Duration::from_micros(1)).await;
    assert_eq!(shop.confirm("tv", "sold").await.0, ConfirmOutcome::AlreadyConfirmed);
    assert_eq!(shop.confirm("tv", "cancelled").await.0, ConfirmOutcome::Cancelled);
    shop.advance(Duration::from_micros(1)).await;
    assert_eq!(shop.confirm("tv", "sold").await.0, ConfirmOutcome::Unknown);
    assert_eq!(shop.confirm("tv", "cancelled").await.0, ConfirmOutcome::Unknown);
    assert_eq!(shop.cancel("tv", "lapsed").await, CancelOutcome::Expired);
    shop.advance(SECOND).await;
    assert_eq!(shop.cancel("tv", "lapsed").await, CancelOutcome::Unknown);
    assert_eq!(shop.confirm("tv", "lapsed").await.0, ConfirmOutcome::Unknown);
    // Sold items stay sold.
    assert_eq!(shop.get("tv").await, [8, 8, 0, 1]);
}

async fn different_names_share_no_state(world: World) {
    let shop = Shop::from_world(world).await;
    let names = ["a", "a}", "a%7D", "{a", "}", "%", "*", "a:b", "a b", "é", "a}:stock", "ab"];
    for (index, name) in names.iter().enumerate() {
        shop.set(name, index as i64 + 20).await;
        // Orders and buyers with such names, too.
        for order in names {
            let response = shop.reserve(by(order, 1, reserve(name, order, 1))).await;
            assert_eq!(response.outcome(), ReserveOutcome::Reserved, "{name} {order}");
            assert!(!response.replayed, "{name} {order}");
        }
    }
    shop.advance(DAY / 2).await;
    for (index, name) in names.iter().enumerate() {
        let on_hand = index as u64 + 20;
        assert_eq!(shop.get(name).await, [on_hand, on_hand, 0, 0], "{name}");
    }
}
