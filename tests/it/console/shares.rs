//! One caller cannot use up what the callers of a server share.

use futures_util::future::join_all;

use super::{ALL, ConsoleServer, Reply, caller, live::Live};
use crate::support::access::Token;

/// Returns a server with two callers that can choose their namespaces.
async fn server() -> (ConsoleServer, [String; 2]) {
    let (greedy, other) = (Token::new(), Token::new());
    let any = "namespace = \"*\"";
    let config = caller("greedy", &greedy, ALL, any) + &caller("other", &other, ALL, any);
    let server = ConsoleServer::start(&config).await;
    let cookies = [server.sign_in(&greedy).await, server.sign_in(&other).await];
    (server, cookies)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_opens_at_most_half_of_the_live_pages() {
    let (server, [greedy, other]) = server().await;
    let mut open = Vec::new();
    for number in 0..100 {
        let mut live = Live::open(&server, &format!("/live/pools?prefix={number}"), &greedy).await;
        live.until(|text| text.contains("200 OK")).await;
        open.push(live);
    }
    let refused = "this caller has 100 of at most 200 different live pages open, as many as are free: \
                   this page does not update until you reload it";
    let is_refused = |reply: &Reply| reply.status == 503 && reply.body.trim_end() == refused;
    let reply = server.get("/live/pools?prefix=more", &greedy).await;
    assert!(is_refused(&reply), "{reply:?}");
    // Another namespace has other pages, but the same quota.
    assert_eq!(server.post("/namespace", &greedy, "namespace=acme").await.status, 303);
    let reply = server.get("/live/pools?prefix=0", &greedy).await;
    assert!(is_refused(&reply), "{reply:?}");
    assert_eq!(server.get("/pools", &greedy).await.status, 200);
    let mut live = Live::open(&server, "/live/pools?prefix=more", &other).await;
    live.until(|text| text.contains("200 OK")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_opens_at_most_half_of_the_event_streams() {
    let (server, [greedy, other]) = server().await;
    let read = async |number: u32, cookie: &str| {
        server.get(&format!("/events?of=pool&name=p{number}"), cookie).await
    };
    let replies = join_all((0..90).map(|number| read(number, &greedy))).await;
    let refused: Vec<_> = replies.iter().filter(|reply| reply.status != 200).collect();
    assert!(!refused.is_empty());
    for reply in refused {
        let why = "of at most 100 event streams open, as many as are free; retry in 15 s";
        assert!(reply.status == 503 && reply.body.contains(why), "{reply:?}");
    }
    assert_eq!(read(0, &other).await.status, 200);
}
