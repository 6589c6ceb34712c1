//! Live pages: changes arrive, only changes, and their number is bounded.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{ALL, ConsoleServer, PATIENCE, caller, on_both_stores};
use crate::support::{access::Token, world::admit};

/// A stream of a live page.
pub(super) struct Live {
    stream: TcpStream,
    text: String,
}

impl Live {
    pub(super) async fn open(server: &ConsoleServer, path: &str, headers: &str) -> Live {
        let mut stream = server.connect().await;
        let host = format!("localhost:{}", server.port);
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        Live { stream, text: String::new() }
    }

    /// Reads until the text holds; returns it.
    pub(super) async fn until(&mut self, holds: impl Fn(&str) -> bool) -> String {
        let read = async {
            let mut buffer = vec![0; 64 * 1024];
            while !holds(&self.text) {
                let length = self.stream.read(&mut buffer).await.unwrap();
                assert!(length > 0, "the stream ended: {}", self.text);
                self.text += &String::from_utf8_lossy(&buffer[..length]);
            }
        };
        timeout(PATIENCE, read).await.unwrap_or_else(|_| panic!("missing in {}", self.text));
        std::mem::take(&mut self.text)
    }
}

async fn a_live_page_follows_the_pool(server: ConsoleServer) {
    let mut client = server.client().await;
    client.admit_task(admit("ar:1", "camera-1", "task")).await.unwrap();
    let mut live = Live::open(&server, "/live/pool?name=ar%3A1", "").await;
    let first = live.until(|text| text.contains("data: dead")).await;
    assert!(first.contains("data: leases") && first.contains("camera-1"), "{first}");
    assert!(first.contains("content-type: text/event-stream"), "{first}");
    assert!(first.contains("default-src 'self'"), "{first}");
    client.admit_task(admit("ar:1", "camera-2", "task")).await.unwrap();
    let changed = live.until(|text| text.contains("camera-2")).await;
    // The settings did not change.
    assert!(!changed.contains("data: settings"), "{changed}");
    let other = server.get("/pool?name=ar%3A1", "").await.body;
    assert!(other.contains("camera-2"));
}

on_both_stores!(a_live_page_follows_the_pool);

#[tokio::test(flavor = "multi_thread")]
async fn the_501st_live_page_is_refused_with_a_message() {
    let server = ConsoleServer::start("").await;
    let mut open = Vec::new();
    for _ in 0..500 {
        let mut live = Live::open(&server, "/live/pools", "").await;
        live.until(|text| text.contains("200 OK")).await;
        open.push(live);
    }
    open[499].until(|text| text.contains("event: part")).await;
    let refused = server.get("/live/pools", "").await;
    assert_eq!(refused.status, 503);
    assert!(refused.body.contains("maximum of 500 live pages"), "{refused:?}");
    // Pages and probes are still served.
    assert_eq!(server.get("/pools", "").await.status, 200);
    assert_eq!(server.get("/livez", "").await.status, 200);
    drop(open);
    // The streams of readers that have disconnected end at the next change or within 15 s.
    let mut client = server.client().await;
    client.admit_task(admit("ar:1", "camera", "task")).await.unwrap();
    let opened = async {
        loop {
            let mut live = Live::open(&server, "/live/pools", "").await;
            if live.until(|text| text.contains("\r\n\r\n")).await.contains("200 OK") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, opened).await.expect("the places are free again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_page_ends_with_its_session_or_token() {
    let (gone, stays) = (Token::new(), Token::new());
    let both = caller("gone", &gone, ALL, "") + &caller("stays", &stays, ALL, "");
    let server = ConsoleServer::start(&both).await;
    let revoked = server.sign_in(&gone).await;
    let (first, second) = (server.sign_in(&stays).await, server.sign_in(&stays).await);
    let mut streams = Vec::new();
    for cookie in [&revoked, &first, &second] {
        let mut live = Live::open(&server, "/live/", cookie).await;
        live.until(|text| text.contains("data: store")).await;
        streams.push(live);
    }
    assert_eq!(server.post("/logout", &first, "").await.status, 303);
    let config = format!("log_format = \"json\"\n{}", caller("stays", &stays, ALL, ""));
    server.inner.files.write("tollgate.toml", &config);
    server.inner.reload().await;
    streams[0].until(|text| text.contains("event: ended")).await;
    streams[1].until(|text| text.contains("event: ended")).await;
    // The page of the other session continues, although both share it.
    let after = streams[2].until(|text| text.contains("data: configuration")).await;
    assert!(!after.contains("event: ended"), "{after}");
}
