//! The actions of the pages do what they say, and have audit lines.

use tollgate_client::pb;

use crate::{
    browser::Browser,
    console::{Console, Engine},
    support::requests::{admit, complete, configure, patient},
};

on_each_engine!(
    the_actions_of_a_pool,
    an_eviction_while_a_fleet_runs,
    a_queued_task_is_cancelled,
    a_dead_task_is_queued_again,
);

async fn the_actions_of_a_pool(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(engine).await;
    console.capacity("p", 3).await;
    console.sign_in(&browser, &console.operator, "/pool?name=p").await;

    browser.click("button[value=pause]").await;
    browser.done("Paused").await;
    assert!(console.pool("p").await.config.unwrap().paused);
    console.audited("operator", "ConfigurePool", "p", "OK").await;
    let admitted = console.admission().admit_task(patient(admit("p", "d", "t"))).await.unwrap();
    assert_eq!(admitted.into_inner().decision(), pb::AdmitDecision::Paused);

    browser.click("button[value=resume]").await;
    browser.done("Resumed").await;
    assert!(!console.pool("p").await.config.unwrap().paused);

    browser.click("#act-capacity summary").await;
    browser.fill("input[name=capacity]", "7").await;
    browser.click("button[value=capacity]").await;
    browser.done("Set the capacity to 7").await;
    assert_eq!(console.pool("p").await.usage.unwrap().capacity, 7);

    browser.click("#act-reset summary").await;
    browser.click("button[value=reset]").await;
    browser.done("Removed").await;
    assert!(console.pool("p").await.config.unwrap().overrides.is_empty());

    // A value out of range is refused with its bounds, and changes nothing.
    let outside = "const form = new URLSearchParams({ action: 'capacity', capacity: '1000001' });
        const done = arguments[arguments.length - 1];
        fetch(location.href, { method: 'POST', body: form }).then(answer => answer.text()).then(done)";
    let answer = browser.run_async(outside, &[]).await;
    assert!(answer.as_str().unwrap().contains("Not done."), "{answer}");
    assert!(answer.as_str().unwrap().contains("1000000"), "{answer}");
    assert_eq!(console.pool("p").await.usage.unwrap().capacity, 60);
    // A message is shown once.
    browser.open(&console.url("/pool?name=p")).await;
    assert_eq!(browser.count(".message").await, 0);
}

async fn an_eviction_while_a_fleet_runs(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let mut console = Console::start(engine).await;
    console.admit("ar:1", "the camera", "the scan").await;
    console.fleet(&["--pool=ar:1", "--devices=10", "--capacity=8", "--report-interval=1s"]);
    console.sign_in(&browser, &console.operator, "/pool?name=ar%3A1").await;
    browser.until("the fleet works", async || browser.rows("leases").await.len() > 3).await;
    let row = "//section[@id='leases']//tr[th='the camera']";
    browser.click(&format!("{row}//summary")).await;
    // The open row stays as it is, while others change.
    browser.fill(&format!("{row}//input[@name='reason']"), "unplugged").await;
    browser.click(&format!("{row}//button")).await;
    browser.done("Evicted task the scan of device the camera").await;
    assert_eq!(browser.count(row).await, 0);
    let leases = console.leases("ar:1").await;
    assert!(leases.iter().all(|lease| lease.device_id != "the camera"), "{leases:?}");
    console.audited("operator", "EvictTask", "ar:1", "OK").await;
}

/// Queues tasks for devices of the pool `q`, which has one slot.
async fn queue(console: &Console, tasks: &[(&str, &str)]) {
    console.capacity("q", 1).await;
    let task = |(device, task): &(&str, &str)| pb::QueuedTask {
        device_id: (*device).to_owned(),
        task_id: (*task).to_owned(),
        ..Default::default()
    };
    let tasks = tasks.iter().map(task).collect();
    let request = pb::EnqueueTasksRequest { pool: "q".to_owned(), tasks };
    console.admission().enqueue_tasks(patient(request)).await.unwrap();
}

async fn a_queued_task_is_cancelled(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(engine).await;
    queue(&console, &[("camera-1", "first"), ("camera-2", "second")]).await;
    console.sign_in(&browser, &console.operator, "/pool?name=q").await;
    browser.until("both are queued", async || browser.rows("queued").await.len() == 2).await;
    assert_eq!(browser.facts("usage").await["Queued tasks"], "2");
    let row = "//section[@id='queued']//tr[td='first']";
    browser.click(&format!("{row}//summary")).await;
    browser.click(&format!("{row}//button")).await;
    browser.done("Cancelled task first of device camera-1").await;
    browser.until("one is left", async || browser.rows("queued").await.len() == 1).await;
    assert_eq!(console.pool("q").await.queued, 1);
    console.audited("operator", "CancelTask", "q", "OK").await;
}

async fn a_dead_task_is_queued_again(engine: Engine) {
    let Some(browser) = Browser::start().await else { return };
    let console = Console::start(engine).await;
    queue(&console, &[("camera-1", "scan")]).await;
    let once = pb::ConfigurePoolRequest { max_attempts: Some(1), ..configure("q") };
    console.admission().configure_pool(patient(once)).await.unwrap();
    // The device takes the task and reports a failure: its only attempt.
    let report = console.admission().admit_task(patient(admit("q", "camera-1", ""))).await;
    assert_eq!(report.unwrap().into_inner().lease.expect("the task").task_id, "scan");
    let failed = pb::CompleteTaskRequest {
        outcome: pb::Outcome::Failed.into(),
        ..complete("q", "camera-1", "scan")
    };
    console.admission().complete_task(patient(failed)).await.unwrap();
    console.sign_in(&browser, &console.operator, "/pool?name=q").await;
    browser.until("it is dead", async || browser.rows("dead").await.len() == 1).await;
    assert_eq!(browser.rows("dead").await[0][..5], ["camera-1", "scan", "dead", "1", "failed"]);
    browser.click("//section[@id='dead']//button[@value='requeue']").await;
    browser.done("scan").await;
    browser.until("it is queued", async || browser.rows("queued").await.len() == 1).await;
    assert_eq!(browser.rows("dead").await.len(), 0);
    assert_eq!(console.pool("q").await.queued, 1);
    console.audited("operator", "RequeueTask", "q", "OK").await;
}
