//! The admin pages: metrics, probes, status, and peers that misuse them.

mod counts;
mod listener;
mod pools;
mod refusing;
mod table;

use std::{collections::BTreeMap, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::support::process::{Server, free_port};

/// A server process with admin pages.
pub struct AdminServer {
    pub server: Server,
    port: u16,
}

impl AdminServer {
    pub async fn start(arguments: &[&str]) -> AdminServer {
        let port = free_port();
        let admin = format!("127.0.0.1:{port}");
        let arguments: Vec<&str> = ["--admin", &admin].iter().chain(arguments).copied().collect();
        AdminServer { server: Server::start(&arguments).await, port }
    }

    async fn get(&self, path: &str) -> (u16, String) {
        get(self.port, path, "").await
    }

    /// Returns the series of the metrics, by name with labels.
    pub async fn scrape(&self) -> Scrape {
        let (status, text) = self.get("/metrics").await;
        assert_eq!(status, 200, "{text}");
        Scrape::parse(&text)
    }

    /// Waits until calls are answered.
    async fn up(&self) {
        let is_up = |scrape: &Scrape| scrape.value("tollgate_store_up") == 1.0;
        self.scrape_until("the store is up", is_up).await;
    }

    /// Scrapes until the condition holds.
    pub async fn scrape_until(&self, what: &str, holds: impl Fn(&Scrape) -> bool) -> Scrape {
        let scraped = async {
            loop {
                let scrape = self.scrape().await;
                if holds(&scrape) {
                    return scrape;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(Duration::from_secs(60), scraped).await.expect(what)
    }
}

/// A page of metrics.
pub struct Scrape {
    text: String,
    series: BTreeMap<String, f64>,
}

impl Scrape {
    fn parse(text: &str) -> Scrape {
        assert!(text.ends_with("# EOF\n"), "{text}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.map(|line| line.rsplit_once(' ').expect(line));
        let series = pairs.map(|(name, value)| (name.to_owned(), value.parse().expect(name)));
        Scrape { text: text.to_owned(), series: series.collect() }
    }

    pub fn value(&self, series: &str) -> f64 {
        *self.series.get(series).unwrap_or_else(|| panic!("no {series} in {}", self.text))
    }
}

/// Sends bytes and reads to the end. Returns the status and the body.
pub async fn exchange(port: u16, request: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.expect("the pages are served");
    // The server may answer, and close, before it has read all.
    let _ = stream.write_all(request).await;
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(60), stream.read_to_end(&mut answer)).await;
    let _ = read.expect("the server closes the connection");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return (0, answer) };
    let status = head.split(' ').nth(1).expect(head).parse().expect(head);
    (status, body.to_owned())
}

pub async fn get(port: u16, path: &str, headers: &str) -> (u16, String) {
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n");
    exchange(port, request.as_bytes()).await
}
