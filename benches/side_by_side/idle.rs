//! An idle server: its start time, memory and CPU, and the memory of connections without
//! calls.

use std::{fmt, io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};
use tollgate_core::time::monotonic;

use crate::{
    call::{Call, first_is},
    connection::Connection,
    loads,
    meter::cpu,
    options::Options,
    process::{self, Process},
    run::median,
};

const CONNECTIONS: u64 = 10_000;
/// Start of a client: preface, empty SETTINGS, and the ACK of the server's SETTINGS.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
                       \0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";
const FRAME_HEADER: usize = 9;

/// Results.
#[derive(Debug)]
pub(crate) struct Idle {
    /// From the start of the process until health is SERVING, in ms.
    pub(crate) start_ms: f64,
    /// In 10^6 bytes.
    pub(crate) resident_mb: f64,
    /// CPU as a fraction of one core.
    pub(crate) cpu: f64,
    /// Memory of a connection without a call, in 10^3 bytes.
    pub(crate) connection_kb: f64,
}

impl Idle {
    pub(crate) async fn measure(options: &Options) -> Idle {
        let mut starts = Vec::new();
        for _ in 0..options.reps() {
            starts.push(start(options).await.2);
        }
        let (server, address, _) = start(options).await;
        let while_idle = Duration::from_secs(if options.quick { 2 } else { 20 });
        sleep(Duration::from_secs(1)).await;
        let resident = server.resident();
        let before = cpu(server.id());
        sleep(while_idle).await;
        let used = Duration::from_nanos(cpu(server.id()) - before);
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            connections.push(connect(address).await.expect("the server takes connections"));
        }
        sleep(Duration::from_secs(1)).await;
        let grown = server.resident().saturating_sub(resident);
        Idle {
            start_ms: median(starts),
            resident_mb: resident as f64 * 1.024 / 1000.0,
            cpu: used.as_secs_f64() / while_idle.as_secs_f64(),
            connection_kb: grown as f64 * 1.024 / CONNECTIONS as f64,
        }
    }
}

/// Starts an embedded server with the default configuration. Also returns the time until it
/// served, in ms.
async fn start(options: &Options) -> (Process, SocketAddr, f64) {
    let begun = monotonic();
    let (server, url) = process::serve_by(loads::program(options), ["--log-level", "warn"]);
    let address = url.trim_start_matches("http://").parse().expect("an address");
    let serving = Call::new("/grpc.health.v1.Health/Check", &(), first_is::<1>);
    while !is(address, &serving).await {
        sleep(Duration::from_millis(1)).await;
    }
    (server, address, begun.elapsed().as_secs_f64() * 1000.0)
}

async fn is(address: SocketAddr, serving: &Call) -> bool {
    let Ok(mut connection) = Connection::open(address).await else { return false };
    let request = connection.request(serving);
    let answer = connection.call(request, serving.body(0)).await;
    connection.close();
    answer.is_ok_and(|received| serving.accepts(&received))
}

/// Opens a connection and completes only the HTTP/2 handshake.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(HELLO).await?;
    // The server has set up the connection when its SETTINGS arrive.
    stream.read_exact(&mut [0; FRAME_HEADER]).await?;
    Ok(stream)
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} ms from start to SERVING, {:.1} MB resident, {:.2} % CPU, {:.1} KB for each of \
             10,000 idle connections",
            self.start_ms,
            self.resident_mb,
            self.cpu * 100.0,
            self.connection_kb
        )
    }
}
