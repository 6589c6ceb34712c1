//! H17: messages that are compressed with gzip.

use std::io::Write;

use flate2::{Compression, write::GzEncoder};
use futures_util::future::join_all;
use pb::{
    AdmitDecision, admission_service_client::AdmissionServiceClient,
    lock_service_client::LockServiceClient, rate_service_client::RateServiceClient,
    sequence_service_client::SequenceServiceClient, stock_service_client::StockServiceClient,
};
use prost::Message;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tollgate_client::pb;
use tonic::{Code, Status, codec::CompressionEncoding, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

use super::{
    bystander::Bystander,
    memory::{BUDGET, peak_of, resident, settles},
    messages::{ENQUEUE, MIB, Peer, field, framed, gzip},
};
use crate::support::{
    farm::eventually,
    process::{OwnRedis, Server, TempFile},
    queue::{batch, queued},
    world::{admit, complete},
};

const ADMIT: &str = "/tollgate.v1.AdmissionService/AdmitTask";

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().expect("a reason").reason.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_every_service_accepts_gzip() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
    let by_gzip = CompressionEncoding::Gzip;
    let mut admission = AdmissionServiceClient::new(channel.clone()).send_compressed(by_gzip);
    for (task, length) in [("short", 5), ("long", 250)] {
        let device = "d".repeat(length);
        let admitted = admission.admit_task(admit("pool", &device, task)).await.unwrap();
        assert_eq!(admitted.get_ref().decision(), AdmitDecision::Admitted);
        admission.complete_task(complete("pool", &device, task)).await.unwrap();
    }
    let watch = pb::WatchPoolRequest { pool: "pool".to_owned(), ..Default::default() };
    admission.watch_pool(watch).await.unwrap();

    let get = pb::GetLockRequest { name: "lock".to_owned() };
    LockServiceClient::new(channel.clone()).send_compressed(by_gzip).get_lock(get).await.unwrap();
    let list = pb::ListPoliciesRequest {};
    let mut rates = RateServiceClient::new(channel.clone()).send_compressed(by_gzip);
    rates.list_policies(list).await.unwrap();
    let next = pb::NextSequenceRequest { name: "name".to_owned(), ..Default::default() };
    let mut sequences = SequenceServiceClient::new(channel.clone()).send_compressed(by_gzip);
    sequences.next_sequence(next).await.unwrap();
    let set = pb::SetStockRequest { sku: "sku".to_owned(), on_hand: Some(5) };
    let mut stocks = StockServiceClient::new(channel.clone()).send_compressed(by_gzip);
    stocks.set_stock(set).await.unwrap();
    let check = HealthCheckRequest { service: String::new() };
    HealthClient::new(channel).send_compressed(by_gzip).check(check).await.unwrap();

    // Reflection: file_containing_symbol.
    let peer = Peer::connect(&server).await;
    let symbol = gzip(&field(4, b"tollgate.v1.LockService", 1));
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        let listed = peer.call(&path, "gzip", framed(true, &symbol)).await;
        assert_eq!(listed.code(), Code::Ok, "{listed:?}");
    }
    bystander.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_a_gzip_bomb_is_refused_within_bounds() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    let peer = Peer::connect(&server).await;
    let small = [field(1, b"pool", 1), field(9, &[0; 1000], 1)].concat();
    let warm = peer.call(ENQUEUE, "gzip", framed(true, &gzip(&small))).await;
    assert_eq!(warm.message(), "tasks must be 1 to 1000 tasks");
    // 16 MiB that gzip reduces to 16 KiB, and a message with too many elements.
    let bomb = framed(true, &gzip(&vec![0; 16 * MIB]));
    let idle = resident(&server);
    let tasks = framed(true, &gzip(&field(2, &[], 2_000_000)));
    assert!(bomb.len() < MIB / 32 && tasks.len() < MIB / 16);
    let attack = async {
        let services = ["Admission", "Rate", "Lock", "Sequence", "Stock"]
            .map(|service| format!("/tollgate.v1.{service}Service/"))
            .into_iter()
            .zip(["EnqueueTasks", "CheckRates", "GetLock", "NextSequence", "GetStock"])
            .map(|(service, method)| format!("{service}{method}"));
        let paths = services.chain([
            "/tollgate.v1.AdmissionService/WatchPool".to_owned(),
            "/grpc.health.v1.Health/Check".to_owned(),
        ]);
        for path in paths {
            let calls = (0..64).map(|_| peer.call(&path, "gzip", bomb.clone()));
            for refused in join_all(calls).await {
                assert_eq!(refused.code(), Code::ResourceExhausted, "{path}: {refused:?}");
                assert_eq!(reason(&refused), "MESSAGE_TOO_LARGE");
            }
        }
        let refused = peer.call(ENQUEUE, "gzip", tasks.clone()).await;
        assert_eq!(refused.message(), "tasks must be 1 to 1000 tasks");
    };
    let (most, ()) = peak_of(&server, attack).await;
    eprintln!("bombs: {most} bytes, idle {idle}");
    assert!(most < idle + BUDGET, "{most} bytes, idle {idle}");
    bystander.finish().await;
    settles(&server, idle).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_invalid_gzip_is_an_invalid_argument() {
    let server = Server::start(&[]).await;
    let peer = Peer::connect(&server).await;
    let message = admit("pool", "device", "task").encode_to_vec();
    let whole = gzip(&message);
    let torn = &whole[..whole.len() - 9];
    // Trailers with wrong lengths: too small (of a short and of a long message), and too large.
    let lies = [(&whole, 3u32), (&gzip(&vec![0; 16 * MIB]), 100), (&whole, 1_000_000)]
        .map(|(gzip, length)| [&gzip[..gzip.len() - 4], &length.to_le_bytes()].concat());
    let more = [&whole[..], &[9, 0, 0, 0]].concat();
    for broken in [&message[..], torn, b"", &lies[0], &lies[1], &lies[2], &more] {
        let refused = peer.call(ADMIT, "gzip", framed(true, broken)).await;
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert_eq!(reason(&refused), "MESSAGE_NOT_GZIP");
    }
    // The error names an unsupported compression.
    let refused = peer.call(ADMIT, "zstd", framed(true, &message)).await;
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("zstd"), "{refused:?}");
    // An uncompressed message is valid although the header names gzip.
    let plain = peer.call(ADMIT, "gzip", framed(false, &message)).await;
    assert_eq!(plain.code(), Code::Ok, "{plain:?}");
}

/// Returns a batch of 4 MiB whose payloads repeat one letter: about 5 KiB of gzip.
fn tasks(number: usize) -> Vec<u8> {
    let task = |task| {
        let mut task = queued("device", &format!("{number}-{task}"));
        task.payload = vec![b'x'; 65_000].into();
        task
    };
    let mut message = batch("bombs", (0..64).map(task).collect()).encode_to_vec();
    // An unknown field fills the message up to 4 MiB.
    message.extend(field(15, &vec![0; 4 * MIB - message.len() - 4], 1));
    assert_eq!(message.len(), 4 * MIB);
    message
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_inflated_bytes_of_running_calls_count() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    eventually("the store answers", async || {
        server.client().await.admit_task(admit("p", "d", "t")).await.is_ok()
    })
    .await;
    let bystander = Bystander::start(&server.address()).await;
    let peer = Peer::connect(&server).await;
    let idle = resident(&server);

    let bombs: Vec<_> = (0..64).map(|number| framed(true, &gzip(&tasks(number)))).collect();
    assert!(bombs.iter().all(|bomb| bomb.len() < 8 * 1024));
    let calls = bombs.iter().map(|bomb| peer.call(ENQUEUE, "gzip", bomb.clone()));
    let (most, answers) = peak_of(&server, join_all(calls)).await;
    let (taken, refused): (Vec<_>, Vec<_>) =
        answers.into_iter().partition(|answer| answer.code() == Code::Ok);
    let above = most.saturating_sub(idle);
    eprintln!("{} taken, {} refused, {above} bytes above idle", taken.len(), refused.len());
    assert!(above < BUDGET, "{above} bytes above idle");
    assert!(!taken.is_empty() && !refused.is_empty());
    for refused in refused {
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused:?}");
        assert_eq!(reason(&refused), "TOO_MANY_REQUEST_BYTES");
        assert!(refused.get_error_details().retry_info().is_some(), "{refused:?}");
    }
    bystander.finish().await;
    // The connection to Redis keeps the buffer of its largest command.
    settles(&server, idle + 8 * MIB).await;
}

/// Random bytes, which gzip cannot compress.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut bytes = vec![0; length];
    random.fill(&mut bytes[..]);
    bytes
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_large_gzip_messages_of_one_connection_are_inflated_one_at_a_time() {
    let file = TempFile::new("[limits]\nmessage_timeout = \"60s\"\n");
    let server = Server::start(&["--config", file.path()]).await;
    let peer = Peer::connect(&server).await;
    let message = |number: u64| {
        let tasks = (0..60).map(|task| {
            let mut task = queued(&format!("d{number}"), &format!("t{task}"));
            // A quarter of the messages are large on the wire, the others only after decompression.
            task.payload = match number % 4 {
                0 => noise(number, 65_000).into(),
                _ => vec![b'x'; 65_000].into(),
            };
            task
        });
        framed(true, &gzip(&batch("p", tasks.collect()).encode_to_vec()))
    };
    let messages: Vec<_> = (0..8).map(message).collect();
    assert!(messages.iter().filter(|message| message.len() > 3 * MIB).count() == 2);
    let calls = messages.into_iter().map(|message| peer.call(ENQUEUE, "gzip", message));
    for answer in join_all(calls).await {
        assert_eq!(answer.code(), Code::Ok, "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h17_gzip_that_is_slow_to_inflate_does_not_stop_other_calls() {
    let server = Server::start(&[]).await;
    let bystander = Bystander::start(&server.address()).await;
    // Random bytes of two values: 4 MiB that gzip reduces to about 1 MiB.
    let letters = noise(0, 4 * MIB - 16).iter().map(|byte| byte & 1).collect::<Vec<_>>();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&field(15, &letters, 1)).unwrap();
    let slow = framed(true, &encoder.finish().unwrap());
    assert!(slow.len() < 5 * MIB / 4);
    let mut peers = Vec::new();
    for _ in 0..4 {
        peers.push(Peer::connect(&server).await);
    }
    let calls = peers.iter().flat_map(|peer| {
        let call = || peer.call(ENQUEUE, "gzip", slow.clone());
        std::iter::repeat_with(call).take(12)
    });
    for refused in join_all(calls).await {
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert!(refused.message().contains("tasks must be 1 to 1000"), "{refused:?}");
    }
    bystander.finish().await;
}
