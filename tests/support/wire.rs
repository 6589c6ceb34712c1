//! A proxy to a server. It can lose, damage or delay answers, and can be redirected.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

pub struct Wire {
    pub port: u16,
    faults: Arc<Faults>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Faults {
    target: AtomicU16,
    cut: AtomicBool,
    lose: AtomicBool,
    lose_decision: AtomicBool,
    garble: AtomicBool,
    tear: AtomicBool,
    hold: watch::Sender<bool>,
    delay_ms: AtomicU64,
    slow_start_ms: AtomicU64,
}

impl Wire {
    /// Starts a proxy to a port of this machine.
    pub async fn to(target: u16) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let faults = Arc::new(Faults { target: target.into(), ..Faults::default() });
        let ours = faults.clone();
        let task = tokio::spawn(async move {
            let mut ends = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                if ours.cut.load(Ordering::SeqCst) {
                    continue; // Closed immediately.
                }
                let target = ours.target.load(Ordering::SeqCst);
                let Ok(far) = TcpStream::connect(("127.0.0.1", target)).await else { continue };
                let silent = Duration::from_millis(ours.slow_start_ms.load(Ordering::SeqCst));
                let forwarded = forward(near, far, ours.clone());
                ends.spawn(async move {
                    tokio::time::sleep(silent).await;
                    forwarded.await;
                });
            }
        });
        Wire { port, faults, task }
    }

    /// From now on requests still arrive, but no answer returns. A connection is closed at its next
    /// answer, and a new connection immediately.
    pub fn cut(&self) {
        self.faults.cut.store(true, Ordering::SeqCst);
    }

    /// New connections go to another server.
    pub fn lead_to(&self, target: u16) {
        self.faults.target.store(target, Ordering::SeqCst);
    }

    /// Loses the next answer and closes its connection. New connections work.
    pub fn lose_one(&self) {
        self.faults.lose.store(true, Ordering::SeqCst);
    }

    /// Does the same as [`Wire::lose_one`], for the next answer of Redis to a decision.
    pub fn lose_decision(&self) {
        self.faults.lose_decision.store(true, Ordering::SeqCst);
    }

    /// Replaces answers by bytes that Redis never sends, or stops doing so.
    pub fn garble(&self, garble: bool) {
        self.faults.garble.store(garble, Ordering::SeqCst);
    }

    /// Cuts each answer in half and closes its connection, or stops doing so.
    pub fn tear(&self, tear: bool) {
        self.faults.tear.store(tear, Ordering::SeqCst);
    }

    /// Holds back the answers of Redis to decisions, or releases them.
    pub fn hold(&self, hold: bool) {
        self.faults.hold.send_replace(hold);
    }

    /// Makes new connections silent for this long at first.
    pub fn start_slowly(&self, silent: Duration) {
        self.faults.slow_start_ms.store(silent.as_millis() as u64, Ordering::SeqCst);
    }

    /// Delays every answer.
    pub fn delay(&self, by: Duration) {
        self.faults.delay_ms.store(by.as_millis() as u64, Ordering::SeqCst);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(near: TcpStream, far: TcpStream, faults: Arc<Faults>) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let decides = Arc::new(AtomicBool::new(false));
    let asked = decides.clone();
    let requests = tokio::spawn(async move {
        let mut buffer = vec![0; 16_384];
        while let Ok(count @ 1..) = from_near.read(&mut buffer).await {
            // Commands of the server itself, such as PING, are still answered.
            let text = String::from_utf8_lossy(&buffer[..count]);
            let tags = [":{admission:", ":{rate:", ":{sequence:", ":{lock:", ":{stock:"];
            asked.store(tags.iter().any(|tag| text.contains(tag)), Ordering::SeqCst);
            if to_far.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
    });
    let mut buffer = vec![0; 16_384];
    while let Ok(count @ 1..) = from_far.read(&mut buffer).await {
        let delay = faults.delay_ms.load(Ordering::SeqCst);
        if delay > 0 {
            tokio::time::sleep(Duration::from_millis(delay)).await;
        }
        if decides.load(Ordering::SeqCst) {
            // The sender lives as long as `faults`.
            let _ = faults.hold.subscribe().wait_for(|hold| !hold).await;
        }
        let lost = faults.cut.load(Ordering::SeqCst)
            || faults.lose.swap(false, Ordering::SeqCst)
            || decides.load(Ordering::SeqCst) && faults.lose_decision.swap(false, Ordering::SeqCst);
        if faults.garble.load(Ordering::SeqCst) {
            buffer[..count].fill(b'?');
        }
        let is_torn = faults.tear.load(Ordering::SeqCst);
        let whole = if is_torn { count / 2 } else { count };
        if lost || to_near.write_all(&buffer[..whole]).await.is_err() || is_torn {
            break;
        }
    }
    requests.abort();
}
