//! ListLocks, ListSequences and ListStock: pages, prefixes, rights, damage, and the nodes of a
//! Cluster.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tollgate_client::pb;
use tonic::Code;
use tonic_types::StatusExt;

use crate::support::{
    access::Token,
    farm::Cluster,
    listings::{Clients, KINDS, Kind, pages},
    locks::{acquire, leased, release, waiting},
    process::{OwnRedis, Server},
    rates::configured,
    sequences::LAYOUTS,
    stocks::{held, reserve},
    world::World,
};

on_both_engines! {
    nothing_is_listed_in_an_empty_store,
    entries_equal_the_answers_of_the_get_calls,
    names_are_listed_by_prefix_in_pages,
    lapsed_holds_are_available_in_a_listing,
    bad_requests_are_refused,
    unreadable_names_are_listed_as_such,
}

async fn nothing_is_listed_in_an_empty_store(world: World) {
    let clients = Clients::to(&world.address).await;
    for kind in KINDS {
        assert_eq!(clients.all(kind, "", None).await, [""; 0]);
    }
    let mut it = clients.clone();
    // A free lock is not listed, although it is remembered. Nor is a sku without stock, or a
    // sequence without a value.
    it.locks.acquire_lock(clients.request(acquire("l", "o"))).await.unwrap();
    it.locks.release_lock(clients.request(release("l", "o"))).await.unwrap();
    it.locks.acquire_lock(clients.request(leased(1.0, acquire("m", "o")))).await.unwrap();
    world.advance(Duration::from_secs(2)).await;
    it.stock.reserve_stock(clients.request(reserve("s", "o", 1))).await.unwrap_err();
    for kind in KINDS {
        assert_eq!(clients.all(kind, "", None).await, [""; 0]);
    }
}

async fn entries_equal_the_answers_of_the_get_calls(world: World) {
    let world = World::with_rules(world.is_redis(), configured(LAYOUTS)).await;
    let mut clients = Clients::to(&world.address).await;
    let names = ["plain", "day 1", "stamp", "few", "a}b%c", "*", "[a]", "\\", "a\u{e9}"];
    for name in names {
        clients.create(name).await;
    }
    let order = clients.request(reserve("plain", "order", 2));
    clients.stock.reserve_stock(order).await.unwrap();
    let mut waiter = clients.locks.clone();
    let waiting =
        tokio::spawn(
            async move { waiter.acquire_lock(waiting(60.0, acquire("plain", "p"))).await },
        );
    let asked = clients.clone();
    let get = |name: &str| asked.request(pb::GetLockRequest { name: name.into() });
    while clients.locks.get_lock(get("plain")).await.unwrap().into_inner().waiters == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for name in names {
        let got = clients.locks.get_lock(get(name)).await.unwrap().into_inner();
        let pb::GetLockResponse { lease, waiters, .. } = got;
        assert_eq!(lease.as_ref().unwrap().owner, "o");
        assert_eq!(waiters, u32::from(name == "plain"));
        let listed = pages(async |page_token| {
            let list = pb::ListLocksRequest { prefix: name.into(), page_size: None, page_token };
            let page =
                clients.locks.clone().list_locks(clients.request(list)).await.unwrap().into_inner();
            (page.locks, page.next_page_token)
        });
        assert_eq!(listed.await, [pb::Lock { name: name.into(), lease, waiters }]);

        let get = clients.request(pb::GetSequenceRequest { name: name.into() });
        let got = clients.sequences.get_sequence(get).await.unwrap().into_inner();
        let pb::GetSequenceResponse { last, update_time, serial, .. } = got;
        assert!(last > 0 && update_time.is_some());
        let listed = pages(async |page_token| {
            let prefix = name.into();
            let list = pb::ListSequencesRequest { prefix, page_size: None, page_token };
            let page = clients
                .sequences
                .clone()
                .list_sequences(clients.request(list))
                .await
                .unwrap()
                .into_inner();
            (page.sequences, page.next_page_token)
        });
        assert_eq!(listed.await, [pb::Sequence { name: name.into(), last, update_time, serial }]);

        let get = clients.request(pb::GetStockRequest { sku: name.into() });
        let got = clients.stock.get_stock(get).await.unwrap().into_inner().stock.unwrap();
        assert_eq!(got.reserved, if name == "plain" { 2 } else { 0 });
        assert_eq!(clients.stock(name).await, [got]);
    }
    waiting.abort();
}

async fn names_are_listed_by_prefix_in_pages(world: World) {
    let clients = Clients::to(&world.address).await;
    let mut names: Vec<String> = (0..60).map(|number| format!("a:{number:03}")).collect();
    names.extend((0..10).map(|number| format!("b*{number:02}")));
    for name in &names {
        clients.create(name).await;
    }
    for kind in KINDS {
        for page_size in [Some(1), Some(7), None, Some(1000)] {
            assert_eq!(clients.all(kind, "", page_size).await, names, "{kind:?} {page_size:?}");
            assert_eq!(clients.all(kind, "a:", page_size).await, names[..60], "{kind:?}");
        }
        assert_eq!(clients.all(kind, "a:01", Some(3)).await, names[10..20], "{kind:?}");
        assert_eq!(clients.all(kind, "b*", Some(3)).await, names[60..], "{kind:?}");
        assert_eq!(clients.all(kind, "*", None).await, [""; 0], "{kind:?}");
        assert_eq!(clients.all(kind, "a:0000", None).await, [""; 0], "{kind:?}");
    }
    // New names do not hide others.
    for kind in KINDS {
        let mut number = 0;
        let seen = pages(async |token| {
            number += 1;
            clients.create(&format!("a:new {kind:?} {number}")).await;
            let (page, _, next) = clients.page(kind, "a:", Some(9), &token).await.unwrap();
            (page, next)
        });
        let seen: BTreeSet<String> = seen.await.into_iter().collect();
        assert!(names[..60].iter().all(|name| seen.contains(name)), "{kind:?}");
    }
}

/// One step reclaims fewer holds than these skus have.
async fn lapsed_holds_are_available_in_a_listing(world: World) {
    let mut clients = Clients::to(&world.address).await;
    for sku in ["s0", "s1"] {
        let set = pb::SetStockRequest { sku: sku.into(), on_hand: Some(1000) };
        clients.stock.set_stock(clients.request(set)).await.unwrap();
        for order in 0..200 {
            let hold = held(Duration::from_secs(60), reserve(sku, &format!("o{order}"), 1));
            clients.stock.reserve_stock(clients.request(hold)).await.unwrap();
        }
    }
    world.advance(Duration::from_secs(61)).await;
    let stock = clients.stock("").await;
    assert_eq!(stock.len(), 2, "{stock:?}");
    for stock in stock {
        assert_eq!((stock.available, stock.reserved), (1000, 0), "{}", stock.sku);
    }
}

async fn bad_requests_are_refused(world: World) {
    let clients = Clients::to(&world.address).await;
    clients.create("a").await;
    let long = "x".repeat(257);
    for kind in KINDS {
        for (prefix, page_size, token, fields) in [
            (&*long, None, "", &["prefix"][..]),
            ("a\n", Some(0), "x", &["prefix", "page_size", "page_token"]),
            ("", Some(1001), "", &["page_size"]),
            // Not base64; a token of ListPools; a position that no store has.
            ("", None, "?", &["page_token"]),
            ("", None, "AAAHAWE", &["page_token"]),
            ("", None, "AAQAgIABAAA", &["page_token"]),
        ] {
            let status = clients.page(kind, prefix, page_size, token).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{kind:?} {token}: {status:?}");
            let details = status.get_error_details();
            let violations = &details.bad_request().unwrap().field_violations;
            let named: Vec<&str> = violations.iter().map(|bad| &*bad.field).collect();
            assert_eq!(named, fields, "{kind:?}");
        }
        // Any position is safe: for a process that does not exist, it is an arbitrary position.
        for forged in ["AAQAAAAA", "AAQBAf_Hr6AlAWE"] {
            let mut token = forged.to_owned();
            while !token.is_empty() {
                let (page, _, next) = clients.page(kind, "", None, &token).await.unwrap();
                assert!(page.iter().all(|name| name == "a"), "{page:?}");
                token = next;
            }
        }
    }
}

async fn unreadable_names_are_listed_as_such(world: World) {
    let clients = Clients::to(&world.address).await;
    for name in ["good", "bad"] {
        clients.create(name).await;
    }
    for command in [
        &["SET", "{}:{lock:bad}:lock", "text"][..],
        &["HSET", "{}:{sequence:bad}:counter", "last", "text"],
        &["HSET", "{}:{stock:bad}:stock", "on_hand", "text"],
    ] {
        if world.tamper(command).await.is_none() {
            return; // The embedded engine's values cannot be reached.
        }
    }
    for kind in KINDS {
        let entries = pages(async |token| {
            let (page, unreadable, next) = clients.page(kind, "", None, &token).await.unwrap();
            let page = page.into_iter().map(|name| (name, true));
            let unreadable = unreadable.into_iter().map(|name| (name, false));
            (page.chain(unreadable).collect(), next)
        });
        let entries: BTreeMap<String, bool> = entries.await.into_iter().collect();
        let expected = [("bad", false), ("good", true)].map(|(name, it)| (name.to_owned(), it));
        assert_eq!(entries, BTreeMap::from(expected), "{kind:?}");
    }
}

/// A caller sees the permitted names of its namespace, and its page tokens are valid there only.
async fn callers_see_their_own_names(redis: bool) {
    let mut config = String::new();
    let mut bearers = Vec::new();
    for (name, rights) in [
        ("default", ""),
        ("acme", "namespace = \"acme\"\n"),
        ("ac", "namespace = \"ac\"\n"),
        ("named", "names = [\"x:*\"]\n"),
    ] {
        let token = Token::new();
        config += &format!(
            "[[caller]]\nname = \"{name}\"\ntoken_sha256 = [\"{}\"]\n\
             allow = [\"use\", \"read\", \"manage\"]\n{rights}",
            token.digest
        );
        bearers.push(token.bearer());
    }
    let world = World::with_rules(redis, configured(&config)).await;
    let clients = Clients::to(&world.address).await;
    let of = |caller: usize| Clients { bearer: Some(bearers[caller].clone()), ..clients.clone() };
    for (caller, names) in
        [(0, &["acme", "x:1", "y:1"][..]), (1, &["me", "x:2", "x:3"]), (2, &["me", "x:4", "me:5"])]
    {
        for name in names {
            of(caller).create(name).await;
        }
    }
    for kind in KINDS {
        for page_size in [None, Some(1)] {
            let all =
                async |caller: usize, prefix: &str| of(caller).all(kind, prefix, page_size).await;
            assert_eq!(all(0, "").await, ["acme", "x:1", "y:1"], "{kind:?}");
            assert_eq!(all(1, "").await, ["me", "x:2", "x:3"], "{kind:?}");
            assert_eq!(all(2, "").await, ["me", "me:5", "x:4"], "{kind:?}");
            assert_eq!(all(3, "").await, ["x:1"], "{kind:?}");
            assert_eq!(all(0, "acme").await, ["acme"], "{kind:?}");
            assert_eq!(all(1, "x:").await, ["x:2", "x:3"], "{kind:?}");
            assert_eq!(all(3, "y").await, [""; 0], "{kind:?}");
        }
        for owner in [0, 1, 2] {
            // The first page that is not the last.
            let mut token = String::new();
            while token.is_empty() {
                token = of(owner).page(kind, "", Some(1), "").await.unwrap().2;
            }
            for caller in [0, 1, 2] {
                let answer = of(caller).page(kind, "", None, &token).await;
                let code = answer.map_err(|status| status.code()).map(drop);
                let expected = if caller == owner { Ok(()) } else { Err(Code::InvalidArgument) };
                assert_eq!(code, expected, "{kind:?}: {caller} with a token of {owner}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_see_their_own_names_embedded() {
    callers_see_their_own_names(false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_see_their_own_names_redis() {
    callers_see_their_own_names(true).await;
}

/// A listing covers all nodes, even if each page is read from another server.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_covers_all_nodes_of_a_cluster() {
    let farm = Cluster::start().await;
    let mut servers = Vec::new();
    for _ in 0..2 {
        let server = Server::start(&["--engine", &farm.url()]).await;
        let clients = Clients::to(&server.address()).await;
        while clients.page(Kind::Locks, "", None, "").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        servers.push((server, clients));
    }
    let names: Vec<String> = (0..120).map(|number| format!("name {number:03}")).collect();
    for name in &names {
        servers[0].1.create(name).await;
    }
    for kind in KINDS {
        for page_size in [Some(1), Some(9), None, Some(1000)] {
            assert_eq!(servers[0].1.all(kind, "", page_size).await, names, "{kind:?}");
        }
        assert_eq!(servers[1].1.all(kind, "name 00", None).await, names[..10], "{kind:?}");
        let mut number = 0;
        let seen = pages(async |token| {
            number += 1;
            let clients = &servers[number % 2].1;
            let (page, _, next) = clients.page(kind, "", Some(9), &token).await.unwrap();
            (page, next)
        });
        let mut seen = seen.await;
        seen.sort();
        assert_eq!(seen, names, "{kind:?}");
    }
}

/// Another process of Redis orders its keys differently.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_continues_after_a_restart_of_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let url = format!("redis://127.0.0.1:{}", redis.port);
    let server = Server::start(&["--engine", &url]).await;
    let clients = Clients::to(&server.address()).await;
    while clients.page(Kind::Locks, "", None, "").await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let names: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    for name in &names {
        clients.create(name).await;
    }
    for kind in KINDS {
        let mut number = 0;
        let seen = pages(async |token| {
            number += 1;
            if number == 5 {
                redis.kill();
                redis.start().await;
            }
            loop {
                match clients.page(kind, "", Some(10), &token).await {
                    Ok((page, _, next)) => return (page, next),
                    // The server has not reached the new process yet.
                    Err(status) => {
                        let code = status.code();
                        assert!([Code::Unavailable, Code::DeadlineExceeded].contains(&code));
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            }
        });
        let seen: BTreeSet<String> = seen.await.into_iter().collect();
        let missing: Vec<&String> = names.iter().filter(|name| !seen.contains(*name)).collect();
        assert_eq!(missing, [""; 0], "{kind:?}");
    }
}
