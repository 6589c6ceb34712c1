//! J16: values under the keys of Tollgate that no server has written.

use std::time::Duration;

use tokio::time::sleep;
use tollgate_client::pb;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::support::{
    process::{OwnRedis, Server},
    stocks::{Stocks, reserve},
    world::{Locks, admit},
};

const KEY: &str = "tollgate:{lock:odd}:lock";
/// A lock that is held, up to its owner.
const HELD: &str = "H 1 1 4000000000000000 1000 ";

/// Asks for the lock until Redis has answered: a large value takes it some time.
async fn stored_value(server: &Server) -> Status {
    let mut locks = Locks::connect(server.address()).await.unwrap();
    for _ in 0..600 {
        let mut get = Request::new(pb::GetLockRequest { name: "odd".into() });
        get.set_timeout(Duration::from_secs(30));
        let refused = locks.get_lock(get).await.unwrap_err();
        if refused.code() != Code::Unavailable {
            return refused;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("Redis does not answer");
}

fn assert_unreadable(refused: &Status, name: &str) {
    assert_eq!(refused.code(), Code::Internal, "{refused:?}");
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "STORED_VALUE_UNREADABLE");
    assert!(refused.message().contains(name), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j16_values_beyond_the_contract_are_unreadable_and_named() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    server.client().await;
    for length in ["400", "209715200"] {
        redis.command(&["SET", KEY, HELD]).await.unwrap();
        redis.command(&["SETRANGE", KEY, length, "x"]).await.unwrap();
        assert_unreadable(&stored_value(&server).await, "lock `odd`");
    }
    let not_utf8 = format!("return redis.call('SET', KEYS[1], '{HELD}o\\255wner')");
    redis.command(&["EVAL", &not_utf8, "1", KEY]).await.unwrap();
    assert_unreadable(&stored_value(&server).await, "lock `odd`");
}

#[tokio::test(flavor = "multi_thread")]
async fn j16_names_that_are_not_text_are_unreadable_and_named() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    while client.admit_task(admit("door", "device", "task")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    let lease = "local lease = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES') \
         redis.call('ZADD', KEYS[1], lease[2], (lease[1]:gsub('device', 'd\\255vice')))";
    redis.command(&["EVAL", lease, "1", "tollgate:{admission:door}:leases"]).await.unwrap();
    let list = pb::ListLeasesRequest { pool: "door".into(), ..Default::default() };
    assert_unreadable(&client.list_leases(list).await.unwrap_err(), "admission `door`");

    let mut stocks = Stocks::connect(server.address()).await.unwrap();
    let set = pb::SetStockRequest { sku: "shoe".into(), on_hand: Some(5) };
    stocks.set_stock(set).await.unwrap();
    stocks.reserve_stock(reserve("shoe", "order", 1)).await.unwrap();
    let confirm = pb::ConfirmReservationRequest { sku: "shoe".into(), order_id: "order".into() };
    stocks.confirm_reservation(confirm).await.unwrap();
    let order = "local text = redis.call('GET', KEYS[1]) \
         redis.call('SET', KEYS[1], text .. '\\255')";
    redis.command(&["EVAL", order, "1", "tollgate:{stock:shoe}:order:order"]).await.unwrap();
    let refused = stocks.reserve_stock(reserve("shoe", "order", 1)).await.unwrap_err();
    assert_unreadable(&refused, "stock `shoe`");
}

#[tokio::test(flavor = "multi_thread")]
async fn j16_entries_of_the_index_that_are_no_names_are_skipped() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    let mut request = admit("door", "device", "task");
    request.lease_duration = Some(Duration::from_secs(2).try_into().unwrap());
    while client.admit_task(request.clone()).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    // Beside the pool, with the same times.
    let beside = "for _, key in ipairs(KEYS) do \
         local score = redis.call('ZSCORE', key, 'door') or 1 \
         redis.call('ZADD', key, score, string.rep('a', 70000)) end";
    let [names, ends] =
        ["partitions", "ends"].map(|part| format!("tollgate:{{index:admission}}:{part}"));
    redis.command(&["EVAL", beside, "2", &names, &ends]).await.unwrap();
    let listed = client.list_pools(pb::ListPoolsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.pools.iter().map(|pool| &*pool.pool).collect::<Vec<_>>(), ["door"]);
    // The sweeper ends the lease: nobody asks for the pool.
    let leases = ["ZCARD", "tollgate:{admission:door}:leases"];
    for _ in 0..600 {
        if matches!(redis.command(&leases).await, Ok(::redis::Value::Int(0))) {
            return;
        }
        sleep(Duration::from_millis(50)).await;
    }
    panic!("the sweeper does not end the lease");
}
