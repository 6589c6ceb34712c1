//! Reflection, faults of Redis and shutdown, with real processes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use pb::{AdmitDecision, CompleteVerdict};
use prost::Message;
use prost_reflect::DescriptorPool;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tokio::time::{sleep, timeout};
use tollgate_client::pb;
use tonic::{Code, Request, transport::Channel};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;

use crate::support::{
    process::{OwnRedis, Server},
    wire::Wire,
    world::{admit, complete},
};

const SERVICES: [&str; 2] = ["", "tollgate.v1.AdmissionService"];
const PATIENCE: Duration = Duration::from_secs(20);

async fn health(server: &Server) -> HealthClient<Channel> {
    let endpoint = Channel::from_shared(server.address()).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

async fn status(server: &Server, service: &str) -> ServingStatus {
    let request = HealthCheckRequest { service: service.to_owned() };
    health(server).await.check(request).await.unwrap().into_inner().status()
}

/// Waits until the health stream of a service reports `expected`.
pub async fn await_health(server: &Server, service: &str, expected: ServingStatus) {
    let request = HealthCheckRequest { service: service.to_owned() };
    let mut stream = health(server).await.watch(request).await.unwrap().into_inner();
    let turned = async {
        while stream.message().await.unwrap().expect("the stream ended").status() != expected {}
    };
    timeout(PATIENCE, turned)
        .await
        .unwrap_or_else(|_| panic!("{service:?} did not become {expected:?}"));
}

async fn serving(server: &Server) {
    for service in SERVICES {
        await_health(server, service, ServingStatus::Serving).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_of_reflection_list_the_services() {
    let server = Server::start(&[]).await;
    let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
    macro_rules! services {
        ($version:ident) => {{
            use tonic_reflection::pb::$version::{
                ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
                server_reflection_request::MessageRequest,
                server_reflection_response::MessageResponse,
            };
            let list = MessageRequest::ListServices(String::new());
            let request =
                ServerReflectionRequest { host: String::new(), message_request: Some(list) };
            let mut client = ServerReflectionClient::new(channel.clone());
            let answers = client.server_reflection_info(tokio_stream::once(request)).await;
            let answer = answers.unwrap().into_inner().message().await.unwrap().unwrap();
            match answer.message_response {
                Some(MessageResponse::ListServicesResponse(list)) => {
                    list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        }};
    }
    for services in [services!(v1), services!(v1alpha)] {
        for name in ["tollgate.v1.AdmissionService", "grpc.health.v1.Health"] {
            assert!(services.iter().any(|service| service == name), "{name}: {services:?}");
        }
    }
}

/// grpcurl asks for the file of a service, then for each file that it imports.
#[tokio::test(flavor = "multi_thread")]
async fn reflection_serves_a_service_with_every_file_that_it_imports() {
    use tonic_reflection::pb::v1::{
        ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
        server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
    };
    let server = Server::start(&[]).await;
    let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
    let mut client = ServerReflectionClient::new(channel);
    let (mut files, mut missing) = (FileDescriptorSet::default(), Vec::new());
    let mut next = Some(MessageRequest::FileContainingSymbol("tollgate.v1.StockService".into()));
    while let Some(request) = next {
        let request =
            ServerReflectionRequest { host: String::new(), message_request: Some(request) };
        let answers = client.server_reflection_info(tokio_stream::once(request)).await;
        let answer = answers.unwrap().into_inner().message().await.unwrap().unwrap();
        let Some(MessageResponse::FileDescriptorResponse(found)) = answer.message_response else {
            panic!("{answer:?}");
        };
        for file in found.file_descriptor_proto {
            let file = FileDescriptorProto::decode(file.as_slice()).unwrap();
            missing.extend(file.dependency.iter().cloned());
            files.file.push(file);
        }
        missing.retain(|name: &String| !files.file.iter().any(|file| file.name() == name));
        next = missing.pop().map(MessageRequest::FileByFilename);
    }
    assert!(files.file.iter().any(|file| file.name() == "tollgate/v1/options.proto"), "{files:?}");
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    assert!(pool.get_service_by_name("tollgate.v1.StockService").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn s1_without_redis_at_start_calls_fail_immediately_and_recover() {
    let mut redis = OwnRedis::prepare();
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = server.client().await;
    for service in SERVICES {
        assert_eq!(status(&server, service).await, ServingStatus::NotServing);
    }
    let refused = client.admit_task(admit("p", "d", "t")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused:?}");
    let details = refused.get_error_details();
    let retry = details.retry_info().expect("RetryInfo in the details").retry_delay;
    assert!(retry.is_some_and(|delay| delay > Duration::ZERO));

    redis.start().await;
    serving(&server).await;
    let admitted = client.admit_task(admit("p", "d", "t")).await.unwrap().into_inner();
    assert_eq!(admitted.decision(), AdmitDecision::Admitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_script_flush_under_load_fails_no_call() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    serving(&server).await;
    let flushing = Arc::new(AtomicBool::new(true));
    let mut callers = Vec::new();
    for caller in 0..8 {
        let (mut client, flushing) = (server.client().await, flushing.clone());
        callers.push(tokio::spawn(async move {
            let mut calls = 0;
            while flushing.load(Ordering::SeqCst) {
                let (device, task) = (format!("d{caller}"), format!("t{calls}"));
                let admitted = client.admit_task(admit("p", &device, &task)).await.unwrap();
                assert_eq!(admitted.into_inner().decision(), AdmitDecision::Admitted);
                let done = client.complete_task(complete("p", &device, &task)).await.unwrap();
                assert_eq!(done.into_inner().verdict(), CompleteVerdict::Completed);
                calls += 2;
            }
            calls
        }));
    }
    for _ in 0..200 {
        redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
        sleep(Duration::from_millis(5)).await;
    }
    flushing.store(false, Ordering::SeqCst);
    for caller in callers {
        assert!(caller.await.unwrap() > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s3_a_pool_first_used_after_script_flush_is_listed() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    serving(&server).await;
    let mut client = server.client().await;
    client.admit_task(admit("a", "d", "t")).await.unwrap();
    redis.command(&["SCRIPT", "FLUSH"]).await.unwrap();
    // Reloads the script of the verb only, since the pool was just registered.
    client.admit_task(admit("a", "d2", "t")).await.unwrap();
    client.admit_task(admit("b", "d", "t")).await.unwrap();
    let listed = client.list_pools(pb::ListPoolsRequest::default()).await.unwrap().into_inner();
    let mut names: Vec<&str> = listed.pools.iter().map(|pool| &*pool.pool).collect();
    names.sort();
    assert_eq!(names, ["a", "b"]);

    // An index of another type is deleted by its next reader; later registrations refill it.
    redis.command(&["SET", "tollgate:{index:admission}:partitions", "text"]).await.unwrap();
    let listed = client.list_pools(pb::ListPoolsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.pools, []);
    client.admit_task(admit("c", "d", "t")).await.unwrap();
    let listed = client.list_pools(pb::ListPoolsRequest::default()).await.unwrap().into_inner();
    assert_eq!(listed.pools.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_may_have_been_executed_is_deadline_exceeded() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let engine = format!("redis://127.0.0.1:{}", wire.port);
    let server = Server::start(&["--engine", &engine]).await;
    serving(&server).await;
    let mut client = server.client().await;
    client.admit_task(admit("p", "d0", "t")).await.unwrap();
    // Redis executes the call, its reply is lost, and a second attempt cannot connect.
    wire.cut();
    let lost = client.admit_task(admit("p", "d1", "t")).await.unwrap_err();
    let leases = redis.command(&["ZCARD", "tollgate:{admission:p}:leases"]).await.unwrap();
    assert_eq!(leases, redis::Value::Int(2));
    assert_eq!(lost.code(), Code::DeadlineExceeded, "{lost:?}");
    let details = lost.get_error_details();
    assert_eq!(details.error_info().expect("ErrorInfo in the details").reason, "FATE_UNKNOWN");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_with_few_free_connections_still_serves() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.command(&["CONFIG", "SET", "maxclients", "8"]).await.unwrap();
    let server = Server::start(&["--engine", &redis.url()]).await;
    serving(&server).await;
    server.client().await.admit_task(admit("p", "warm", "t")).await.unwrap();
    let mut callers = Vec::new();
    for caller in 0..32 {
        let mut client = server.client().await;
        callers.push(tokio::spawn(async move {
            for task in 0..20 {
                let request = admit("p", &format!("d{caller}"), &format!("t{task}"));
                client.admit_task(request).await.unwrap();
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    assert_eq!(status(&server, "").await, ServingStatus::Serving);
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_sigterm_lets_calls_in_flight_finish() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let mut server = Server::start(&["--engine", &redis.url()]).await;
    serving(&server).await;
    // Redis delays its replies, so that calls are in flight.
    redis.command(&["CLIENT", "PAUSE", "700", "ALL"]).await.unwrap();
    let mut calls = Vec::new();
    for device in 0..32 {
        let mut client = server.client().await;
        calls.push(tokio::spawn(async move {
            let mut call = Request::new(admit("p", &format!("d{device}"), "t"));
            call.set_timeout(PATIENCE);
            client.admit_task(call).await
        }));
    }
    sleep(Duration::from_millis(100)).await;
    let mut streams = Vec::new();
    for service in SERVICES {
        let request = HealthCheckRequest { service: service.to_owned() };
        let mut stream = health(&server).await.watch(request).await.unwrap().into_inner();
        assert_eq!(stream.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
        streams.push(stream);
    }
    server.process.signal("-TERM");
    for mut stream in streams {
        let next = timeout(PATIENCE, stream.message()).await.unwrap().unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::NotServing);
    }
    for call in calls {
        let admitted = call.await.unwrap().expect("a call in flight is answered").into_inner();
        assert_eq!(admitted.decision(), AdmitDecision::Admitted);
    }
    assert_eq!(server.process.end(PATIENCE).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn s7_sigint_under_load_exits_with_0() {
    let mut server = Server::start(&[]).await;
    let mut callers = Vec::new();
    for caller in 0..8 {
        let mut client = server.client().await;
        callers.push(tokio::spawn(async move {
            for call in 0.. {
                let request = admit("p", &format!("d{caller}"), &format!("t{call}"));
                if let Err(status) = client.admit_task(request).await {
                    return (call, status);
                }
            }
            unreachable!("the server ends");
        }));
    }
    sleep(Duration::from_millis(300)).await;
    server.process.signal("-INT");
    for caller in callers {
        let (calls, status) = timeout(PATIENCE, caller).await.unwrap().unwrap();
        // Errors of the client library when a connection closes.
        let gone = [Code::Unavailable, Code::Unknown, Code::Cancelled];
        let gone =
            gone.contains(&status.code()) || status.message().starts_with("h2 protocol error");
        assert!(calls > 0 && gone, "{status:?}");
    }
    assert_eq!(server.process.end(PATIENCE).await, Some(0));
}
