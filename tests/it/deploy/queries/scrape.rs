//! Servers that were really used, and their metrics.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use crate::support::{
    access,
    certificates::{Authority, Files},
    process::{OwnRedis, Server, TempFolder, free_port, tollgate},
};

/// The labels of a series.
pub type Labels = BTreeMap<String, String>;
/// The series of each metric.
pub type Series = BTreeMap<String, Vec<Labels>>;

/// Whether this build has an admin listener.
pub fn has_admin() -> bool {
    let help = tollgate(&["serve", "--help"]).output().unwrap();
    String::from_utf8_lossy(&help.stdout).contains("--admin")
}

/// A server with series for all pools.
pub struct Scraped {
    pub server: Server,
    /// The port of the admin listener.
    pub admin: u16,
    _files: Files,
}

impl Scraped {
    /// Starts a server with this configuration; `DIR` stands for the folder of its certificates.
    pub async fn start(configuration: &str) -> Scraped {
        let files = Files::new(&Authority::new("operators").server());
        let folder = files.text("");
        let configuration = configuration.replace("DIR", folder.trim_end_matches('/'));
        files.write("tollgate.toml", &format!("{configuration}\n[metrics]\npools = [\"*\"]\n"));
        let admin = free_port();
        let address = format!("127.0.0.1:{admin}");
        let file = files.path("tollgate.toml");
        let server =
            Server::start(&["--config", file.to_str().unwrap(), "--admin", &address]).await;
        Scraped { server, admin, _files: files }
    }

    /// Makes a call of every rpc, twice: the second may be answered in another way.
    pub async fn make_calls(&self) {
        let channel = tonic::transport::Channel::from_shared(self.server.address()).unwrap();
        let channel = channel.connect().await.unwrap();
        for call in [access::calls("used"), access::calls("used")].concat() {
            let _ = call.make(&channel, &[]).await;
        }
    }

    pub fn series(&self) -> Series {
        parse(&get(self.admin, "/metrics"))
    }
}

/// Three servers: with a data directory, on a Redis and with TLS. Returns the series of all.
pub async fn used() -> Series {
    let data = TempFolder::new();
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let mut series = Series::new();
    for configuration in [
        format!("data_dir = \"{}\"\nmemory_max = \"1GiB\"", data.text()),
        format!("engine = \"{}\"\n[[namespace]]\nmatch = \"\"\ncalls_per_second = 40", redis.url()),
        "[tls]\ncert = \"DIR/tls.crt\"\nkey = \"DIR/tls.key\"".to_owned(),
    ] {
        let scraped = Scraped::start(&configuration).await;
        if !configuration.contains("[tls]") {
            scraped.make_calls().await;
        }
        for (metric, more) in scraped.series() {
            series.entry(metric).or_default().extend(more);
        }
    }
    series
}

/// Returns the body of an HTTP answer with status 200.
pub fn get(port: u16, target: &str) -> String {
    let (head, body) = answer(port, target);
    assert!(head.lines().next().unwrap().contains(" 200 "), "{target}: {head}");
    body
}

/// Returns the head and the body of an HTTP answer.
pub fn answer(port: u16, target: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let host = "Host: 127.0.0.1\r\nConnection: close\r\n\r\n";
    write!(stream, "GET {target} HTTP/1.0\r\n{host}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Parses the text format: `name{label="value",…} value`. No value of a test has escapes.
fn parse(page: &str) -> Series {
    let mut series = Series::new();
    for line in page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).unwrap());
        let labels = match rest.strip_prefix('{') {
            None => Labels::new(),
            Some(rest) => {
                let labels = rest.split_once('}').unwrap().0;
                let pairs = labels.split("\",").filter_map(|pair| pair.split_once("=\""));
                pairs
                    .map(|(name, value)| (name.into(), value.trim_end_matches('"').into()))
                    .collect()
            }
        };
        series.entry(name.to_owned()).or_default().push(labels);
    }
    series
}
