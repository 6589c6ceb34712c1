//! J16: a store whose replies do not end.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tonic::Code;

use super::memory::{peak_of, resident};
use crate::support::{
    process::{OwnRedis, Server},
    world::{Client, admit},
};

/// More memory than a server needs if it closes connections whose replies do not end.
const GROWTH_MAX: usize = 96 << 20;
/// Replies that do not end: their beginning, and what is repeated.
const REPLIES: [(&str, &str); 6] = [
    ("$9999999999\r\n", "x"),
    ("+", "x"),
    ("*9999999999\r\n", ":1\r\n"),
    ("", "*1\r\n"),
    ("$", "0"),
    ("*", "0"),
];

/// A proxy in front of Redis. Answers each request with the endless reply of this number; forwards
/// connections if there is none.
struct EndlessProxy {
    address: SocketAddr,
    reply: Arc<AtomicUsize>,
}

impl EndlessProxy {
    async fn start(redis: u16) -> EndlessProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let reply = Arc::new(AtomicUsize::new(REPLIES.len()));
        let chosen = reply.clone();
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                tokio::spawn(serve(caller, redis, chosen.clone()));
            }
        });
        EndlessProxy { address, reply }
    }
}

/// Passes a connection on until an endless reply is chosen, then sends that.
async fn serve(mut caller: TcpStream, redis: u16, reply: Arc<AtomicUsize>) {
    let chosen = || REPLIES.get(reply.load(Ordering::SeqCst));
    let Ok(mut node) = TcpStream::connect((Ipv4Addr::LOCALHOST, redis)).await else { return };
    let until_chosen = async {
        while chosen().is_none() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        _ = copy_bidirectional(&mut caller, &mut node) => return,
        () = until_chosen => {}
    }
    // A request comes before its reply.
    let mut request = [0; 16 * 1024];
    if !matches!(caller.read(&mut request).await, Ok(read) if read > 0) {
        return;
    }
    let Some((start, part)) = chosen() else { return };
    let parts = part.repeat(64 * 1024);
    let mut sent = caller.write_all(start.as_bytes()).await;
    while sent.is_ok() && chosen().is_some() {
        sent = caller.write_all(parts.as_bytes()).await;
    }
}

/// Waits until a task is admitted.
async fn admitted(client: &mut Client) {
    let admitted = async {
        while client.admit_task(admit("p", "d", "t")).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(30), admitted).await.expect("the server recovers");
}

#[tokio::test(flavor = "multi_thread")]
async fn j16_replies_without_an_end_leave_the_server_small_and_usable() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let proxy = EndlessProxy::start(redis.port).await;
    let server = Server::start(&["--engine", &format!("redis://{}", proxy.address)]).await;
    let mut client = server.client().await;
    admitted(&mut client).await;
    for number in 0..REPLIES.len() {
        let before = resident(&server);
        proxy.reply.store(number, Ordering::SeqCst);
        let attack = async {
            // The server replaces the connections within milliseconds.
            let refused = loop {
                if let Err(refused) = client.admit_task(admit("p", "d", "during")).await {
                    break refused;
                }
            };
            sleep(Duration::from_secs(1)).await;
            refused
        };
        let (peak, refused) = peak_of(&server, attack).await;
        assert!(
            matches!(refused.code(), Code::Unavailable | Code::DeadlineExceeded),
            "{number}: {refused:?}"
        );
        assert!(peak < before + GROWTH_MAX, "{number}: {} to {} MiB", before >> 20, peak >> 20);
        proxy.reply.store(REPLIES.len(), Ordering::SeqCst);
        admitted(&mut client).await;
    }
}
