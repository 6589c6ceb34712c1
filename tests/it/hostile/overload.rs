//! H24: many more calls than a server can answer, each with a deadline, over several
//! connections. Callers come back whether they were answered or not.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use h2::client::SendRequest;
use prost::Message;
use rand::Rng;
use tokio::{
    net::TcpStream,
    task::{JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tollgate::{
    decision::time::monotonic,
    grpc::client::pb::{self, CompleteVerdict},
};
use tonic::{
    Code, Status,
    codegen::http::{HeaderMap, Request as Http},
    transport::Endpoint,
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use crate::support::{
    process::{OwnRedis, Server},
    world::{admit, complete},
};

const CONNECTIONS: usize = 8;
/// Callers of each connection.
const CALLERS: u64 = 600;
/// Tasks that are completed while others are refused.
const TASKS: u64 = 10;
/// Refusals after which the overload is believed.
const REFUSALS: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(30);
const CHECK: &str = "tollgate.v1.RateService/CheckRate";

/// What the callers saw.
#[derive(Default)]
struct Seen {
    over: AtomicBool,
    answered: AtomicU64,
    refused: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Seen {
    fn note(&self, status: &Status) {
        match status.code() {
            Code::Ok => drop(self.answered.fetch_add(1, Ordering::Relaxed)),
            // It was read in time, and the store answered late.
            Code::DeadlineExceeded => {}
            // Its time was over before it went to the store.
            Code::Unavailable if status.get_details_retry_info().is_some() => {}
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

    fn wrong(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }
}

/// Calls again and again, each time with a deadline of its own, after which it resets the
/// stream.
async fn call_again(send: SendRequest<bytes::Bytes>, port: u16, key: String, seen: Arc<Seen>) {
    while !seen.over.load(Ordering::Relaxed) {
        let time = Duration::from_millis(rand::rng().random_range(200..=1000));
        match timeout(time, call(&send, port, &key, time)).await {
            // Its time is over.
            Err(_) => {}
            Ok(Ok(status)) => {
                seen.note(&status);
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

/// Asks for health until the overload is over; how often.
fn watch_health(server: &Server, seen: &Arc<Seen>) -> JoinHandle<u64> {
    let (address, seen) = (server.address(), seen.clone());
    tokio::spawn(async move {
        let channel = Endpoint::from_shared(address).unwrap().connect().await.unwrap();
        let mut client = HealthClient::new(channel);
        let mut asked = 0;
        while !seen.over.load(Ordering::Relaxed) {
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

async fn overload(server: Server) {
    let mut client = server.client().await;
    for task in 0..TASKS {
        let admitted = client.admit_task(admit("pool", "device", &format!("task-{task}")));
        admitted.await.unwrap();
    }
    let seen = Arc::new(Seen::default());
    let health = watch_health(&server, &seen);
    let mut callers = JoinSet::new();
    for connection in 0..CONNECTIONS {
        let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        // Short answers wait for a client that is as busy: it must not take that for an attack.
        let mut client = h2::client::Builder::new();
        client.data_frame_budget(1 << 30).max_local_error_reset_streams(None);
        let (send, driver) = client.handshake(stream).await.unwrap();
        let told = seen.clone();
        tokio::spawn(async move {
            let ended = driver.await;
            // It ends by itself once nobody calls over it.
            if !told.over.load(Ordering::Relaxed) {
                told.wrong(format!("a connection is closed: {ended:?}"));
            }
        });
        for caller in 0..CALLERS {
            let key = format!("{connection}-{caller}");
            callers.spawn(call_again(send.clone(), server.port, key, seen.clone()));
        }
    }
    let begun = monotonic();
    while seen.refused.load(Ordering::Relaxed) < REFUSALS {
        let wrong = seen.wrong.lock().unwrap().first().cloned();
        assert_eq!(wrong, None);
        let answered = seen.answered.load(Ordering::Relaxed);
        assert!(begun.elapsed() < PATIENCE, "no call was refused, {answered} answered");
        sleep(Duration::from_millis(10)).await;
    }
    // They free capacity: they are answered though others are refused.
    for task in 0..TASKS {
        let mut request = tonic::Request::new(complete("pool", "device", &format!("task-{task}")));
        request.set_timeout(PATIENCE);
        let completed = client.complete_task(request).await.unwrap();
        assert_eq!(completed.get_ref().verdict(), CompleteVerdict::Completed);
    }
    seen.over.store(true, Ordering::Relaxed);
    while callers.join_next().await.is_some() {}
    let asked = health.await.unwrap();
    let wrong = seen.wrong.lock().unwrap();
    assert!(wrong.is_empty(), "{} wrong: {:?}", wrong.len(), wrong[0]);
    let (answered, refused) = (&seen.answered, &seen.refused);
    eprintln!("{answered:?} answered, {refused:?} refused, {asked} times healthy");
    assert!(answered.load(Ordering::Relaxed) > 0 && asked > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn h24_an_overloaded_embedded_server_refuses_what_it_cannot_answer_in_time() {
    overload(Server::start(&[]).await).await;
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
    overload(server).await;
}
