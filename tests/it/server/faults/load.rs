//! Devices that acquire slots and complete tasks, and a record of each call.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};
use tollgate_client::pb;
use tollgate_core::time::monotonic;
use tonic::{Code, Request};

use crate::support::world::{Client, admit, complete};

/// Capacity of the pool.
pub const CAPACITY: usize = 8;
/// Number of devices: more than slots, so that some are refused.
const DEVICES: usize = 24;
/// Deadline of each call.
pub const DEADLINE: Duration = Duration::from_secs(1);
/// Pause between the calls of a device.
const PAUSE: Duration = Duration::from_millis(10);

/// A call as its caller saw it.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub start: Instant,
    pub end: Instant,
    /// The error; `None` if the call was answered.
    pub failed: Option<Code>,
}

/// An interval in which a task certainly ran.
type Held = (Instant, Instant);

#[derive(Debug, Default)]
struct Record {
    seen: Vec<Seen>,
    held: Vec<Held>,
}

/// A load that runs until [`Load::end`].
pub struct Load {
    devices: JoinSet<()>,
    record: Arc<Mutex<Record>>,
    stop: Arc<AtomicBool>,
}

/// The record of a load.
pub struct History {
    pub seen: Vec<Seen>,
    held: Vec<Held>,
}

impl Load {
    /// Starts devices, spread over these servers, that ask for slots of a pool.
    pub fn start(clients: &[Client], pool: &str) -> Load {
        let (record, stop) = (Arc::<Mutex<Record>>::default(), Arc::new(AtomicBool::new(false)));
        let mut devices = JoinSet::new();
        for number in 0..DEVICES {
            let device = Device {
                client: clients[number % clients.len()].clone(),
                pool: pool.to_owned(),
                name: format!("d{number}"),
                record: record.clone(),
                stop: stop.clone(),
            };
            devices.spawn(device.live());
        }
        Load { devices, record, stop }
    }

    /// Waits until `calls` further calls were answered.
    pub async fn answered(&self, calls: usize) {
        let count = || {
            let record = self.record.lock().unwrap();
            record.seen.iter().filter(|seen| seen.failed.is_none()).count()
        };
        let goal = count() + calls;
        while count() < goal {
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until another call has failed.
    pub async fn failed(&self) {
        let count = || {
            let record = self.record.lock().unwrap();
            record.seen.iter().filter(|seen| seen.failed.is_some()).count()
        };
        let before = count();
        while count() == before {
            sleep(Duration::from_millis(10)).await;
        }
    }

    pub async fn end(mut self) -> History {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(device) = self.devices.join_next().await {
            device.expect("a device does not panic");
        }
        let Record { seen, held } = std::mem::take(&mut *self.record.lock().unwrap());
        History { seen, held }
    }
}

impl History {
    /// Returns the largest number of tasks that certainly ran at the same time.
    pub fn most_held(&self) -> usize {
        let mut changes: Vec<(Instant, bool)> =
            self.held.iter().flat_map(|(from, to)| [(*from, true), (*to, false)]).collect();
        // At the same instant ends come first: only certain overlaps count.
        changes.sort_by_key(|(at, begins)| (*at, *begins));
        let (mut now, mut most) = (0_usize, 0);
        for (_, begins) in changes {
            now = if begins { now + 1 } else { now - 1 };
            most = most.max(now);
        }
        most
    }

    pub fn failed(&self) -> impl Iterator<Item = &Seen> {
        self.seen.iter().filter(|seen| seen.failed.is_some())
    }
}

struct Device {
    client: Client,
    pool: String,
    name: String,
    record: Arc<Mutex<Record>>,
    stop: Arc<AtomicBool>,
}

impl Device {
    async fn live(mut self) {
        for task in 0.. {
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            let task = format!("t{task}");
            let Some(from) = self.admitted(&task).await else { return };
            sleep(PAUSE).await;
            // From here on the task may have been completed.
            let to = monotonic();
            self.record.lock().unwrap().held.push((from, to));
            self.completed(&task).await;
        }
    }

    /// Asks until the task is admitted. Returns `None` if the load ended first.
    async fn admitted(&mut self, task: &str) -> Option<Instant> {
        loop {
            let asked = self.client.clone();
            let request = timed(admit(&self.pool, &self.name, task));
            let answered =
                self.record(async move { asked.clone().admit_task(request).await }).await;
            match answered.map(|answer| answer.decision()) {
                Some(pb::AdmitDecision::Admitted) => return Some(monotonic()),
                // FULL, or a lost reply, which may have been a grant: ask again.
                Some(pb::AdmitDecision::Full) | None => {}
                Some(other) => panic!("{task} of {} was answered {other:?}", self.name),
            }
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            sleep(PAUSE).await;
        }
    }

    async fn completed(&mut self, task: &str) {
        // However long the fault lasts, the slot stays in use until the completion is answered.
        for _ in 0..10_000 {
            let asked = self.client.clone();
            let request = timed(complete(&self.pool, &self.name, task));
            let answered = self.record(async move { asked.clone().complete_task(request).await });
            if answered.await.is_some() {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    async fn record<T>(
        &self,
        call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Option<T> {
        let start = monotonic();
        let answer = call.await;
        let failed = answer.as_ref().err().map(tonic::Status::code);
        self.record.lock().unwrap().seen.push(Seen { start, end: monotonic(), failed });
        answer.ok().map(tonic::Response::into_inner)
    }
}

fn timed<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    // The server answers shortly before this deadline, so its own error arrives first.
    request.metadata_mut().insert("grpc-timeout", "1000m".parse().unwrap());
    request
}
