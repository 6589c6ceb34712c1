//! The latency that a caller of one namespace sees while a caller of another namespace floods the
//! server.

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use tokio::{process::Command, time::sleep};
use tollgate_client::{Access, Connection, Options, RetryBudget};
use tollgate_core::time::monotonic;

use crate::{
    load,
    server::{Kind, Server, against},
};

/// Connections of the flood, and calls in flight on each: more calls than the server can answer at
/// once.
const CONNECTIONS: u32 = 16;
const IN_FLIGHT: u32 = 256;
/// Duration of each measurement.
const LENGTH: Duration = Duration::from_secs(10);
/// Pause of the measured caller between two calls.
const PAUSE: Duration = Duration::from_millis(5);

/// Measures both engines and prints a table.
pub(crate) fn run(program: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!("| engine | load | calls | failed | p50 | p99 |");
    println!("|---|---|---|---|---|---|");
    let redis = crate::process::redis(REDIS);
    let engines = [("embedded", None), ("Redis", Some(REDIS))];
    for ((label, engine), kind) in
        engines.into_iter().flat_map(|engine| [(engine, Kind::Namespace), (engine, Kind::Limited)])
    {
        let server = Server::start(program, kind, engine);
        runtime.block_on(async {
            let access = Access { token_file: Some(server.file("beta")), ..Access::default() };
            let caller = opened(&server.url, &access).await;
            row(label, "none", calls(&caller).await);
            let authorization = server.authorization.as_deref();
            let mut flood: Command = load(&server, authorization, CONNECTIONS, IN_FLIGHT).into();
            flood.args(["-D", &(LENGTH.as_secs() + 3).to_string()]);
            let mut flood = flood.stdout(Stdio::null()).kill_on_drop(true).spawn().unwrap();
            sleep(Duration::from_secs(1)).await;
            let load = if kind == Kind::Limited { "flood, limited" } else { "flood" };
            row(label, load, calls(&caller).await);
            flood.kill().await.unwrap();
        });
    }
    drop(redis);
}

/// The port of the measured Redis.
const REDIS: u16 = 21_987;

/// Waits until the server answers: it may still connect to Redis.
async fn opened(url: &str, access: &Access) -> Arc<Connection> {
    // Each refusal is counted.
    let options = Options::new([url]).access(access.clone()).retries(RetryBudget::NONE);
    let options = options.deadline(Duration::from_secs(5));
    let caller = options.open().await.expect("the server accepts connections");
    while caller.check("caller:18", &against(), 0).await.is_err() {
        sleep(Duration::from_millis(50)).await;
    }
    Arc::new(caller)
}

/// Makes calls in sequence. Returns their latencies, and the number of failed calls.
async fn calls(caller: &Connection) -> (Vec<Duration>, usize) {
    let (begin, mut took, mut failed) = (monotonic(), Vec::new(), 0);
    while begin.elapsed() < LENGTH {
        let start = monotonic();
        let answer = caller.check("caller:18", &against(), 1).await;
        took.push(start.elapsed());
        if let Err(error) = answer {
            eprintln!("failed: {error}");
            failed += 1;
        }
        sleep(PAUSE).await;
    }
    took.sort();
    (took, failed)
}

fn row(engine: &str, load: &str, (took, failed): (Vec<Duration>, usize)) {
    let part = |hundredths: usize| took[took.len() * hundredths / 100].as_secs_f64() * 1000.0;
    println!(
        "| {engine} | {load} | {} | {failed} | {:.2} ms | {:.2} ms |",
        took.len(),
        part(50),
        part(99)
    );
}
