//! 200 reloads of pools and limits while a fleet runs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::task::JoinHandle;
use tollgate_client::{
    Connection,
    pb::{AdmitDecision, CompleteVerdict},
};
use tonic::Request;

use super::{PATIENCE, Reloads, pool};
use crate::{
    hostile::memory::{resident, settles},
    support::{
        requests::{admit, complete, duration},
        world::Client,
    },
};

const RELOADS: u32 = 200;
const DEVICES: u32 = 12;
/// The capacities of the good files.
const CAPACITIES: [u32; 2] = [6, 4];
/// The limits of the good files, which the fleet does not reach.
const LIMITS: [&str; 2] = [
    "request_bytes = \"64MiB\"\nanswer_bytes = \"64MiB\"\nconnection_streams = 300\n\
     peer_streams = 900\nwaiters = 900\nsequence_waiters = 90\nwatchers = 90\n\
     message_timeout = \"20s\"\nunsynced_bytes = \"1MiB\"\nunsynced_changes = 1000\n",
    "request_bytes = \"16MiB\"\nanswer_bytes = \"16MiB\"\nconnection_streams = 100\n\
     peer_streams = 100\nwaiters = 50\nsequence_waiters = 40\nwatchers = 40\n\
     message_timeout = \"60s\"\nunsynced_bytes = \"2MiB\"\nunsynced_changes = 9000\n",
];
/// The rounds after which memory is measured.
const WARM: u32 = 10;

/// What all devices together have seen.
#[derive(Default)]
struct Witness {
    /// The number of running tasks as the devices count them: never more than the server counts.
    running: AtomicU32,
    /// The largest number of them since the last reset.
    most: AtomicU32,
    admitted: AtomicU64,
    stop: AtomicBool,
}

/// A device that runs one task after the other, until it is stopped. No call may fail.
async fn device(mut client: Client, number: u32, witness: Arc<Witness>) {
    for task in 0.. {
        if witness.stop.load(Ordering::SeqCst) {
            return;
        }
        let (device, task) = (format!("d{number}"), format!("t{task}"));
        let mut request = Request::new(admit("p", &device, &task));
        // Half of the devices wait for a slot.
        if number.is_multiple_of(2) {
            request.get_mut().max_wait = Some(duration(Duration::from_secs(5)));
        }
        request.set_timeout(PATIENCE);
        let answer = client.admit_task(request).await.expect("no call fails").into_inner();
        if answer.decision() != AdmitDecision::Admitted {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        }
        let running = witness.running.fetch_add(1, Ordering::SeqCst) + 1;
        witness.most.fetch_max(running, Ordering::SeqCst);
        witness.admitted.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(3)).await;
        witness.running.fetch_sub(1, Ordering::SeqCst);
        let mut request = Request::new(complete("p", &device, &task));
        request.set_timeout(PATIENCE);
        let answer = client.complete_task(request).await.expect("no call fails").into_inner();
        assert_eq!(answer.verdict(), CompleteVerdict::Completed);
    }
}

impl Witness {
    /// Waits for further tasks.
    async fn proceed(&self, devices: &[JoinHandle<()>]) {
        let enough = self.admitted.load(Ordering::SeqCst) + 6;
        let proceeding = async {
            while self.admitted.load(Ordering::SeqCst) < enough {
                assert!(devices.iter().all(|device| !device.is_finished()), "a device has failed");
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, proceeding).await.expect("tasks are admitted");
    }
}

/// Returns a file that is broken in one of several ways; its capacity would be 50.
fn broken(round: u32) -> (String, &'static str) {
    match round % 4 {
        0 => (pool("p", 50) + "[[pool]", "INVALID_ARGUMENT"),
        1 => (pool("p", 50) + &pool("[", 1), "INVALID_ARGUMENT"),
        2 => (pool("p", 50) + "[metrics]\nenabled = false\n", "FAILED_PRECONDITION"),
        _ => (pool("p", 50) + "capacity = 50\n", "INVALID_ARGUMENT"),
    }
}

async fn two_hundred_reloads_fail_no_call_and_exceed_no_cap(redis: bool) {
    let reloads = Reloads::start(redis, &pool("p", CAPACITIES[0])).await;
    let operator = Connection::open(&reloads.world.address).await.unwrap();
    let witness = Arc::new(Witness::default());
    let mut devices = Vec::new();
    for number in 0..DEVICES {
        let client = reloads.world.connect().await;
        devices.push(tokio::spawn(device(client, number, witness.clone())));
    }
    let (mut capacity, mut idle) = (CAPACITIES[0], 0);
    for round in 0..RELOADS / 2 {
        if round == WARM {
            idle = resident(&reloads.server.server);
        }
        let next = CAPACITIES[round as usize % 2];
        let limits = LIMITS[round as usize % 2];
        reloads.write(&(pool("p", next) + "[limits]\n" + limits));
        operator.reload_config(false).await.unwrap();
        capacity = next;
        // A lowered capacity drains first.
        let drained = async {
            while reloads.world.in_use("p").await > capacity {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(PATIENCE, drained).await.expect("the pool drains");
        witness.most.store(witness.running.load(Ordering::SeqCst), Ordering::SeqCst);
        witness.proceed(&devices).await;

        let (text, code) = broken(round);
        reloads.write(&text);
        let error = operator.reload_config(false).await.unwrap_err();
        assert_eq!(error.code, code, "{error}");
        assert_eq!(reloads.capacity_of("p").await, capacity, "after a broken file");
        witness.proceed(&devices).await;
        let most = witness.most.load(Ordering::SeqCst);
        assert!(most <= capacity, "{most} tasks ran in a pool of {capacity}");
    }
    witness.stop.store(true, Ordering::SeqCst);
    for device in devices {
        tokio::time::timeout(PATIENCE, device).await.unwrap().expect("no call has failed");
    }
    settles(&reloads.server.server, idle).await;
    assert_eq!(reloads.world.in_use("p").await, 0);
    assert_eq!(reloads.capacity_of("p").await, capacity);
}

mod embedded {
    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_reloads_fail_no_call_and_exceed_no_cap() {
        super::two_hundred_reloads_fail_no_call_and_exceed_no_cap(false).await;
    }
}

mod redis {
    #[tokio::test(flavor = "multi_thread")]
    async fn two_hundred_reloads_fail_no_call_and_exceed_no_cap() {
        super::two_hundred_reloads_fail_no_call_and_exceed_no_cap(true).await;
    }
}
