//! Stock under faults: many holds that lapse together, lost replies, clocks that are set back. Also
//! the cost of a decision in Redis.

use std::time::Duration;

use tokio::task::JoinSet;
use tollgate_client::pb::{CancelOutcome, ConfirmOutcome, ReserveOutcome};
use tonic::Code;

use crate::support::{
    process::{OwnRedis, Server, free_port},
    stocks::{Shop, Stocks, add, by, cancel, confirm, get, held, levels, patient, reserve, set},
    wire::Wire,
    world::World,
};

const SECOND: Duration = Duration::from_secs(1);
const CROWD: i64 = 10_000;

on_both_engines! {
    ten_thousand_holds_may_lapse_together,
    a_clock_that_is_set_back_sells_no_item_twice,
}

/// Reserves all of `crowd` for different buyers, and lets all holds lapse.
async fn lapsed(shop: &Shop) {
    shop.set("crowd", CROWD).await;
    let mut calls = JoinSet::new();
    for order in 0..CROWD {
        let mut client = shop.client.clone();
        let ask = reserve("crowd", &format!("order {order}"), 1);
        let ask = by(&format!("buyer {order}"), 1, held(60 * SECOND, ask));
        calls.spawn(async move { client.reserve_stock(patient(ask)).await.unwrap() });
        while calls.len() > 200 {
            calls.join_next().await;
        }
    }
    let ended = calls.join_all().await;
    assert!(ended.iter().all(|one| one.get_ref().outcome() == ReserveOutcome::Reserved));
    shop.advance(60 * SECOND).await;
}

async fn ten_thousand_holds_may_lapse_together(world: World) {
    let shop = Shop::from_world(world).await;
    let all = CROWD as u64;
    // The next call is answered correctly, whatever it asks for.
    lapsed(&shop).await;
    assert_eq!(shop.get("crowd").await, [all, all, 0, 0]);

    lapsed(&shop).await;
    let last = shop.reserve(reserve("crowd", "all of it", CROWD)).await;
    assert_eq!(last.outcome(), ReserveOutcome::Reserved);
    assert_eq!(shop.cancel("crowd", "all of it").await, CancelOutcome::Cancelled);

    lapsed(&shop).await;
    let confirmed = shop.confirm("crowd", "order 9999").await;
    assert_eq!(confirmed, (ConfirmOutcome::Confirmed, true));
    assert_eq!(shop.get("crowd").await, [all - 1, all - 1, 0, 1]);
    assert_eq!(shop.set("crowd", 0).await, [0, 0, 0, 1]);
    assert_eq!(shop.cancel("crowd", "order 5").await, CancelOutcome::Expired);
}

/// The holds are written directly to Redis, since reserving them takes long.
#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_holds_that_expire_together_are_reclaimed_in_steps() {
    let shop = Shop::from_world(World::redis().await).await;
    let (stock, holds, buyers) =
        ("{}:{stock:tv}:stock", "{}:{stock:tv}:holds", "{}:{stock:tv}:buyers");
    for refused in [false, true] {
        let number = "100000";
        let levels = ["HSET", stock, "on_hand", number, "reserved", number, "sold", "0"];
        shop.world.tamper(&levels).await;
        for chunk in 0..100 {
            let orders = (0..1000).map(|order| chunk * 1000 + order);
            let score = (shop.world.time().now() - 1).to_string();
            let members: Vec<String> =
                orders.clone().map(|n| format!("o{n}\x1f1\x1fb{n}\x1f{score}")).collect();
            let scored = members.iter().flat_map(|member| [&*score, member]);
            let command: Vec<&str> = ["ZADD", holds].into_iter().chain(scored).collect();
            shop.world.tamper(&command).await;
            let names: Vec<String> = orders.map(|n| format!("b{n}")).collect();
            let counts = names.iter().flat_map(|name| [&**name, "1"]);
            let command: Vec<&str> = ["HSET", buyers].into_iter().chain(counts).collect();
            shop.world.tamper(&command).await;
        }
        // A call with a short deadline does no harm, whatever its answer is.
        let mut hasty = patient(get("tv"));
        hasty.set_timeout(Duration::from_millis(20));
        let _ = shop.client.clone().get_stock(hasty).await;
        // A reservation is granted as soon as enough holds are reclaimed. It is refused only after
        // all of them are.
        let quantity = if refused { 100_000 } else { 1_000 };
        let response = shop.reserve(reserve("tv", &format!("{refused}"), quantity)).await;
        assert_eq!(response.outcome(), ReserveOutcome::Reserved);
        assert_eq!(shop.cancel("tv", &format!("{refused}")).await, CancelOutcome::Cancelled);
        assert_eq!(shop.get("tv").await, [100_000, 100_000, 0, 0]);
        let left = shop.world.tamper(&["EXISTS", holds, buyers]).await;
        assert_eq!(left, Some(::redis::Value::Int(0)), "no hold and no buyer is left");
    }
}

async fn a_clock_that_is_set_back_sells_no_item_twice(world: World) {
    let shop = Shop::from_world(world).await;
    shop.set("tv", 2).await;
    for order in ["a", "b"] {
        shop.reserve(by("ann", 2, held(10 * SECOND, reserve("tv", order, 1)))).await;
    }
    shop.advance(10 * SECOND).await;
    // Both have lapsed, and their items are reserved for another order.
    assert_eq!(
        shop.asked(held(100 * SECOND, reserve("tv", "c", 2))).await,
        ReserveOutcome::Reserved
    );
    shop.world.time().set_back(9_000_000).await;
    // By the clock they have not ended, but their items are no longer held.
    assert_eq!(shop.confirm("tv", "a").await, (ConfirmOutcome::Expired, false));
    assert_eq!(shop.cancel("tv", "b").await, CancelOutcome::Expired);
    assert_eq!(shop.asked(reserve("tv", "a", 1)).await, ReserveOutcome::Short);
    assert_eq!(shop.get("tv").await, [2, 0, 2, 0]);
    assert!(shop.reserve(reserve("tv", "c", 2)).await.replayed);
    assert_eq!(shop.cancel("tv", "c").await, CancelOutcome::Cancelled);
    assert_eq!(shop.confirm("tv", "a").await, (ConfirmOutcome::Confirmed, true));
    let again = shop.reserve(by("ann", 2, held(10 * SECOND, reserve("tv", "b", 1)))).await;
    assert_eq!((again.outcome(), again.replayed), (ReserveOutcome::Reserved, false));
    assert_eq!(shop.get("tv").await, [1, 0, 1, 1]);
    shop.advance(10 * SECOND).await;
    assert_eq!(shop.get("tv").await, [1, 1, 0, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_changes_no_stock_twice() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let server = Server::start(&["--engine", &format!("redis://127.0.0.1:{}", wire.port)]).await;
    let mut client = Stocks::connect(server.address()).await.unwrap();
    while client.set_stock(set("warm", 10)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Loads every script before a reply is lost.
    client.reserve_stock(reserve("warm", "a", 2)).await.unwrap();
    client.confirm_reservation(confirm("warm", "a")).await.unwrap();
    client.cancel_reservation(cancel("warm", "a")).await.unwrap();
    client.add_stock(add("warm", 1)).await.unwrap();
    client.set_stock(set("tv", 10)).await.unwrap();
    // The server repeats the call immediately, and the engine finds the first outcome.
    wire.lose_decision();
    let response = client.reserve_stock(reserve("tv", "a", 2)).await.unwrap().into_inner();
    assert_eq!((response.outcome(), response.replayed), (ReserveOutcome::Reserved, true));
    wire.lose_decision();
    let response = client.confirm_reservation(confirm("tv", "a")).await.unwrap().into_inner();
    assert_eq!(response.outcome(), ConfirmOutcome::AlreadyConfirmed);
    client.reserve_stock(reserve("tv", "b", 1)).await.unwrap();
    wire.lose_decision();
    let response = client.cancel_reservation(cancel("tv", "b")).await.unwrap().into_inner();
    assert_eq!(response.outcome(), CancelOutcome::AlreadyCancelled);
    wire.lose_decision();
    let mut named = add("tv", 5);
    named.request_id = "truck".into();
    assert!(client.add_stock(named).await.unwrap().into_inner().replayed);
    let stock = client.get_stock(get("tv")).await.unwrap().into_inner().stock;
    assert_eq!(levels(stock), [13, 13, 0, 2]);

    // A call that is not safe to repeat is sent once: it is unknown whether it was executed.
    wire.lose_decision();
    let status = client.add_stock(add("tv", 5)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    let stock = client.get_stock(get("tv")).await.unwrap().into_inner().stock;
    assert_eq!(levels(stock), [18, 18, 0, 2]);
    wire.lose_decision();
    let status = client.set_stock(set("tv", 9)).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    let stock = client.get_stock(get("tv")).await.unwrap().into_inner().stock;
    assert_eq!(levels(stock), [9, 9, 0, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_works_after_script_flush_in_a_cluster() {
    let mut redis = OwnRedis::prepare();
    let bus = free_port().to_string();
    redis.start_with(&["--cluster-enabled", "yes", "--cluster-port", &bus]).await;
    redis.command(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]).await.unwrap();
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = Stocks::connect(server.address()).await.unwrap();
    while client.set_stock(set("a}b", 100)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for order in 0..40 {
        let order = format!("order {order}");
        redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
        let asked = by("ann}", None, reserve("a}b", &order, 1));
        let response = client.reserve_stock(asked).await.unwrap().into_inner();
        assert_eq!(response.outcome(), ReserveOutcome::Reserved);
        client.confirm_reservation(confirm("a}b", &order)).await.unwrap();
        client.cancel_reservation(cancel("a}b", &order)).await.unwrap();
    }
    let stock = client.get_stock(get("a}b")).await.unwrap().into_inner().stock;
    assert_eq!(levels(stock), [60, 60, 0, 40]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_one_evalsha_and_a_few_commands() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = Stocks::connect(server.address()).await.unwrap();
    while client.set_stock(set("tv", 1000)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let round = async |client: &mut Stocks, round: &str| {
        let order = |kind: &str| by("ann", None, reserve("tv", &format!("{kind} {round}"), 1));
        for kind in ["sold", "cancelled", "sold"] {
            client.reserve_stock(order(kind)).await.unwrap();
        }
        client.confirm_reservation(confirm("tv", &format!("sold {round}"))).await.unwrap();
        client.cancel_reservation(cancel("tv", &format!("cancelled {round}"))).await.unwrap();
        client.add_stock(add("tv", 1)).await.unwrap();
        client.get_stock(get("tv")).await.unwrap();
    };
    round(&mut client, "warm").await;
    crate::engine::round_trips::reset(&redis).await;
    for number in 0..20 {
        round(&mut client, &number.to_string()).await;
    }
    let counted = crate::engine::round_trips::calls(&redis).await;
    // The plain script may decline the repeat of a reservation.
    let calls = counted["evalsha"];
    assert!((20 * 7..=20 * 8).contains(&calls), "{counted:?}");
    // Each script call reads the quantities once. Keys are written only if they change.
    assert_eq!(counted.get("hmget"), Some(&calls), "{counted:?}");
    assert_eq!(counted.get("zadd"), Some(&(20 * 2)), "{counted:?}");
    assert_eq!(counted.get("set"), Some(&(20 * 4)), "{counted:?}");
    for outside in ["eval", "script|load", "zremrangebyrank", "scan", "keys"] {
        assert!(!counted.contains_key(outside), "{outside} was called: {counted:?}");
    }
}
