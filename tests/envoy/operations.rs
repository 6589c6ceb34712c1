//! The folder of a server process: its reload, pages, metrics, callers and commands.

use std::{fs, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::{Code, Request, transport::Channel};

use crate::{
    api::{descriptor, request, should_rate_limit},
    service::codes,
    support::{
        certificates::{Authority, Files, TlsServer},
        process::{Server, TempFile, TempFolder, free_port, run},
    },
};

const RULES: &str = "
domain: d
descriptors:
  - key: a
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: b
    value: x*
    rate_limit: {unit: year, requests_per_unit: 1}
";

/// A proxy that may use one domain, by its certificate.
pub const EDGE_CALLER: &str = r#"
[[caller]]
name = "edge-proxies"
mtls = "spiffe://acme/edge"
services = ["envoy"]
allow = ["use"]
names = ["envoy/edge"]
"#;

/// A server process with a folder of rules.
struct Folder {
    server: Server,
    channel: Channel,
    folder: TempFolder,
    admin: u16,
}

impl Folder {
    async fn start(arguments: &[&str]) -> Folder {
        let (folder, admin) = (TempFolder::new(), free_port());
        fs::create_dir_all(folder.path()).unwrap();
        fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
        let address = format!("127.0.0.1:{admin}");
        let given = ["--admin", &address, "--envoy-config", folder.text()];
        let server = Server::start(&[&given, arguments].concat()).await;
        let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
        Folder { server, channel, folder, admin }
    }

    async fn ask(&self, text: &str) -> String {
        let asked = request("d", &[descriptor(text)]);
        codes(&should_rate_limit(&self.channel, asked).await.unwrap())
    }

    fn write(&self, text: &str) {
        fs::write(self.folder.path().join("rules.yaml"), text).unwrap();
    }

    /// Sends an HTTP request to the admin listener. Returns status and body.
    async fn http(&self, line: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin)).await.unwrap();
        let head = format!(
            "{line} HTTP/1.1\r\nhost: a\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        (status, answer.split_once("\r\n\r\n").unwrap().1.to_owned())
    }

    async fn reload(&self) -> (Option<i32>, String) {
        let output = run(&["reload", "--server", &self.server.address()]).await;
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_files_apply_and_broken_ones_keep_the_old() {
    let folder = Folder::start(&[]).await;
    let seen = [folder.ask("a=1").await, folder.ask("a=1").await, folder.ask("a=1").await];
    assert_eq!(seen, [". .", ". .", "x x"]);
    // A raised limit applies to counted hits.
    folder.write(&RULES.replace("requests_per_unit: 2", "requests_per_unit: 9"));
    let (code, said) = folder.reload().await;
    assert_eq!((code, said.contains("envoy.config")), (Some(0), true), "{said}");
    assert_eq!(folder.ask("a=1").await, ". .");
    folder.write("domain: d\ndescriptors: [{key: a, limit: 1}]\n");
    let (code, said) = folder.reload().await;
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("rules.yaml: unknown key \"limit\""), "{said}");
    assert_eq!(folder.ask("a=1").await, ". .");
    // Without a command, a change applies within some seconds.
    folder.write("domain: d\ndescriptors: []\n");
    let changed = async {
        while folder.ask("b=x").await != ". ." || folder.ask("b=x").await != ". ." {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), changed).await.expect("the files are read");
}

#[tokio::test(flavor = "multi_thread")]
async fn v14_pages_answer_like_the_peer() {
    let folder = Folder::start(&[]).await;
    let body = r#"{"domain":"d","descriptors":[{"entries":[{"key":"b","value":"xy"}]}]}"#;
    let (status, answer) = folder.http("POST /json", "", body).await;
    assert_eq!(status, 200, "{answer}");
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["overallCode"], "OK");
    assert_eq!(answer["statuses"][0]["currentLimit"]["unit"], "YEAR");
    let (status, answer) = folder.http("POST /json", "", body).await;
    assert_eq!((status, answer.contains("OVER_LIMIT")), (429, true));
    for bad in ["", "{}", "[]", r#"{"domain":"d","unknown":1}"#] {
        assert_eq!(folder.http("POST /json", "", bad).await.0, 400, "{bad}");
    }
    assert_eq!(folder.http("POST /json", "", &"x".repeat(70_000)).await.0, 413);
    // Web sites cannot use up the limits.
    for header in ["Origin: http://site.example\r\n", "Origin: null\r\n"] {
        assert_eq!(folder.http("POST /json", header, body).await.0, 403, "{header}");
    }
    assert_eq!(folder.http("GET /healthcheck", "", "").await.0, 200);
    let (_, rules) = folder.http("GET /rlconfig", "", "").await;
    let line = "d.b_x*: unit=YEAR requests_per_unit=1, shadow_mode: false, quota_mode: false\n";
    assert!(rules.contains(line), "{rules}");
    assert_eq!(folder.http("POST /status", "", "").await.0, 405);
}

#[tokio::test(flavor = "multi_thread")]
async fn hits_are_counted_by_rule_and_result() {
    let folder = Folder::start(&[]).await;
    for _ in 0..3 {
        folder.ask("a=1").await;
    }
    let unknown = request("unknown", &[descriptor("a=1")]);
    should_rate_limit(&folder.channel, unknown).await.unwrap();
    let (_, metrics) = folder.http("GET /metrics", "", "").await;
    let value = |result: &str| {
        let start =
            format!("tollgate_envoy_hits_total{{domain=\"d\",rule=\"a\",result=\"{result}\"}} ");
        let line = metrics.lines().find_map(|line| line.strip_prefix(&start).map(str::to_owned));
        line.unwrap_or_else(|| panic!("no {start} in {metrics}"))
    };
    let results = ["total", "within_limit", "near_limit", "over_limit", "shadow_mode"].map(value);
    assert_eq!(results, ["3", "2", "1", "1", "0"]);
    assert!(metrics.contains("\ntollgate_envoy_unknown_domains_total 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_need_a_token_and_have_their_namespace() {
    let token = String::from_utf8(run(&["token", "--output", "json"]).await.stdout).unwrap();
    let token: serde_json::Value = serde_json::from_str(&token).unwrap();
    let digest = token["tokenSha256"].as_str().unwrap();
    let entry = |name: &str, rest: &str| {
        format!("[[caller]]\nname = \"{name}\"\nallow = [\"use\"]\n{rest}\n")
    };
    let with_token = format!("token_sha256 = [\"{digest}\"]\nnamespace = \"acme\"\n");
    let envoy =
        entry("envoy", &format!("{with_token}services = [\"envoy\"]\nnames = [\"envoy/d\"]"));
    let config = TempFile::new(&envoy);
    let folder = Folder::start(&["--config", config.path()]).await;
    let ask = |domain: &str, bearer: Option<String>| {
        let mut asked = Request::new(request(domain, &[descriptor("a=1")]));
        if let Some(bearer) = bearer {
            asked.metadata_mut().insert("authorization", bearer.parse().unwrap());
        }
        should_rate_limit(&folder.channel, asked)
    };
    assert_eq!(ask("d", None).await.unwrap_err().code(), Code::Unauthenticated);
    let bearer = format!("Bearer {}", token["token"].as_str().unwrap());
    assert_eq!(codes(&ask("d", Some(bearer.clone())).await.unwrap()), ". .");
    let body = r#"{"domain":"d","descriptors":[{"entries":[{"key":"a","value":"1"}]}]}"#;
    assert_eq!(folder.http("POST /json", "", body).await.0, 401);
    let header = format!("authorization: {bearer}\r\n");
    assert_eq!(folder.http("POST /json", &header, body).await.0, 200);
    assert_eq!(folder.http("POST /json", &header, body).await.0, 429, "the same counter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_with_a_certificate_may_use_its_domains_only() {
    let (ours, folder) = (Authority::new("ours"), TempFolder::new());
    fs::create_dir_all(folder.path()).unwrap();
    for (domain, counting) in [("edge", "each"), ("other", "each"), ("both", "all_or_nothing")] {
        let text = RULES.replace("domain: d", &format!("domain: {domain}\ncounting: {counting}"));
        fs::write(folder.path().join(format!("{domain}.yaml")), text).unwrap();
    }
    let files = Files::new(&ours.server());
    files.write("ca.crt", &ours.pem());
    let names = "names = [\"envoy/edge\", \"envoy/both\"]";
    let caller = EDGE_CALLER.replace("names = [\"envoy/edge\"]", names);
    let config = format!(
        "client_ca = \"DIR/ca.crt\"\nclient_auth = \"required\"\n[envoy]\nconfig = {:?}\n{caller}",
        folder.text()
    );
    let server = TlsServer::with(files, &config).await;
    let edge = server.channel(&ours.pem(), Some(&ours.client("edge", 1))).await.unwrap();
    let ask = |domain: &str| {
        let (channel, asked) = (edge.clone(), request(domain, &[descriptor("b=x")]));
        async move { should_rate_limit(&channel, asked).await }
    };
    // The permission of a domain has one name, however the domain counts.
    for domain in ["edge", "both"] {
        assert_eq!(codes(&ask(domain).await.unwrap()), ". .");
        assert_eq!(codes(&ask(domain).await.unwrap()), "x x");
    }
    let refused = ask("other").await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
    // A certificate of the authority that belongs to no caller.
    let stranger = server.channel(&ours.pem(), Some(&ours.client("stranger", 2))).await.unwrap();
    let refused = should_rate_limit(&stranger, request("edge", &[descriptor("b=x")])).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unauthenticated);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_check_and_explain_rules() {
    let folder = TempFolder::new();
    fs::create_dir_all(folder.path()).unwrap();
    let file = folder.path().join("rules.yml");
    fs::write(&file, RULES).unwrap();
    fs::write(folder.path().join(".hidden.yaml"), "broken: [").unwrap();
    let said = |output: &std::process::Output| {
        String::from_utf8([output.stdout.clone(), output.stderr.clone()].concat()).unwrap()
    };
    let checked = run(&["check-config", "--envoy", folder.text()]).await;
    assert_eq!(checked.status.code(), Some(0));
    assert!(said(&checked).contains("valid, 1 domains, 2 rules"), "{}", said(&checked));
    let explain = async |descriptor: &str| {
        let folder = folder.text();
        let arguments = ["envoy", "explain", folder, "--domain", "d", "--descriptor", descriptor];
        let output = run(&arguments).await;
        (output.status.code(), said(&output))
    };
    let (code, text) = explain("b=xyz").await;
    assert_eq!(code, Some(0));
    assert_eq!(text, "domain d\n  b=xyz: matches by the pattern b_x*\nrule d.b_x*: 1 per YEAR\n");
    let sliding = "unit: hour, algorithm: SLIDING_WINDOW, requests_per_unit: 1";
    fs::write(&file, RULES.replace("unit: year, requests_per_unit: 1", sliding)).unwrap();
    let (_, text) = explain("b=xyz").await;
    assert!(text.ends_with("rule d.b_x*: 1 per HOUR, SLIDING_WINDOW\n"), "{text}");
    fs::write(&file, RULES.replace("domain: d", "domain: d\ncounting: all_or_nothing")).unwrap();
    let (_, text) = explain("b=xyz").await;
    assert!(text.starts_with("domain d: counts all descriptors of a request or none\n"), "{text}");
    let (code, text) = explain("b=yz").await;
    assert_eq!(code, Some(1));
    assert!(text.contains("no key, pattern or value matches"), "{text}");
    fs::write(&file, "domain: d\ndescriptors: [{}]\n").unwrap();
    let checked = run(&["check-config", "--envoy", folder.text()]).await;
    assert_eq!(checked.status.code(), Some(78));
    assert!(said(&checked).contains("rules.yml: d: a descriptor has no key"), "{}", said(&checked));
}
