//! Measures the calls per second of one process. Give it the address of a server.

#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::{
    env,
    future::Future,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tollgate_client::{Admission, Connection, Error, Options, Outcome};

const TASKS: u32 = 50;
const LENGTH: Duration = Duration::from_secs(3);

/// Repeats a call in `tasks` tasks, and prints its number per second.
async fn measure<F>(
    what: &str,
    tasks: u32,
    call: impl Fn(u32, u64) -> F + Clone + Send + 'static,
) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>> + Send,
{
    let start = SystemTime::now();
    let elapsed = move || start.elapsed().unwrap_or_default();
    let repeat = |task| {
        let call = call.clone();
        tokio::spawn(async move {
            let mut calls = 0;
            while elapsed() < LENGTH {
                call(task, calls).await?;
                calls += 1;
            }
            Ok::<u64, Error>(calls)
        })
    };
    let running: Vec<_> = (0..tasks).map(repeat).collect();
    let mut calls = 0;
    for task in running {
        calls += task.await.unwrap_or_else(|_| Err(Error::default()))?;
    }
    println!("| {what} | {:.0} |", calls as f64 / elapsed().as_secs_f64());
    Ok(())
}

async fn pair(connection: &Connection, pool: &str, device: u32, task: u64) -> Result<(), Error> {
    let (device, task) = (format!("camera-{device}"), format!("task-{task}"));
    match connection.pool(pool).admit(&device, &task).await? {
        Admission::Admitted(permit) => permit.complete(Outcome::Succeeded, "").await.map(drop),
        _ => Err(Error::default()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let address = env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".to_owned());
    let connection = Options::new([address]).deadline(Duration::from_secs(10)).open().await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = format!("throughput:{now}");
    connection.pool(&name).configure(Some(TASKS), None).await?;

    println!("| calls | per second |\n|---|---|");
    for tasks in [1, TASKS] {
        let (connection, name) = (connection.clone(), name.clone());
        let next = move |_, _| {
            let (connection, name) = (connection.clone(), name.clone());
            async move { connection.take(&name, 1, 1, None, None).await.map(drop) }
        };
        measure(&format!("`take`, tasks: {tasks}"), tasks, next).await?;
    }
    let pairs = {
        let (connection, name) = (connection.clone(), name.clone());
        move |device, task| {
            let (connection, name) = (connection.clone(), name.clone());
            async move { pair(&connection, &name, device, task).await }
        }
    };
    measure(&format!("`admit` and `complete`, tasks: {TASKS}"), TASKS, pairs).await?;
    let allocator = std::sync::Arc::new(connection.allocator(&name).block(1_000));
    let allocate = move |_, _| {
        let allocator = allocator.clone();
        async move { allocator.next().await.map(drop) }
    };
    measure("`next` of an allocator, blocks of 1,000", 1, allocate).await
}
