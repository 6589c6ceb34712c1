//! Memory of a server process.

use std::{fs, pin::pin, time::Duration};

use tokio::time::{sleep, timeout};
use tollgate_core::time::monotonic;

use crate::support::process::Server;

/// Memory that one hostile connection may cost a server, in bytes.
pub const BUDGET: usize = 64 << 20;

/// Returns the resident bytes that a server has allocated.
///
/// Pages of its executable are not counted: each code path adds some when it first runs, such as
/// 4 MB for one attack on a debug build.
pub fn resident(server: &Server) -> usize {
    let statm = fs::read_to_string(format!("/proc/{}/statm", server.process.0.id())).unwrap();
    let pages = |field| statm.split(' ').nth(field).unwrap().parse::<usize>().unwrap();
    // The number of resident pages, and how many of them are backed by files.
    (pages(1) - pages(2)) * 4096
}

/// Runs an attack to its end. Returns the peak of the server's memory, and the attack's result.
pub async fn peak_of<T>(server: &Server, attack: impl Future<Output = T>) -> (usize, T) {
    let mut attack = pin!(attack);
    let mut peak = resident(server);
    loop {
        let ended = timeout(Duration::from_millis(5), attack.as_mut()).await;
        peak = peak.max(resident(server));
        if let Ok(result) = ended {
            return (peak, result);
        }
    }
}

/// Waits until a server uses at most 1.2 times its idle memory plus 4 MiB. Panics after 60 s.
pub async fn settles(server: &Server, idle: usize) {
    let end = monotonic() + Duration::from_secs(60);
    let most = idle + idle / 5 + (4 << 20);
    while resident(server) > most {
        assert!(monotonic() < end, "{} bytes, idle {idle}", resident(server));
        sleep(Duration::from_millis(100)).await;
    }
    eprintln!("settled at {} KiB, idle {} KiB", resident(server) >> 10, idle >> 10);
}
