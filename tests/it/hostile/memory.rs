//! Resident memory of a server process.

use std::{fs, time::Duration};

use tokio::time::sleep;
use tollgate::decision::time::monotonic;

use crate::process::Server;

/// Memory that one hostile connection may cost a server, in bytes.
pub const BUDGET: usize = 64 << 20;

/// Resident memory of a server, in bytes; assumes pages of 4 KiB.
pub fn resident(server: &Server) -> usize {
    let statm = fs::read_to_string(format!("/proc/{}/statm", server.process.0.id())).unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Watches a server for `time`. Returns the largest resident memory, in bytes.
pub async fn peak(server: &Server, time: Duration) -> usize {
    let end = monotonic() + time;
    let mut peak = 0;
    while monotonic() < end {
        peak = peak.max(resident(server));
        sleep(Duration::from_millis(20)).await;
    }
    peak
}

/// Waits until a server uses at most 1.2 times its idle memory plus 4 MiB. Panics after 60 s.
pub async fn settles(server: &Server, idle: usize) {
    let end = monotonic() + Duration::from_secs(60);
    let most = idle + idle / 5 + (4 << 20);
    while resident(server) > most {
        assert!(monotonic() < end, "{} bytes, idle {idle}", resident(server));
        sleep(Duration::from_millis(100)).await;
    }
}
