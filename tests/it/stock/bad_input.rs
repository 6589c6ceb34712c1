//! Invalid requests about stock.

use std::time::Duration;

use tollgate_client::pb;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::{
    stocks::{Shop, add, by, cancel, confirm, get, held, reserve, set},
    world::World,
};

const MOST: i64 = (1 << 53) - 1;
const DAY: Duration = Duration::from_secs(86_400);

on_both_engines! {
    every_bad_field_is_named_and_nothing_is_written,
    a_message_that_is_too_large_is_refused,
}

fn fields(status: &Status) -> Vec<String> {
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    let details = status.get_error_details();
    let violations = &details.bad_request().unwrap().field_violations;
    violations.iter().map(|bad| bad.field.clone()).collect()
}

async fn every_bad_field_is_named_and_nothing_is_written(world: World) {
    let shop = Shop::from_world(world).await;
    let mut client = shop.client.clone();
    let long = "x".repeat(257);
    let bad_names = ["", &long, "a\nb", "\u{7f}", "\u{85}"];
    for bad in bad_names {
        let refused: [(Result<(), Status>, &[&str]); 8] = [
            (client.set_stock(set(bad, 1)).await.map(drop), &["sku"]),
            (client.add_stock(add(bad, 1)).await.map(drop), &["sku"]),
            (client.reserve_stock(reserve(bad, "o", 1)).await.map(drop), &["sku"]),
            (client.reserve_stock(reserve("a", bad, 1)).await.map(drop), &["order_id"]),
            (client.confirm_reservation(confirm(bad, bad)).await.map(drop), &["sku", "order_id"]),
            (client.confirm_reservation(confirm("a", bad)).await.map(drop), &["order_id"]),
            (client.cancel_reservation(cancel(bad, bad)).await.map(drop), &["sku", "order_id"]),
            (client.get_stock(get(bad)).await.map(drop), &["sku"]),
        ];
        for (refused, expected) in refused {
            assert_eq!(fields(&refused.unwrap_err()), expected, "{bad:?}");
        }
        if bad.is_empty() {
            continue;
        }
        let named = pb::AddStockRequest { request_id: bad.into(), ..add("a", 1) };
        assert_eq!(fields(&client.add_stock(named).await.unwrap_err()), ["request_id"]);
        let bought = by(bad, 1, reserve("a", "o", 1));
        assert_eq!(fields(&client.reserve_stock(bought).await.unwrap_err()), ["buyer_id"]);
    }

    let none = pb::SetStockRequest { sku: "a".into(), on_hand: None };
    for bad in [none, set("a", -1), set("a", MOST + 1), set("a", i64::MIN)] {
        assert_eq!(fields(&client.set_stock(bad).await.unwrap_err()), ["on_hand"]);
    }
    for delta in [0, MOST + 1, -MOST - 1, i64::MAX, i64::MIN] {
        let status = client.add_stock(add("a", delta)).await.unwrap_err();
        assert_eq!(fields(&status), ["delta"], "{delta}");
    }
    let all = by("", 0, held(Duration::ZERO, reserve("", "\n", 0)));
    let negative = pb::ReserveStockRequest {
        hold_duration: Some(prost_types::Duration { seconds: -1, nanos: 0 }),
        ..reserve("a", "o", 1)
    };
    for (bad, expected) in [
        (reserve("a", "o", 0), &["quantity"][..]),
        (reserve("a", "o", 1_000_000_001), &["quantity"]),
        (held(Duration::ZERO, reserve("a", "o", 1)), &["hold_duration"]),
        (negative, &["hold_duration"]),
        (held(30 * DAY + Duration::from_millis(1), reserve("a", "o", 1)), &["hold_duration"]),
        (by("", 1, reserve("a", "o", 1)), &["buyer_id"]),
        (by("ann", 0, reserve("a", "o", 1)), &["buyer_limit"]),
        (by("ann", -5, reserve("a", "o", 1)), &["buyer_limit"]),
        (by("ann", MOST + 1, reserve("a", "o", 1)), &["buyer_limit"]),
        (all, &["sku", "order_id", "quantity", "hold_duration", "buyer_id", "buyer_limit"]),
    ] {
        let status = client.reserve_stock(bad.clone()).await.unwrap_err();
        assert_eq!(fields(&status), expected, "{bad:?}");
    }
    assert_eq!(shop.world.keys().await, [] as [String; 0]);
    // Values at the bounds are accepted.
    let longest = "x".repeat(256);
    shop.set(&longest, MOST).await;
    let most = by(&longest, MOST, held(30 * DAY, reserve(&longest, &longest, 1_000_000_000)));
    shop.reserve(most).await;
    shop.add(pb::AddStockRequest { request_id: longest.clone(), ..add(&longest, -1) }).await;
}

async fn a_message_that_is_too_large_is_refused(world: World) {
    let shop = Shop::from_world(world).await;
    let status = shop.client.clone().get_stock(get(&"x".repeat(70_000))).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
}
