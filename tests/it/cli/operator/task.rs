//! `tollgate task`.

use std::{fs, io::Write, process::Stdio};

use tollgate_client::pb;

use super::{assert_says, ends, keys, objects, prints};
use crate::support::{
    process::{Server, TempFile, tollgate},
    queue::{batch, queued},
    world::{admit, complete},
};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_queued_listed_dispatched_and_cancelled() {
    let server = Server::start(&[]).await;
    let queue =
        ["task", "queue", "ar:1", "camera-1", "t-1", "--payload", "zoom", "--expire-in", "1h"];
    assert!(prints(&server, &queue).await.starts_with("ENQUEUED  "));
    assert!(prints(&server, &queue).await.starts_with("DUPLICATE  "));
    let list = prints(&server, &["task", "list", "ar:1"]).await;
    assert!(
        list.lines().nth(1).expect(&list).starts_with("camera-1  t-1   queued        0"),
        "{list}"
    );
    assert_says(&list, &["59m", "EXPIRES IN"]);

    // The payload is the one that was given.
    let mut client = server.client().await;
    let report = client.admit_task(admit("ar:1", "camera-1", "")).await.unwrap().into_inner();
    assert_eq!(report.task.unwrap().payload, "zoom");
    let task = objects(&server, &["task", "list", "ar:1", "--state", "running"]).await.remove(0);
    let of_task =
        "deviceId taskId state attempt enqueueTime expireTime fencingToken lastAttemptEnd";
    assert_eq!(keys(&task).join(" "), of_task);
    assert_eq!(task["state"], "TASK_STATE_RUNNING");
    assert_eq!(task["lastAttemptEnd"], "ATTEMPT_END_UNSPECIFIED");

    let cancel = ["task", "cancel", "ar:1", "camera-1", "t-1"];
    assert_says(&prints(&server, &cancel).await, &["RUNNING", "tollgate pool evict"]);
    let (code, stdout, _) = ends(&server, &["task", "cancel", "ar:1", "camera-1", "t-2"]).await;
    assert_eq!((code, &*stdout), (Some(1), "UNKNOWN  no such task was queued\n"));
    assert_eq!(objects(&server, &["task", "list", "ar:1"]).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_task_exits_with_1() {
    let file = TempFile::new("[[pool]]\nmatch = \"*\"\nqueued_max = 1\n");
    let server = Server::start(&["--config", file.path()]).await;
    prints(&server, &["task", "queue", "ar:1", "camera-1", "t-1"]).await;
    let (code, stdout, _) = ends(&server, &["task", "queue", "ar:1", "camera-1", "t-2"]).await;
    assert_eq!((code, &*stdout), (Some(1), "FULL  the pool has its maximum of queued tasks\n"));
    let words = ["task", "queue", "ar:1", "camera-1", "t-2", "--output", "json"];
    let (code, stdout, _) = ends(&server, &words).await;
    let expected = "{\"taskId\":\"t-2\",\"status\":\"ENQUEUE_STATUS_FULL\"}\n";
    assert_eq!((code, &*stdout), (Some(1), expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_payload_comes_from_a_file_or_from_standard_input() {
    let server = Server::start(&[]).await;
    let file = TempFile::new("of a file");
    let words = ["task", "queue", "ar:1", "d", "t-1", "--payload-file", file.path()];
    prints(&server, &words).await;
    let address = server.address();
    let words = ["task", "queue", "ar:1", "e", "t-2", "--payload-file", "-", "--server", &address];
    let mut child = tollgate(&words).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"of a pipe").unwrap();
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(status.success());
    let mut client = server.client().await;
    for (device, payload) in [("d", "of a file"), ("e", "of a pipe")] {
        let report = client.admit_task(admit("ar:1", device, "")).await.unwrap().into_inner();
        assert_eq!(report.task.unwrap().payload, payload);
    }

    fs::write(file.path(), vec![b'x'; 65_537]).unwrap();
    for (path, part) in [(file.path(), "at most 65,536 bytes"), ("/nowhere", "/nowhere: No such")] {
        let words = ["task", "queue", "ar:1", "d", "t-3", "--payload-file", path];
        let (code, _, stderr) = ends(&server, &words).await;
        assert_eq!(code, Some(69), "{stderr}");
        assert_says(&stderr, &["cannot queue `t-3`", part]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_of_tasks_is_listed() {
    let server = Server::start(&[]).await;
    let mut client = server.client().await;
    for page in 0..3 {
        let tasks = (0..700).map(|task| queued(&format!("d{task}"), &format!("t{page}")));
        let mut request = tonic::Request::new(batch("big", tasks.collect()));
        request.set_timeout(std::time::Duration::from_secs(60));
        let answer: pb::EnqueueTasksResponse =
            client.enqueue_tasks(request).await.unwrap().into_inner();
        assert_eq!(answer.results.len(), 700);
    }
    assert_eq!(prints(&server, &["task", "list", "big"]).await.lines().count(), 2101);
    assert_eq!(objects(&server, &["task", "list", "big"]).await.len(), 2100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_task_is_requeued() {
    let server = Server::start(&[]).await;
    prints(&server, &["pool", "configure", "ar:1", "--max-attempts", "1"]).await;
    prints(&server, &["task", "queue", "ar:1", "camera-1", "t-1", "--payload", "zoom"]).await;
    let mut client = server.client().await;
    client.admit_task(admit("ar:1", "camera-1", "")).await.unwrap();
    let outcome = pb::Outcome::Failed.into();
    let failed = pb::CompleteTaskRequest { outcome, ..complete("ar:1", "camera-1", "t-1") };
    client.complete_task(failed).await.unwrap();
    let dead = prints(&server, &["task", "list", "ar:1", "--state", "dead"]).await;
    assert_says(&dead, &["LAST ATTEMPT", "camera-1  t-1   dead         1  failed"]);
    let dead = objects(&server, &["task", "list", "ar:1", "--state", "dead"]).await.remove(0);
    assert_eq!(dead["lastAttemptEnd"], "ATTEMPT_END_FAILED");
    let requeue = ["task", "requeue", "ar:1", "camera-1", "t-1"];
    assert_eq!(
        prints(&server, &requeue).await,
        "REQUEUED  last in the queue of its device, with new attempts\n"
    );
    assert_eq!(prints(&server, &requeue).await, "ALREADY_QUEUED  it is in the queue\n");
    let again = objects(&server, &requeue).await.remove(0);
    assert_eq!(again.to_string(), r#"{"verdict":"REQUEUE_VERDICT_ALREADY_QUEUED"}"#);
    let report = client.admit_task(admit("ar:1", "camera-1", "")).await.unwrap().into_inner();
    assert_eq!(report.task.unwrap().payload, "zoom");
    prints(&server, &["task", "cancel", "ar:1", "camera-1", "t-1"]).await;
    for (task, said) in [("t-1", "NOT_DEAD  "), ("t-2", "UNKNOWN  ")] {
        let (code, stdout, _) = ends(&server, &["task", "requeue", "ar:1", "camera-1", task]).await;
        assert_eq!((code, stdout.starts_with(said)), (Some(1), true), "{stdout}");
    }
}
