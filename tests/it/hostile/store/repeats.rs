//! Calls that a server repeats because a connection to Redis broke: the answers that the only
//! caller gets, and the proto comments that announce them.

use std::{fs, path::Path};

use pb::{CompleteVerdict, EnqueueStatus};
use tollgate_client::pb;

use crate::support::{
    farm::eventually,
    process::{OwnRedis, Server},
    queue::{batch, queued},
    wire::Wire,
    world::{admit, complete},
};

/// File, verb, and the part of the answer that a repeated call has.
const VERBS: [(&str, &str, &str); 16] = [
    ("admission", "AdmitTask", "`replayed`"),
    ("admission", "CompleteTask", "ALREADY_COMPLETED"),
    ("admission", "EvictTask", "`replayed`"),
    ("admission", "EnqueueTasks", "DUPLICATE"),
    ("admission", "CancelTask", "`replayed`"),
    ("admission", "RequeueTask", "ALREADY_QUEUED"),
    ("lock", "AcquireLock", "`replayed`"),
    ("rate", "CheckRate", "`replayed`"),
    ("rate", "ResetRate", "`existed`"),
    ("rate", "Unban", "`existed`"),
    ("sequence", "NextSequence", "`replayed`"),
    ("stock", "AddStock", "`replayed`"),
    ("stock", "ReserveStock", "`replayed`"),
    ("stock", "ConfirmReservation", "ALREADY_CONFIRMED"),
    ("stock", "CancelReservation", "ALREADY_CANCELLED"),
    ("lock", "ReleaseLock", "RELEASED"),
];

/// Returns the comment above the first line that starts with `above`, joined to one line.
fn comment(text: &str, above: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let place = lines.iter().position(|line| line.starts_with(above));
    let place = place.unwrap_or_else(|| panic!("no {above}"));
    let start = lines[..place].iter().rposition(|line| !line.starts_with("//")).unwrap() + 1;
    let lines = lines[start..place].iter().map(|line| line.trim_start_matches("//").trim());
    lines.collect::<Vec<_>>().join(" ")
}

#[test]
fn h23_proto_comments_say_that_a_first_answer_can_read_as_a_repeat() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/tollgate/v1");
    for (file, verb, answer) in VERBS {
        let text = fs::read_to_string(root.join(format!("{file}.proto"))).unwrap();
        let said = comment(&text, &format!("rpc {verb}("));
        let sentence = said
            .split(". ")
            .find(|sentence| sentence.contains("first call") && sentence.contains(answer));
        assert!(sentence.is_some(), "{verb}: {said}");
        let service = comment(&text, "service ");
        assert!(service.contains("sends the call a second time"), "{file}: {service}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h23_the_only_caller_gets_the_answers_in_the_proto_comments() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    // The lost reply must not be a reply to the sweeper.
    redis.hold_sweeper().await;
    let wire = Wire::to(redis.port).await;
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let server = Server::start(&["--engine", &url]).await;
    let client = &mut server.client().await;
    eventually("the server has reached Redis", async || {
        client.clone().admit_task(admit("p", "d", "t")).await.is_ok()
    })
    .await;
    // The plain scripts decline a new pool, which then uses the other ones for 100 ms.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    // Loads the scripts: otherwise the lost reply would be NOSCRIPT.
    client.admit_task(admit("p", "warm", "t")).await.unwrap();
    client.complete_task(complete("p", "warm", "t")).await.unwrap();
    client.enqueue_tasks(batch("q", vec![queued("warm", "q")])).await.unwrap();
    wire.lose_decision();
    let done = client.complete_task(complete("p", "d", "t")).await.unwrap().into_inner();
    assert_eq!(done.verdict(), CompleteVerdict::AlreadyCompleted);
    wire.lose_decision();
    let enqueued = client.enqueue_tasks(batch("q", vec![queued("d", "q")])).await.unwrap();
    assert_eq!(enqueued.into_inner().results[0].status(), EnqueueStatus::Duplicate);
    wire.lose_decision();
    let admitted = client.admit_task(admit("p", "d", "again")).await.unwrap().into_inner();
    assert!(admitted.lease.is_some() && admitted.replayed, "{admitted:?}");
}
