//! Leases, queued tasks and waiters that expire together: one decision removes a bounded number of
//! them, in any mixture.

use tollgate_core::{
    Allowance,
    admission::{Admission, AdmitDecision},
    waiting::{Proceed, WaitingCall},
};

use super::*;

const TOTAL: usize = Allowance::TOTAL as usize;
/// The cost of an ended lease, and of a task that leaves its queue.
const LEASE_COST: usize = 5;
const TASK_COST: usize = 12;
const LEASES: usize = 200;
const TASKS: usize = 100;

/// A pool on both executors.
struct Both {
    twins: Twins,
    pools: States<Pool>,
    settings: Settings,
}

fn name(text: &str) -> Name {
    Name::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

impl Both {
    /// Returns a pool with ended leases of queued tasks, and with expired tasks of the device
    /// `reports`.
    async fn lapsed(max_attempts: u32) -> Both {
        let (capacity, queued_max, history) = (1000, 1000, 5000);
        let settings = settings(&name("p"));
        let settings = Settings { max_attempts, capacity, queued_max, history, ..settings };
        let mut both = Both { twins: Twins::new().await, pools: States::new(), settings };
        for lease in 0..LEASES {
            let device = format!("d{lease}");
            both.enqueue(&device, "t", None).await;
            assert!(both.admit(&device, None, None).await.is_granted());
        }
        let ends = Timestamp(both.twins.time.now() + 1_000_000);
        for task in 0..TASKS {
            both.enqueue("reports", &format!("t{task}"), Some(ends)).await;
        }
        both.twins.time.advance(3_000_000).await;
        both
    }

    async fn enqueue(&mut self, device: &str, task: &str, ends: Option<Timestamp>) {
        let name = TaskName { pool: name("p"), device: name(device), task: name(task) };
        let (payload, settings) = (Bytes::from(vec![b'x'; 1000]), self.settings);
        let enqueue = EnqueueTask { name, payload, ends, settings };
        self.twins.agree(&mut self.pools, &enqueue, "").await;
    }

    async fn admit(
        &mut self,
        device: &str,
        task: Option<&str>,
        waiting: Option<WaitingCall>,
    ) -> Admission {
        let (pool, device, task) = (name("p"), name(device), task.map(name));
        let (lease_duration, settings) = (Some(Millis(1000)), self.settings);
        let admit = AdmitTask { pool, device, task, lease_duration, settings, waiting };
        self.twins.agree(&mut self.pools, &admit, "").await
    }

    async fn sweep(&mut self) -> bool {
        let sweep = SweepPool { pool: name("p"), settings: self.settings };
        self.twins.agree(&mut self.pools, &sweep, "").await.has_more
    }

    /// Returns the number of events of the pool.
    async fn events(&mut self) -> usize {
        let after = After { number: Some(0), limit: 10_000 };
        let read = ReadEvents { pool: name("p"), after };
        self.twins.agree(&mut self.pools, &read, "").await.events.len()
    }
}

fn is_to_be_asked_again(admission: &Admission) -> bool {
    matches!(admission.decision, AdmitDecision::Full { proceed: Proceed::Again, .. })
}

#[tokio::test]
async fn h1_a_report_spends_one_allowance_on_all_expired_entries() {
    let mut both = Both::lapsed(1).await;
    let before = both.events().await;
    assert!(is_to_be_asked_again(&both.admit("reports", None, None).await));
    // A task that becomes dead causes two events. At least one task of the device is removed.
    assert_eq!(both.events().await - before, 2 * TOTAL.div_ceil(TASK_COST) + 1);
    let mut steps = 2;
    while is_to_be_asked_again(&both.admit("reports", None, None).await) {
        steps += 1;
    }
    assert_eq!(steps, ((LEASES + TASKS) * TASK_COST).div_ceil(TOTAL));
    assert_eq!(both.events().await - before, 2 * LEASES + TASKS);
}

#[tokio::test]
async fn h1_a_sweep_spends_one_allowance_on_leases_and_tasks() {
    let dying = 2 * TOTAL.div_ceil(TASK_COST);
    for (max_attempts, first, lease_events) in [(1, dying, 2), (3, TOTAL / LEASE_COST, 1)] {
        let mut both = Both::lapsed(max_attempts).await;
        let before = both.events().await;
        assert!(both.sweep().await);
        assert_eq!(both.events().await - before, first);
        while both.sweep().await {}
        assert_eq!(both.events().await - before, lease_events * LEASES + TASKS);
    }
}

#[tokio::test]
async fn h1_waiters_share_the_allowance_of_leases() {
    const SLOTS: u32 = 60;
    let settings = Settings { capacity: SLOTS, ..settings(&name("p")) };
    let mut both = Both { twins: Twins::new().await, pools: States::new(), settings };
    for lease in 0..SLOTS {
        assert!(both.admit(&format!("d{lease}"), Some("t"), None).await.is_granted());
    }
    for number in 1..=TOTAL as u64 {
        let (wait, keep, channel) = (Millis(500), Millis(500), "gone".into());
        let (ticket, ticket_kept) = (0, Millis(0));
        let waiting = WaitingCall { number, ticket, wait, ticket_kept, keep, channel };
        let waits = both.admit(&format!("w{number}"), Some("t"), Some(waiting)).await;
        assert!(!waits.is_granted());
    }
    both.twins.time.advance(3_000_000).await;
    // The leases leave 200 units for the lapsed waiters. The others are still ahead of the caller.
    assert!(is_to_be_asked_again(&both.admit("d", Some("t"), None).await));
    assert!(both.admit("d", Some("t"), None).await.is_granted());
}
