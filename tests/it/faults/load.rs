//! Devices that ask, hold and complete, and what each of their calls saw.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};
use tollgate::{decision::time::monotonic, grpc::client::pb};
use tonic::{Code, Request};

use crate::world::{Client, admit, complete};

/// How many of its tasks may run at once.
pub const CAPACITY: usize = 8;
/// Devices: more than there are slots, so that some are refused.
const DEVICES: usize = 24;
/// By when each call has to end.
pub const DEADLINE: Duration = Duration::from_secs(1);
/// Between a device's calls.
const PAUSE: Duration = Duration::from_millis(10);

/// A call as its caller saw it.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub start: Instant,
    pub end: Instant,
    /// None where it was answered.
    pub failed: Option<Code>,
}

/// A task that certainly ran from one instant to the other.
type Held = (Instant, Instant);

#[derive(Debug, Default)]
struct Record {
    seen: Vec<Seen>,
    held: Vec<Held>,
}

/// A load that goes on until it is ended.
pub struct Load {
    devices: JoinSet<()>,
    record: Arc<Mutex<Record>>,
    stop: Arc<AtomicBool>,
}

/// What a load saw.
pub struct History {
    pub seen: Vec<Seen>,
    held: Vec<Held>,
}

impl Load {
    /// Devices that ask these servers in turn for slots of a pool.
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

    /// Returns after so many further calls were answered.
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

    /// Returns after another call failed.
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
    /// The most tasks that certainly ran at the same time.
    pub fn most_held(&self) -> usize {
        let mut changes: Vec<(Instant, bool)> =
            self.held.iter().flat_map(|(from, to)| [(*from, true), (*to, false)]).collect();
        // In one instant ends come first: what is certain is less.
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
            // From here on it may have ended.
            let to = monotonic();
            self.record.lock().unwrap().held.push((from, to));
            self.completed(&task).await;
        }
    }

    /// When it had its slot; none if the load ended before.
    async fn admitted(&mut self, task: &str) -> Option<Instant> {
        loop {
            let asked = self.client.clone();
            let request = timed(admit(&self.pool, &self.name, task));
            let answered = self.note(async move { asked.clone().admit_task(request).await }).await;
            match answered.map(|answer| answer.decision()) {
                Some(pb::AdmitDecision::Admitted) => return Some(monotonic()),
                // A reply that was lost told that it had one before.
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
        // However long the fault lasts: the slot is ours until it is heard.
        for _ in 0..10_000 {
            let asked = self.client.clone();
            let request = timed(complete(&self.pool, &self.name, task));
            let answered = self.note(async move { asked.clone().complete_task(request).await });
            if answered.await.is_some() {
                return;
            }
            sleep(PAUSE).await;
        }
    }

    async fn note<T>(
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
    // The server's word comes first.
    request.metadata_mut().insert("grpc-timeout", "1000m".parse().unwrap());
    request
}
