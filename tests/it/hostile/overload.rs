//! H24: many more calls than a server can answer, each with a deadline, over several connections.
//! Callers repeat their calls, whether they were answered or not.
//!
//! No check depends on the speed of the machine. Until calls are refused, the load is increased in
//! two ways. More callers start each time that as many calls have ended as there are callers. The
//! server or its Redis is stopped for a growing part of the time. Every wait has a generous bound.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use h2::client::SendRequest;
use prost::Message;
use rand::Rng;
use tokio::{
    net::TcpStream,
    runtime,
    sync::oneshot,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tollgate_client::pb::{self, CompleteVerdict};
use tollgate_core::time::monotonic;
use tonic::{
    Code, Status,
    codegen::http::{HeaderMap, Request as Http},
    transport::Endpoint,
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use crate::support::{
    process::{OwnRedis, Server},
    world::{Client, admit, complete},
};

const CONNECTIONS: usize = 8;
/// Maximum number of callers of all connections.
const CALLERS: u64 = 4800;
/// Tasks that are completed while others are refused.
const TASKS: u64 = 30;
/// Refusals after which the server counts as overloaded.
const REFUSALS: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(120);
/// The longest stop: too short for a store to count as unreachable.
const STOP_MAX: Duration = Duration::from_millis(200);
const CHECK: &str = "tollgate.v1.RateService/CheckRate";

/// The results of all callers.
#[derive(Default)]
struct Seen {
    over: AtomicBool,
    /// Calls that ended, in any way.
    ended: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Seen {
    fn record(&self, status: &Status) {
        match status.code() {
            Code::Ok => drop(self.answered.fetch_add(1, Ordering::Relaxed)),
            // The server read the call in time, but its answer was late.
            Code::DeadlineExceeded => {}
            Code::ResourceExhausted => {
                let reason = status.get_details_error_info().map(|info| info.reason);
                let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
                if reason.as_deref() != Some("OVERLOADED") || retry.is_none_or(|by| by.is_zero()) {
                    self.wrong(format!("a refusal without its details: {status:?}"));
                }
                self.refused.fetch_add(1, Ordering::Relaxed);
            }
            _ => self.wrong(format!("{status:?}")),
        }
    }

    fn is_overloaded(&self) -> bool {
        self.refused.load(Ordering::Relaxed) >= REFUSALS
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }
}

/// Calls again and again. Each call has a random deadline, at which its stream is reset.
async fn call_again(send: SendRequest<bytes::Bytes>, port: u16, key: String, seen: Arc<Seen>) {
    while !seen.is_over() {
        let time = Duration::from_millis(rand::rng().random_range(200..=1000));
        let ended = timeout(time, call(&send, port, &key, time)).await;
        seen.ended.fetch_add(1, Ordering::Relaxed);
        match ended {
            // The deadline has passed.
            Err(_) => {}
            Ok(Ok(status)) => {
                seen.record(&status);
                if status.code() != Code::Ok {
                    sleep(Duration::from_millis(20)).await;
                }
            }
            Ok(Err(error)) => return seen.wrong(format!("a connection is lost: {error}")),
        }
    }
}

async fn call(
    send: &SendRequest<bytes::Bytes>,
    port: u16,
    key: &str,
    time: Duration,
) -> Result<Status, h2::Error> {
    let request = Http::post(format!("http://127.0.0.1:{port}/{CHECK}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", format!("{}m", time.as_millis()));
    let mut send = send.clone().ready().await?;
    let (answer, mut body) = send.send_request(request.body(()).unwrap(), false)?;
    let message = check(key).encode_to_vec();
    let framed = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
    body.send_data(framed.into(), true)?;
    let (head, mut body) = answer.await?.into_parts();
    while let Some(data) = body.data().await {
        body.flow_control().release_capacity(data?.len())?;
    }
    let trailers = body.trailers().await?.unwrap_or_else(|| head.headers.clone());
    Ok(status(&trailers))
}

fn status(headers: &HeaderMap) -> Status {
    Status::from_header_map(headers).unwrap_or_else(|| Status::internal("no grpc-status"))
}

fn check(key: &str) -> pb::CheckRateRequest {
    let limit = pb::Limit {
        max: Some(1_000_000_000),
        window: Some(prost_types::Duration { seconds: 3600, nanos: 0 }),
        ..Default::default()
    };
    let rule = pb::Rule { limits: vec![limit], ..Default::default() };
    pb::CheckRateRequest {
        key: key.to_owned(),
        against: Some(pb::check_rate_request::Against::Rule(rule)),
        ..Default::default()
    }
}

/// The callers, which call until this value is dropped. They run on a separate thread, so that they
/// do not delay the other calls of the test.
struct Crowd {
    seen: Arc<Seen>,
    left: oneshot::Receiver<()>,
}

impl Crowd {
    fn start(port: u16, seen: &Arc<Seen>) -> Crowd {
        let (leave, left) = oneshot::channel();
        let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let told = seen.clone();
        thread::spawn(move || {
            runtime.block_on(crowd(port, told));
            let _ = leave.send(());
        });
        Crowd { seen: seen.clone(), left }
    }

    /// Stops the callers, and waits until all have ended.
    async fn end(mut self) {
        self.seen.over.store(true, Ordering::Relaxed);
        timeout(PATIENCE, &mut self.left).await.expect("all callers leave").unwrap();
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.seen.over.store(true, Ordering::Relaxed);
    }
}

/// Calls over all connections until `seen.over` is set. Until calls are refused, the number of
/// callers grows by half each time that as many calls have ended as there are callers.
async fn crowd(port: u16, seen: Arc<Seen>) {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        // A busy client reads many short answers in one go: h2 must not treat them as an attack.
        let mut client = h2::client::Builder::new();
        client.data_frame_budget(1 << 30).max_local_error_reset_streams(None);
        let (send, driver) = client.handshake(stream).await.unwrap();
        let told = seen.clone();
        tokio::spawn(async move {
            let ended = driver.await;
            // At the end of the test the connection ends without an error.
            if !told.is_over() {
                told.wrong(format!("a connection is closed: {ended:?}"));
            }
        });
        connections.push(send);
    }
    let (mut callers, mut number) = (JoinSet::new(), 0);
    while number < CALLERS && !seen.is_overloaded() && !seen.is_over() {
        let more = number / 2 + CONNECTIONS as u64;
        for send in connections.iter().cycle().take(more as usize) {
            callers.spawn(call_again(send.clone(), port, number.to_string(), seen.clone()));
            number += 1;
        }
        let before = seen.ended.load(Ordering::Relaxed);
        while seen.ended.load(Ordering::Relaxed) < before + number && !seen.is_over() {
            sleep(Duration::from_millis(5)).await;
        }
    }
    while callers.join_next().await.is_some() {}
}

/// Checks health until the overload is over. Returns the number of checks.
fn watch_health(server: &Server, seen: &Arc<Seen>) -> JoinHandle<u64> {
    let (address, seen) = (server.address(), seen.clone());
    tokio::spawn(async move {
        let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        let mut client = HealthClient::new(channel);
        let mut asked = 0;
        while !seen.is_over() {
            let check = client.check(HealthCheckRequest { service: String::new() });
            match timeout(PATIENCE, check).await {
                Ok(Ok(answer)) if answer.get_ref().status == 1 => {}
                other => seen.wrong(format!("health: {other:?}")),
            }
            asked += 1;
            sleep(Duration::from_millis(50)).await;
        }
        asked
    })
}

/// Completes a task. The call frees capacity, so it is never refused. On a slow machine it may fail
/// with DEADLINE_EXCEEDED, and is then repeated.
async fn complete_one(client: &mut Client, task: &str) {
    let begun = monotonic();
    let mut is_repeated = false;
    loop {
        let mut request = tonic::Request::new(complete("pool", "device", task));
        request.set_timeout(PATIENCE);
        let verdict = match client.complete_task(request).await {
            Ok(completed) => completed.get_ref().verdict(),
            Err(unknown) if unknown.code() == Code::DeadlineExceeded => {
                assert!(begun.elapsed() < PATIENCE, "{task} is not answered: {unknown:?}");
                is_repeated = true;
                continue;
            }
            Err(refused) => panic!("{task} is refused: {refused:?}"),
        };
        let was_first = verdict == CompleteVerdict::Completed;
        let was_before = is_repeated && verdict == CompleteVerdict::AlreadyCompleted;
        assert!(was_first || was_before, "{task}: {verdict:?}");
        return;
    }
}

/// A stopped process, which continues when this value is dropped.
struct Stopped<F: Fn(&str)>(F);

impl<F: Fn(&str)> Drop for Stopped<F> {
    fn drop(&mut self) {
        (self.0)("-CONT");
    }
}

/// Stops a process again and again. Until calls are refused, each stop is longer.
async fn hold_up(signal: impl Fn(&str), seen: &Seen) {
    let mut stop = Duration::ZERO;
    loop {
        if !seen.is_overloaded() {
            stop = (stop + Duration::from_millis(1)).min(STOP_MAX);
        }
        signal("-STOP");
        let stopped = Stopped(&signal);
        sleep(stop).await;
        drop(stopped);
        sleep(Duration::from_millis(10)).await;
    }
}

/// Overloads a server. `signal` sends SIGSTOP and SIGCONT to the server or to its Redis.
async fn overload(server: &Server, signal: impl Fn(&str)) {
    let mut client = server.client().await;
    for task in 0..TASKS {
        let admitted = client.admit_task(admit("pool", "device", &format!("task-{task}")));
        admitted.await.unwrap();
    }
    let seen = Arc::new(Seen::default());
    let health = watch_health(server, &seen);
    let crowd = Crowd::start(server.port, &seen);
    let begun = monotonic();
    let completed = async {
        while !seen.is_overloaded() {
            let wrong = seen.wrong.lock().unwrap().first().cloned();
            assert_eq!(wrong, None);
            let answered = seen.answered.load(Ordering::Relaxed);
            assert!(begun.elapsed() < PATIENCE, "nobody is refused, {answered} answered");
            sleep(Duration::from_millis(10)).await;
        }
        for task in 0..TASKS {
            complete_one(&mut client, &format!("task-{task}")).await;
        }
    };
    tokio::select! {
        () = completed => {}
        () = hold_up(signal, &seen) => {}
    }
    crowd.end().await;
    let asked = health.await.unwrap();
    let wrong = seen.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{} wrong: {:?}", wrong.len(), wrong[0]);
    let (answered, refused) = (&seen.answered, &seen.refused);
    eprintln!("{answered:?} answered, {refused:?} refused, {asked} times healthy");
    assert!(answered.load(Ordering::Relaxed) > 0 && asked > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn h24_an_overloaded_embedded_server_refuses_what_it_cannot_answer_in_time() {
    let server = Server::start(&[]).await;
    overload(&server, |signal| server.process.signal(signal)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h24_an_overloaded_server_on_redis_refuses_what_it_cannot_answer_in_time() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    let begun = monotonic();
    while client.admit_task(admit("pool", "device", "first")).await.is_err() {
        assert!(begun.elapsed() < PATIENCE, "the store is not up");
        sleep(Duration::from_millis(20)).await;
    }
    overload(&server, |signal| redis.signal(signal)).await;
}
