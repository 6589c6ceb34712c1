//! The console over HTTP: access, pages, actions, live pages. Browser tests have their own folder.

mod access;
mod actions;
mod charts;
mod live;
mod names;
mod pages;
mod rates;
mod refusals;
mod shares;
mod system;

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::support::{
    access::Token,
    certificates::{Authority, Files, TlsServer},
    process::{OwnRedis, free_port},
    world::Client,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server process with a console, and its log.
struct ConsoleServer {
    inner: TlsServer,
    port: u16,
    /// Ends with the server.
    redis: Option<OwnRedis>,
}

/// An answer.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

impl Reply {
    fn parse(bytes: &[u8]) -> Reply {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            return Reply { status: 0, head: text, body: String::new() };
        };
        let status = head.split(' ').nth(1).expect(head).parse().expect(head);
        Reply { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// Returns the value of a header; empty if it is missing.
    fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// Returns the `Cookie` header for the next request.
    fn cookie(&self) -> String {
        let cookie = self.header("set-cookie").split(';').next().unwrap();
        format!("Cookie: {cookie}\r\n")
    }
}

impl ConsoleServer {
    /// Returns a server on the embedded engine.
    async fn start(config: &str) -> ConsoleServer {
        ConsoleServer::on(config, None).await
    }

    /// Returns a server on a Redis of its own.
    async fn on_redis(config: &str) -> ConsoleServer {
        let mut redis = OwnRedis::prepare();
        redis.start().await;
        ConsoleServer::on(config, Some(redis)).await
    }

    async fn on(config: &str, redis: Option<OwnRedis>) -> ConsoleServer {
        let files = Files::new(&Authority::new("unused").server());
        files.write("tollgate.toml", &format!("log_format = \"json\"\n{config}"));
        let path = files.text("tollgate.toml");
        let port = free_port();
        let admin = format!("127.0.0.1:{port}");
        let mut arguments = vec!["--config", &path, "--admin", &admin];
        let url = redis.as_ref().map(OwnRedis::url);
        arguments.extend(url.iter().flat_map(|url| ["--engine", url]));
        let inner = files.serve(&arguments).await;
        let server = ConsoleServer { inner, port, redis };
        server.until("the store is up", "/readyz", "", |reply| reply.status == 200).await;
        server
    }

    async fn client(&self) -> Client {
        self.inner.server.client().await
    }

    /// Sends a request and reads to the end.
    async fn send(&self, request: &str) -> Reply {
        let mut stream = self.connect().await;
        // The server may answer, and close, before it has read all.
        let _ = stream.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let read = timeout(PATIENCE, stream.read_to_end(&mut answer)).await;
        let _ = read.expect("the server closes the connection");
        Reply::parse(&answer)
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.expect("the console is served")
    }

    /// GET with more headers.
    async fn get(&self, path: &str, headers: &str) -> Reply {
        let host = format!("localhost:{}", self.port);
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n")).await
    }

    /// POST of a form of this console, with more headers.
    async fn post(&self, path: &str, headers: &str, form: &str) -> Reply {
        let origin = format!("Origin: http://localhost:{}\r\n", self.port);
        self.post_from(&format!("{origin}{headers}"), path, form).await
    }

    /// POST with these headers only.
    async fn post_from(&self, headers: &str, path: &str, form: &str) -> Reply {
        let (host, length) = (format!("localhost:{}", self.port), form.len());
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Type: \
             application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
        ))
        .await
    }

    /// Sends the form of a page. Returns the message on the next page.
    async fn act(&self, page: &str, form: &str) -> String {
        let reply = self.post(page, "", form).await;
        assert_eq!((reply.status, reply.header("location")), (303, page), "{form}: {reply:?}");
        let shown = self.get(page, &reply.cookie()).await;
        let (_, message) = shown.body.split_once("<p class=\"message ").expect(form);
        assert!(shown.header("set-cookie").contains("Max-Age=0"), "the message is shown once");
        message.split("</p>").next().unwrap().to_owned()
    }

    /// Signs in. Returns the `Cookie` header.
    async fn sign_in(&self, token: &Token) -> String {
        let reply = self.post("/login", "", &format!("token={}", token.text)).await;
        assert_eq!(reply.status, 303, "{reply:?}");
        reply.cookie()
    }

    /// Gets a page until it is as expected.
    async fn until(
        &self,
        what: &str,
        path: &str,
        headers: &str,
        holds: impl Fn(&Reply) -> bool,
    ) -> Reply {
        let got = async {
            loop {
                let reply = self.get(path, headers).await;
                if holds(&reply) {
                    return reply;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, got).await.expect(what)
    }

    /// Returns the audit lines: caller, verb, name and result.
    fn audited(&self) -> Vec<[String; 4]> {
        let log = self.inner.files.log();
        let lines =
            log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
        lines
            .filter(|line| line["target"] == "audit")
            .map(|line| {
                ["caller", "verb", "name", "result"]
                    .map(|key| line[key].as_str().unwrap_or_default().to_owned())
            })
            .collect()
    }
}

/// Returns a `[[caller]]` entry with these permissions, and more keys.
fn caller(name: &str, token: &Token, allow: &str, more: &str) -> String {
    let digest = &token.digest;
    format!(
        "[[caller]]\nname = \"{name}\"\ntoken_sha256 = [\"{digest}\"]\nallow = {allow}\n{more}\n"
    )
}

const ALL: &str = "[\"use\", \"read\", \"manage\"]";
const READ: &str = "[\"read\"]";

/// Makes one test for each engine from `async fn name(server: ConsoleServer)`.
macro_rules! on_both_stores {
    ($($name:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name(super::ConsoleServer::start("").await).await
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name(super::ConsoleServer::on_redis("").await).await
            })*
        }
    };
}
use on_both_stores;
