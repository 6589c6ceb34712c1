//! A backend that runs the queued tasks of its devices, at most as many at once as the pool allows.
//!
//! `cargo run --example device_backend`, with a server on 127.0.0.1:50051.

use std::{error::Error, time::Duration};

use tollgate_client::{Connection, Held, QueuedTask, Work};

const DEVICES: [&str; 3] = ["camera-1", "camera-2", "camera-3"];

/// Talks to the external system, which should refuse tokens that are lower than one it has seen.
async fn snapshot(task: &str, held: &Held) -> Result<String, String> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    if !held.is_valid() {
        return Err("the lease is lost".to_owned());
    }
    Ok(format!("result of {task} with token {}", held.token()))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("TOLLGATE_URL").unwrap_or("http://127.0.0.1:50051".to_owned());
    let pool = Connection::open(&url).await?.pool("ar:0571");
    // A second start of this example queues nothing: the tasks are known.
    let tasks = DEVICES.iter().map(|device| QueuedTask {
        device_id: (*device).to_owned(),
        task_id: "snapshot-1".to_owned(),
        ..QueuedTask::default()
    });
    println!("queued: {:?}", pool.enqueue(tasks.collect()).await?);

    let workers = DEVICES.map(|device| {
        pool.worker(device)
            .lease(Duration::from_secs(30))
            .on_done(move |task, verdict| println!("{device}: {task}: {verdict:?}"))
            .start(|work: Work| async move { snapshot(&work.task.task_id, &work.held).await })
    });
    // A service would wait for its signal to end.
    tokio::time::sleep(Duration::from_secs(2)).await;
    for worker in workers {
        worker.stop().await?;
    }
    Ok(())
}
