//! Stored state of a SKU that the scripts did not write.

use std::collections::HashMap;

use tollgate_client::pb::{ConfirmOutcome, ReserveOutcome};
use tonic::Code;

use crate::support::{
    stocks::{Shop, add, by, cancel, confirm, get, reserve, set},
    world::World,
};

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_stock_is_an_error_and_is_not_changed() {
    let shop = Shop::from_world(World::redis().await).await;
    shop.set("other", 5).await;
    let score = (shop.world.time().now() - 1).to_string();
    let hold =
        |member: &'static str| ["ZADD", "{}:{stock:tv}:holds", &score, member].map(String::from);
    let field =
        |name: &str, value: &str| ["HSET", "{}:{stock:tv}:stock", name, value].map(String::from);
    let all: Vec<Vec<String>> = vec![
        field("on_hand", "ten").into(),
        field("on_hand", "").into(),
        field("on_hand", "-1").into(),
        field("on_hand", "007").into(),
        field("on_hand", "9007199254740992").into(),
        field("on_hand", "99999999999999999999").into(),
        field("on_hand", "1").into(), // Fewer than are reserved.
        field("reserved", "1e3").into(),
        field("reserved", "11").into(),
        field("sold", "9007199254740990").into(),
        ["HDEL", "{}:{stock:tv}:stock", "sold"].map(String::from).into(),
        ["SET", "{}:{stock:tv}:stock", "5"].map(String::from).into(),
        ["SET", "{}:{stock:tv}:holds", "5"].map(String::from).into(),
        hold("junk").into(),
        hold("o\x1fmany\x1fann\x1f5").into(),
        hold("o\x1f0099999999999\x1fann\x1f5").into(),
        hold("o\x1f9\x1f\x1f5").into(),       // More than is reserved.
        hold("o\x1f1\x1fnobody\x1f5").into(), // A buyer without items.
    ];
    for damage in all {
        shop.world.tamper(&["DEL", "{}:{stock:tv}:stock", "{}:{stock:tv}:holds"]).await;
        shop.world.tamper(&["DEL", "{}:{stock:tv}:buyers", "{}:{stock:tv}:order:a"]).await;
        shop.set("tv", 10).await;
        shop.reserve(by("ann", None, reserve("tv", "a", 2))).await;
        let command: Vec<&str> = damage.iter().map(String::as_str).collect();
        if command[0] == "SET" {
            shop.world.tamper(&["DEL", command[1]]).await;
        }
        shop.world.tamper(&command).await;
        let before = dump(&shop).await;
        for status in refusals(&shop).await {
            assert_eq!(status.code(), Code::Internal, "{damage:?}: {status:?}");
            assert!(status.message().contains("lua/README.md"), "{damage:?}: {status:?}");
        }
        assert_eq!(dump(&shop).await, before, "{damage:?}");
        assert_eq!(shop.get("other").await, [5, 5, 0, 0]);
        // As lua/README.md says: after the repair the holds are deleted, and their orders count as
        // lapsed.
        let keys = ["stock", "holds", "buyers"].map(|part| format!("{{}}:{{stock:tv}}:{part}"));
        shop.world.tamper(&["DEL", &keys[0], &keys[1], &keys[2]]).await;
        let levels = ["HSET", &keys[0], "on_hand", "4", "reserved", "0", "sold", "3"];
        shop.world.tamper(&levels).await;
        assert_eq!(shop.confirm("tv", "a").await, (ConfirmOutcome::Confirmed, true));
        assert_eq!(shop.get("tv").await, [2, 2, 0, 5]);
    }
}

/// Returns all values in the keys of the SKU `tv`.
async fn dump(shop: &Shop) -> HashMap<String, Option<::redis::Value>> {
    let mut dump = HashMap::new();
    for key in shop.world.keys().await.into_iter().filter(|key| key.starts_with("{stock:tv}")) {
        let value = shop.world.tamper(&["DUMP", &format!("{{}}:{key}")]).await;
        dump.insert(key, value);
    }
    dump
}

/// Returns the errors of all verbs.
async fn refusals(shop: &Shop) -> Vec<tonic::Status> {
    let mut client = shop.client.clone();
    let answers = [
        client.set_stock(set("tv", 5)).await.map(drop),
        client.add_stock(add("tv", 5)).await.map(drop),
        client.reserve_stock(by("ann", 50, reserve("tv", "b", 1))).await.map(drop),
        client.confirm_reservation(confirm("tv", "a")).await.map(drop),
        client.cancel_reservation(cancel("tv", "a")).await.map(drop),
        client.get_stock(get("tv")).await.map(drop),
    ];
    answers.into_iter().map(|answer| answer.expect_err("what is stored is damaged")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_order_or_buyer_affects_no_other() {
    let shop = Shop::from_world(World::redis().await).await;
    shop.set("tv", 10).await;
    let mut client = shop.client.clone();
    let record = "{}:{stock:tv}:order:a";
    for bad in ["", "H", "Z 1 1 1 9999999999999999 0 ", "H 0 1 1 4000000000000000 0 ann"] {
        shop.world.tamper(&["SET", record, bad]).await;
        for refused in [
            client.reserve_stock(reserve("tv", "a", 1)).await.map(drop),
            client.confirm_reservation(confirm("tv", "a")).await.map(drop),
            client.cancel_reservation(cancel("tv", "a")).await.map(drop),
        ] {
            let status = refused.unwrap_err();
            assert_eq!(status.code(), Code::Internal, "{bad:?}: {status:?}");
            assert!(status.message().contains("record of the order"), "{bad:?}: {status:?}");
        }
        assert_eq!(shop.asked(reserve("tv", "b", 1)).await, ReserveOutcome::Reserved);
    }
    shop.world.tamper(&["DEL", record]).await;
    shop.world.tamper(&["RPUSH", record, "1"]).await;
    let status = client.reserve_stock(reserve("tv", "a", 1)).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status:?}");
    shop.world.tamper(&["DEL", record]).await;
    assert_eq!(shop.asked(reserve("tv", "a", 1)).await, ReserveOutcome::Reserved);

    shop.world.tamper(&["HSET", "{}:{stock:tv}:buyers", "ann", "some"]).await;
    let status = client.reserve_stock(by("ann", 5, reserve("tv", "c", 1))).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal, "{status:?}");
    assert_eq!(shop.asked(by("bob", 5, reserve("tv", "c", 1))).await, ReserveOutcome::Reserved);
    assert_eq!(shop.get("tv").await, [10, 7, 3, 0]);
    // An unreadable replay entry is ignored: the stock is added again.
    for bad in ["junk", "9999999999999999 1 2 3", "9999999999999999 1 0"] {
        shop.world.tamper(&["SET", "{}:{stock:tv}:replay:r", bad]).await;
        let mut named = add("tv", 1);
        named.request_id = "r".into();
        assert!(!shop.add(named).await.replayed, "{bad}");
    }
}
