//! Audit lines of the log: refusals, and calls with the permission `manage`.

use tollgate_client::pb;
use tonic::transport::Channel;

use super::callers::{entry, start};
use crate::support::{
    access::{Call, Token, calls},
    certificates::TlsServer,
};

async fn channel(server: &TlsServer) -> Channel {
    Channel::from_shared(server.server.address()).unwrap().connect().await.unwrap()
}

fn rpc(method: &str, name: &str) -> Call {
    calls(name).into_iter().find(|call| call.method == method).unwrap()
}

/// Returns the lines of the target `audit`, as JSON.
fn lines(server: &TlsServer) -> Vec<serde_json::Value> {
    let log = server.files.log();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.filter(|line| line["target"] == "audit").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn manage_calls_and_refusals_have_audit_lines() {
    let (all, named) = (Token::new(), Token::new());
    let config = format!(
        "log_format = \"json\"\nlog_level = \"error\"\n{}{}names = [\"ar:*\"]\nnamespace = \"acme\"",
        entry("operator", &all),
        entry("backend", &named)
    );
    let server = start(&config).await;
    let channel = channel(&server).await;
    let all = all.bearer();
    let named = named.bearer();
    rpc("ConfigurePool", "p").make(&channel, &[("authorization", &all)]).await.unwrap();
    rpc("AddStock", "missing").make(&channel, &[("authorization", &all)]).await.unwrap_err();
    // These two calls are allowed and need no `manage`, so they have no audit line.
    rpc("NextSequence", "n").make(&channel, &[("authorization", &all)]).await.unwrap();
    rpc("NextSequence", "ar:1").make(&channel, &[("authorization", &named)]).await.unwrap();
    rpc("NextSequence", "other").make(&channel, &[("authorization", &named)]).await.unwrap_err();
    // Only an item of this call is refused.
    let _ = rpc("AdmitTasks", "other").make(&channel, &[("authorization", &named)]).await;
    rpc("GetLock", "n").make(&channel, &[]).await.unwrap_err();
    let hostile = [("authorization", &*named), ("x-tollgate-namespace", "a\tb")];
    rpc("GetLock", "ar:1").make(&channel, &hostile).await.unwrap_err();
    server.files.logged("NAMESPACE_NOT_PERMITTED", 1).await;

    let seen: Vec<[String; 5]> = lines(&server)
        .iter()
        .map(|line| {
            ["caller", "namespace", "verb", "name", "result"]
                .map(|key| line[key].as_str().unwrap().to_owned())
        })
        .collect();
    let expected = [
        ["operator", "", "ConfigurePool", "p", "OK"],
        ["operator", "", "AddStock", "missing", "NOT_FOUND"],
        ["backend", "acme", "NextSequence", "other", "NAME_NOT_PERMITTED"],
        ["backend", "acme", "AdmitTasks", "other", "NAME_NOT_PERMITTED"],
        ["", "", "GetLock", "", "CREDENTIALS_MISSING"],
        ["backend", "a\\u{9}b", "GetLock", "", "NAMESPACE_NOT_PERMITTED"],
    ];
    assert_eq!(seen, expected.map(|line| line.map(str::to_owned)));
    assert!(!server.files.log().contains(all.trim_start_matches("Bearer ")));
}

#[tokio::test(flavor = "multi_thread")]
async fn floors_that_move_a_sequence_have_audit_lines() {
    let token = Token::new();
    let config = format!("log_format = \"json\"\n{}", entry("operator", &token));
    let server = start(&config).await;
    let channel = channel(&server).await;
    let bearer = token.bearer();
    let metadata = [("authorization", &*bearer)];
    let next = |floor| {
        let request = pb::NextSequenceRequest { name: "n".into(), floor, ..Default::default() };
        Call::new("SequenceService", "NextSequence", request)
    };
    let set = |floor| {
        let request = pb::SetSequenceFloorRequest { name: "n".into(), floor: Some(floor) };
        Call::new("SequenceService", "SetSequenceFloor", request)
    };
    // A floor that changes nothing, or a call without one, writes no line about a floor.
    for call in [set(50), set(7), next(None), next(Some(7)), next(Some(90))] {
        call.make(&channel, &metadata).await.unwrap();
    }
    server.files.logged("\"floor\":90", 1).await;
    let floors: Vec<_> =
        lines(&server).into_iter().filter(|line| !line["floor"].is_null()).collect();
    let seen: Vec<_> =
        floors.iter().map(|line| (line["verb"].as_str(), line["floor"].as_u64())).collect();
    assert_eq!(
        seen,
        [(Some("SetSequenceFloor"), Some(50)), (Some("NextSequence"), Some(90))],
        "{floors:?}"
    );
    assert!(floors.iter().all(|line| line["caller"] == "operator" && line["name"] == "n"));
    // Each call of SetSequenceFloor has the line of a `manage` call, too.
    let managed = lines(&server).into_iter().filter(|line| line["verb"] == "SetSequenceFloor");
    assert_eq!(managed.filter(|line| line["floor"].is_null()).count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_refusals_does_not_fill_the_log() {
    let token = Token::new();
    let server = start(&format!("log_format = \"json\"\n{}", entry("one", &token))).await;
    let channel = channel(&server).await;
    let call = rpc("GetLock", "n");
    let (mut refusals, mut counted) = (0, 0);
    // Repeats refused calls until a line reports suppressed lines.
    while counted == 0 {
        for _ in 0..100 {
            call.make(&channel, &[]).await.unwrap_err();
            refusals += 1;
        }
        counted = lines(&server).iter().filter_map(|line| line["suppressed"].as_u64()).sum();
    }
    let logged = lines(&server).len() as u64;
    assert!(logged + counted <= refusals && counted > 0, "{logged} {counted} {refusals}");
    // The lines of a known caller are limited separately.
    let bearer = token.bearer();
    rpc("SetStock", "tv").make(&channel, &[("authorization", &bearer)]).await.unwrap();
    server.files.logged("\"verb\":\"SetStock\"", 1).await;
}
