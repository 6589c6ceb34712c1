//! Actions do what they say, and write an audit line, on both engines.

use tollgate_client::pb::{
    AdmitTaskRequest, CompleteTaskRequest, GetPoolRequest, ListTasksRequest, Outcome, Pool,
    TaskState,
};

use super::{ConsoleServer, on_both_stores};
use crate::support::{
    queue::{attempts, batch, queued},
    requests::complete,
    world::{Client, admit},
};

const PAGE: &str = "/pool?name=ar%3A1";

async fn pool(client: &mut Client) -> Pool {
    let request = GetPoolRequest { pool: "ar:1".into() };
    client.get_pool(request).await.unwrap().into_inner().pool.unwrap()
}

async fn act(server: &ConsoleServer, form: &str) -> String {
    server.act(PAGE, form).await
}

async fn actions_change_the_pool_and_are_audited(server: ConsoleServer) {
    let mut client = server.client().await;
    client.admit_task(admit("ar:1", "camera", "task")).await.unwrap();

    assert!(act(&server, "action=pause").await.contains("Paused"));
    assert!(pool(&mut client).await.config.unwrap().paused);
    assert!(act(&server, "action=resume").await.contains("Resumed"));
    assert!(!pool(&mut client).await.config.unwrap().paused);
    assert!(act(&server, "action=capacity&capacity=7").await.contains("capacity to 7"));
    assert_eq!(pool(&mut client).await.config.unwrap().capacity, 7);
    assert!(act(&server, "action=reset").await.contains("Removed"));
    assert_eq!(pool(&mut client).await.config.unwrap().overrides.len(), 0);

    let evict = "action=evict&device=camera&task=task&reason=stuck";
    assert!(act(&server, evict).await.contains("Evicted task task of device camera"));
    assert_eq!(pool(&mut client).await.usage.unwrap().in_use, 0);
    let unknown = act(&server, "action=evict&device=nobody&task=task").await;
    assert!(unknown.contains("Not done") && unknown.contains("is unknown"), "{unknown}");

    client.enqueue_tasks(batch("ar:1", vec![queued("camera", "queued")])).await.unwrap();
    let page = server.get(PAGE, "").await.body;
    assert!(page.contains("value=\"cancel\""), "{page}");
    assert!(act(&server, "action=cancel&device=camera&task=queued").await.contains("Cancelled"));
    let request = ListTasksRequest { pool: "ar:1".into(), ..Default::default() };
    assert_eq!(client.list_tasks(request).await.unwrap().into_inner().tasks.len(), 0);

    let expected = [
        ["console", "ConfigurePool", "ar:1", "OK"],
        ["console", "ConfigurePool", "ar:1", "OK"],
        ["console", "ConfigurePool", "ar:1", "OK"],
        ["console", "ConfigurePool", "ar:1", "OK"],
        ["console", "EvictTask", "ar:1", "OK"],
        ["console", "EvictTask", "ar:1", "OK"],
        ["console", "CancelTask", "ar:1", "OK"],
    ];
    server.inner.files.logged("\"verb\":\"CancelTask\"", 1).await;
    assert_eq!(server.audited(), expected.map(|line| line.map(str::to_owned)));
}

async fn a_dead_task_is_queued_again(server: ConsoleServer) {
    let mut client = server.client().await;
    client.configure_pool(attempts("ar:1", 1)).await.unwrap();
    client.enqueue_tasks(batch("ar:1", vec![queued("camera", "broken")])).await.unwrap();
    let poll = AdmitTaskRequest { task_id: String::new(), ..admit("ar:1", "camera", "") };
    client.admit_task(poll).await.unwrap();
    let failed = CompleteTaskRequest {
        outcome: Outcome::Failed.into(),
        ..complete("ar:1", "camera", "broken")
    };
    client.complete_task(failed).await.unwrap();
    let page = server.get(PAGE, "").await.body;
    assert!(page.contains("Queue again"), "{page}");
    let row = "<td>dead</td><td class=\"number\">1</td><td>failed</td>";
    assert!(page.contains(row), "{page}");
    let requeue = "action=requeue&device=camera&task=broken";
    assert!(act(&server, requeue).await.contains("Queued task broken of device camera again"));
    let request = ListTasksRequest { pool: "ar:1".into(), ..Default::default() };
    let tasks = client.list_tasks(request).await.unwrap().into_inner().tasks;
    assert_eq!((tasks.len(), tasks[0].state()), (1, TaskState::Queued));
    let again = act(&server, requeue).await;
    assert!(again.contains("Not done") && again.contains("is queued already"), "{again}");
    let last = server.audited().pop().unwrap();
    assert_eq!(last, ["console", "RequeueTask", "ar:1", "OK"]);
}

async fn wrong_values_change_nothing(server: ConsoleServer) {
    let mut client = server.client().await;
    for (form, expected) in [
        ("action=capacity&capacity=many", "capacity: expected a whole number"),
        ("action=capacity&capacity=-1", "capacity: expected a whole number"),
        ("action=capacity&capacity=1000001", "capacity"),
        ("action=evict", "device_id"),
        ("action=unheard-of", "no such action"),
        ("", "no such action"),
    ] {
        let message = act(&server, form).await;
        assert!(message.contains("Not done") && message.contains(expected), "{form}: {message}");
    }
    assert_eq!(pool(&mut client).await.config.unwrap().overrides.len(), 0);
    assert_eq!(server.post("/pools", "", "action=pause").await.status, 405);
}

on_both_stores!(
    actions_change_the_pool_and_are_audited,
    a_dead_task_is_queued_again,
    wrong_values_change_nothing,
);
