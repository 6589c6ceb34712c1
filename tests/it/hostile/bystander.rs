//! A well-behaved caller during an attack. It admits and completes tasks on its own connection and
//! thread, and records each failed call and the latency of each call.

use std::{
    thread::{self, JoinHandle},
    time::Duration,
};

use pb::AdmitDecision;
use tokio::{runtime, sync::oneshot, task::spawn_blocking, time::sleep};
use tollgate_client::pb;
use tollgate_core::time::monotonic;
use tonic::{
    Request,
    transport::{Certificate, ClientTlsConfig, Endpoint},
};

use crate::support::{
    process::Server,
    world::{Client, admit, complete},
};

/// Pause after each task.
const PAUSE: Duration = Duration::from_millis(5);
/// The deadline of a call. On a busy machine an attack that makes calls can delay the others by more
/// than the second at which the server refuses a call without a deadline.
const DEADLINE: Duration = Duration::from_secs(60);

/// A caller that runs until [`Bystander::finish`] stops it.
pub struct Bystander {
    stop: oneshot::Sender<()>,
    calls: JoinHandle<Calls>,
}

/// The latencies and failures that a bystander recorded.
#[derive(Debug, Default)]
pub struct Calls {
    took: Vec<Duration>,
    failed: Vec<String>,
}

impl Bystander {
    /// Connects to `address` and starts calling.
    pub async fn start(address: &str) -> Bystander {
        let address = address.to_owned();
        Bystander::with(async move || Client::connect(address).await.unwrap()).await
    }

    /// Connects to an `https` address with a certificate of this authority, and starts calling.
    pub async fn start_tls(address: &str, ca: &str) -> Bystander {
        let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
        let endpoint = Endpoint::from_shared(address.to_owned()).unwrap().tls_config(tls).unwrap();
        Bystander::with(async move || Client::new(endpoint.connect().await.unwrap())).await
    }

    async fn with(connect: impl AsyncFnOnce() -> Client + Send + 'static) -> Bystander {
        let (stop, stopped) = oneshot::channel();
        let (connected, is_connected) = oneshot::channel();
        // The attack must not delay the caller in the test's own runtime.
        let calls = thread::spawn(move || {
            let alone = runtime::Builder::new_current_thread().enable_all().build().unwrap();
            alone.block_on(async {
                let client = connect().await;
                let _ = connected.send(());
                call(client, stopped).await
            })
        });
        is_connected.await.expect("the caller connects");
        Bystander { stop, calls }
    }

    /// Stops the caller. Returns the 99th percentile of the latency, for reports. Panics unless
    /// every call was answered.
    pub async fn finish(self) -> Duration {
        let _ = self.stop.send(());
        let mut calls = spawn_blocking(move || self.calls.join().unwrap()).await.unwrap();
        assert!(
            calls.failed.is_empty(),
            "{} calls of the bystander failed, the first: {:?}",
            calls.failed.len(),
            calls.failed[0]
        );
        assert!(!calls.took.is_empty(), "the bystander made no call");
        calls.took.sort();
        let p99 = calls.took[calls.took.len() * 99 / 100];
        eprintln!("bystander: {} calls, p99 {p99:?}", calls.took.len());
        p99
    }
}

async fn call(mut client: Client, mut stopped: oneshot::Receiver<()>) -> Calls {
    let mut calls = Calls::default();
    for number in 0u64.. {
        if stopped.try_recv().is_ok() {
            break;
        }
        let task = format!("task-{number}");
        let begin = monotonic();
        match client.admit_task(timed(admit("bystander", "device", &task))).await {
            Ok(answer) if answer.get_ref().decision() == AdmitDecision::Admitted => {}
            other => calls.failed.push(format!("AdmitTask {number}: {other:?}")),
        }
        calls.took.push(begin.elapsed());
        let begin = monotonic();
        let completed = client.complete_task(timed(complete("bystander", "device", &task))).await;
        if let Err(error) = completed {
            calls.failed.push(format!("CompleteTask {number}: {error:?}"));
        }
        calls.took.push(begin.elapsed());
        sleep(PAUSE).await;
    }
    calls
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.set_timeout(DEADLINE);
    request
}

/// Reports the latency without an attack, for comparison with the reports of attacks.
#[tokio::test(flavor = "multi_thread")]
async fn without_an_attack_every_call_is_answered() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    sleep(Duration::from_secs(1)).await;
    bystander.finish().await;
}
