//! Pages of sequences, locks and stock, and the events of a pool.

use tollgate_client::pb::{
    GetLockRequest, GetStockRequest, NextSequenceRequest, stock_service_client::StockServiceClient,
};

use super::{ConsoleServer, on_both_stores};
use crate::support::{
    locks::acquire,
    stocks::{reserve, set},
    world::{Locks, Sequences, admit},
};

async fn sequences_are_shown_by_prefix(server: ConsoleServer) {
    let mut sequences = Sequences::connect(server.inner.server.address()).await.unwrap();
    for name in ["orders", "orders:eu", "invoices"] {
        let next = NextSequenceRequest { name: name.into(), count: Some(7), ..Default::default() };
        sequences.next_sequence(next).await.unwrap();
    }
    let list = server.get("/sequences?prefix=orders", "").await.body;
    for name in ["orders", "orders%3Aeu"] {
        assert!(list.contains(&format!("href=\"/sequence?name={name}\"")), "{list}");
    }
    assert!(!list.contains("invoices") && list.contains("<td class=\"number\">7</td>"), "{list}");
    let one = server.get("/sequence?name=orders%3Aeu", "").await.body;
    assert!(one.contains("<span class=\"number\">7</span>"), "{one}");
    let none = server.get("/sequences?prefix=x", "").await.body;
    assert!(none.contains("No sequence with such a name"), "{none}");
}

async fn a_lock_is_released_for_its_holder_only(server: ConsoleServer) {
    let mut locks = Locks::connect(server.inner.server.address()).await.unwrap();
    let lease = locks.acquire_lock(acquire("site:1", "worker-a")).await.unwrap().into_inner();
    let token = lease.lease.unwrap().fencing_token;
    let list = server.get("/locks", "").await.body;
    assert!(list.contains("<td>worker-a</td>"), "{list}");
    let page = "/lock?name=site%3A1";
    let shown = server.get(page, "").await.body;
    assert!(shown.contains(&format!("name=\"token\" value=\"{token}\"")), "{shown}");
    let stale = format!("action=release&owner=worker-a&token={}", token + 1);
    assert!(server.act(page, &stale).await.contains("no longer holds the lock"));
    let held = |locks: &mut Locks| {
        let mut locks = locks.clone();
        async move {
            let request = GetLockRequest { name: "site:1".into() };
            locks.get_lock(request).await.unwrap().into_inner().held
        }
    };
    assert!(held(&mut locks).await);
    let release = format!("action=release&owner=worker-a&token={token}");
    assert!(server.act(page, &release).await.contains("Released the lock that worker-a held"));
    assert!(!held(&mut locks).await);
    assert!(server.get(page, "").await.body.contains("Nobody holds this lock"));
    let last = server.audited().pop().unwrap();
    assert_eq!(last, ["console", "ReleaseLock", "site:1", "OK"]);
}

async fn stock_is_shown_and_set(server: ConsoleServer) {
    let mut stock = StockServiceClient::connect(server.inner.server.address()).await.unwrap();
    stock.set_stock(set("shoe", 12_345)).await.unwrap();
    for order in ["a", "b"] {
        stock.reserve_stock(reserve("shoe", order, 3)).await.unwrap();
    }
    let one = server.get("/sku?name=shoe", "").await.body;
    assert!(one.contains("<dt>Reserved by holds</dt><dd>6</dd>"), "{one}");
    assert!(one.contains("<dt>Holds</dt><dd>2</dd>"), "{one}");
    let list = server.get("/stock?prefix=sh", "").await.body;
    assert!(list.contains("<td class=\"number\">12,345</td>"), "{list}");
    assert!(server.act("/sku?name=shoe", "action=set&on_hand=8").await.contains("on hand to 8"));
    let request = GetStockRequest { sku: "shoe".into() };
    let now = stock.get_stock(request).await.unwrap().into_inner().stock.unwrap();
    assert_eq!(now.on_hand, 8);
    let wrong = server.act("/sku?name=shoe", "action=set&on_hand=-1").await;
    assert!(wrong.contains("Not done") && wrong.contains("on_hand"), "{wrong}");
    assert_eq!(server.audited()[0], ["console", "SetStock", "shoe", "OK"]);
}

async fn events_are_filtered_and_linked(server: ConsoleServer) {
    let mut client = server.client().await;
    for device in ["camera-1", "camera-2"] {
        client.admit_task(admit("ar:1", device, "task")).await.unwrap();
    }
    server.act("/pool?name=ar%3A1", "action=evict&device=camera-1&task=task").await;
    let path = "/events?of=pool&name=ar%3A1";
    let shown = |text: &str| {
        let text = text.to_owned();
        move |reply: &super::Reply| reply.body.contains(&text)
    };
    let all = server.until("the events", path, "", shown(">evicted</th>")).await.body;
    assert_eq!(all.matches(">admitted</th>").count(), 2, "{all}");
    let first = server.get(&format!("{path}&filter=camera-2"), "").await.body;
    assert!(first.contains("camera-2</td>") && !first.contains("camera-1</td>"), "{first}");
    // The newest first: the last row is the oldest event. The rest follows it.
    let cursor = all.rsplit("&#38;after=").next().unwrap().split('"').next().unwrap();
    let after = server.get(&format!("{path}&after={cursor}"), "").await.body;
    assert_eq!(after.matches(">admitted</th>").count(), 1, "{after}");
    assert!(after.contains(">evicted</th>") && after.contains("Later events"), "{after}");
    // Events after a cursor, and a paused page, have no stream.
    assert!(after.contains("data-live=\"\"") && all.contains("data-live=\"/live/events?"));
    let paused = server.get(&format!("{path}&paused=1"), "").await.body;
    assert!(paused.contains("data-live=\"\"") && paused.contains("Resume"), "{paused}");
    let wrong = server.get(&format!("{path}&after=nonsense"), "").await;
    assert_eq!(wrong.status, 400, "{wrong:?}");
}

on_both_stores!(
    sequences_are_shown_by_prefix,
    a_lock_is_released_for_its_holder_only,
    stock_is_shown_and_set,
    events_are_filtered_and_linked,
);
