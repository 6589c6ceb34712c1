//! Reload of certificates while clients call, and the maximum age of connections.

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::timeout;
use tollgate_client::pb::{AdmitDecision, WatchPoolRequest};
use tonic::{Code, Request, Status};

use crate::support::{
    certificates::{Authority, Files, Leaf, RELOADED, TlsServer},
    world::{Client, admit, capacity, complete},
};

const PATIENCE: Duration = Duration::from_secs(60);
const CLIENT_CA: &str = "client_ca = \"DIR/ca.crt\"\nclient_auth = \"required\"";

/// Whether a call was not sent because the server had ended the connection gracefully.
fn is_unsent(error: &Status) -> bool {
    error.code() == Code::Cancelled && error.message() == "operation was canceled"
}

/// Two clients that call until they are stopped. One keeps its connection, the other opens a new
/// connection for each call.
struct Load {
    stop: Arc<AtomicBool>,
    calls: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    async fn start(server: &Arc<TlsServer>, ca: &str, connections_end: bool) -> Load {
        let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = Vec::new();
        for stays in [true, false] {
            let (server, ca) = (server.clone(), ca.to_owned());
            let (stop, calls) = (stop.clone(), calls.clone());
            tasks.push(tokio::spawn(async move {
                let mut client = server.client(&ca, None).await.unwrap();
                while !stop.load(Ordering::Relaxed) {
                    if !stays {
                        client = server.client(&ca, None).await.unwrap();
                    }
                    match client.admit_task(admit("load", "d", "t")).await {
                        Ok(_) => {}
                        // The call was not sent. tonic does not repeat it on the next connection.
                        Err(error) if connections_end && is_unsent(&error) => continue,
                        Err(error) => panic!("{error:?}"),
                    }
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        let load = Load { stop, calls, tasks };
        load.more().await;
        load
    }

    /// Waits for further calls.
    async fn more(&self) {
        let wanted = self.calls.load(Ordering::Relaxed) + 20;
        let called = async {
            while self.calls.load(Ordering::Relaxed) < wanted {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, called).await.expect("the clients call");
    }

    /// Fails if a call has failed.
    async fn finish(self) {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.expect("no call has failed");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_rotate_under_load_without_a_failed_call() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let server = Arc::new(TlsServer::start(&old.server(), "").await);
    let both = old.pem() + &new.pem();
    let load = Load::start(&server, &both, false).await;
    server.client(&new.pem(), None).await.unwrap_err();

    // Several reloads by SIGHUP.
    for leaf in [new.server(), old.server(), new.server()] {
        server.files.write_leaf(&leaf);
        server.reload().await;
        load.more().await;
    }
    server.client(&new.pem(), None).await.unwrap();
    server.client(&old.pem(), None).await.unwrap_err();

    // Without SIGHUP, the server notices the changed files.
    let times = server.files.log().matches(RELOADED).count() + 1;
    server.files.write_leaf(&old.server());
    server.files.logged(RELOADED, times).await;
    load.more().await;
    server.client(&old.pem(), None).await.unwrap();
    load.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn authorities_of_clients_overlap_while_they_rotate() {
    let (server_ca, old, new) =
        (Authority::new("server"), Authority::new("old"), Authority::new("new"));
    let files = Files::new(&server_ca.server());
    files.write("ca.crt", &old.pem());
    let server = TlsServer::with(files, CLIENT_CA).await;
    let (theirs, next) = (old.client("a", 1), new.client("a", 1));
    let works = async |own: &Leaf| match server.client(&server_ca.pem(), Some(own)).await {
        Ok(mut client) => client.admit_task(admit("p", "d", "t")).await.is_ok(),
        Err(_) => false,
    };
    assert_eq!((works(&theirs).await, works(&next).await), (true, false));
    server.files.write("ca.crt", &(old.pem() + &new.pem()));
    server.reload().await;
    assert_eq!((works(&theirs).await, works(&next).await), (true, true));
    server.files.write("ca.crt", &new.pem());
    server.reload().await;
    assert_eq!((works(&theirs).await, works(&next).await), (false, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_file_changes_nothing_and_is_logged() {
    const KEPT: &str = "the configuration was not reloaded";
    let ours = Authority::new("ours");
    let server = TlsServer::start(&ours.server(), "").await;
    let valid = ours.server();
    for (number, (name, text, reason)) in [
        ("tls.crt", "", "no PEM certificate in the file"),
        ("tls.key", &*valid.key, "not the key of tls.cert"),
        ("tls.crt", &*ours.expired().cert, "the certificate expired at 2020-01-02"),
    ]
    .into_iter()
    .enumerate()
    {
        server.files.write(name, text);
        server.server.process.signal("-HUP");
        server.files.logged(KEPT, number + 1).await;
        server.files.logged(reason, 1).await;
        server.client(&ours.pem(), None).await.unwrap();
        server.files.write_leaf(&ours.server());
        server.reload().await;
    }
    assert!(server.files.log().contains(&server.files.text("tls.crt")));
}

/// A connection ends at its maximum age. A call in flight is answered normally.
#[tokio::test(flavor = "multi_thread")]
async fn connections_end_at_their_maximum_age_without_a_failed_call() {
    let ours = Authority::new("ours");
    let server = Arc::new(TlsServer::start(&ours.server(), "max_connection_age = \"1s\"").await);
    let load = Load::start(&server, &ours.pem(), true).await;
    let (ended, answered) = (ends(&server, &ours), outlasts(&server, &ours));
    let both = async { tokio::join!(ended, answered) };
    timeout(PATIENCE, both).await.expect("the connections end");
    load.more().await;
    load.finish().await;
}

/// Waits until the server ends a connection without an error. The client answers GOAWAY with
/// another GOAWAY, and may fail with BrokenPipe if the connection is already closed.
async fn ends(server: &TlsServer, ours: &Authority) {
    let stream = server.raw(&ours.pem(), &[b"h2"]).await.unwrap();
    let (_requests, connection) = h2::client::handshake(stream).await.unwrap();
    if let Err(error) = connection.await {
        let kind = error.get_io().map(std::io::Error::kind);
        assert_eq!(kind, Some(ErrorKind::BrokenPipe), "{error:?}");
    }
}

/// Makes a call that lasts longer than its connection may: it waits for a slot.
async fn outlasts(server: &TlsServer, ours: &Authority) {
    let mut client: Client = server.client(&ours.pem(), None).await.unwrap();
    client.configure_pool(capacity("full", 1)).await.unwrap();
    client.admit_task(admit("full", "d", "first")).await.unwrap();
    let mut request = Request::new(admit("full", "d", "second"));
    request.get_mut().max_wait = Some(prost_types::Duration { seconds: 30, nanos: 0 });
    request.set_timeout(PATIENCE);
    let waiting = tokio::spawn({
        let mut client = client.clone();
        async move { client.admit_task(request).await }
    });
    // Connections that are opened later end while the call waits.
    for _ in 0..2 {
        ends(server, ours).await;
    }
    assert!(!waiting.is_finished(), "the call still waits");
    let mut client = server.client(&ours.pem(), None).await.unwrap();
    client.complete_task(complete("full", "d", "first")).await.unwrap();
    let answer = waiting.await.unwrap().unwrap().into_inner();
    assert_eq!(answer.decision(), AdmitDecision::Admitted);
}

/// A watch does not end by itself. A connection at its maximum age waits 60 s for its calls, which
/// is also the longest `max_wait`.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_does_not_keep_a_connection_beyond_its_age() {
    let ours = Authority::new("ours");
    let server = TlsServer::start(&ours.server(), "max_connection_age = \"1s\"").await;
    let mut client: Client = server.client(&ours.pem(), None).await.unwrap();
    let watch = WatchPoolRequest { pool: "p".into(), ..Default::default() };
    let mut events = client.watch_pool(watch).await.unwrap().into_inner();
    let ended = timeout(PATIENCE + PATIENCE, events.message()).await.expect("the watch ends");
    assert!(!matches!(ended, Ok(Some(_))), "{ended:?}");
}
