//! H15: tickets that are kept for waiters of a server that shuts down. Both executors must agree.

use tollgate_core::{
    lock::{Acquisition, GetLock, Lock},
    time::Millis,
};

use crate::{
    lock::waiting::{ask, ticket},
    support::twins::{States, Twins},
};

const KEPT: Millis = Millis(10_000);

/// A lock that `a` holds for 30 s, and its waiters on the server `ends`, which shuts down.
struct Queue {
    twins: Twins,
    locks: States<Lock>,
}

impl Queue {
    async fn with(waiters: &[&str]) -> (Queue, Vec<u64>) {
        let mut queue = Queue { twins: Twins::new().await, locks: States::new() };
        queue.asks("a", None).await;
        let mut tickets = Vec::new();
        for (number, waiter) in (1..).zip(waiters) {
            tickets.push(ticket(&queue.asks(waiter, Some((number, 0, "ends"))).await));
            queue.twins.time.advance(1000).await;
        }
        (queue, tickets)
    }

    async fn asks(&mut self, owner: &str, waiting: Option<(u64, u64, &str)>) -> Acquisition {
        self.twins.agree(&mut self.locks, &ask(owner, waiting), "").await
    }

    /// The server of this waiter shuts down: the waiter leaves the queue, and its ticket is kept.
    async fn leaves(&mut self, owner: &str, waiting: (u64, u64, &str)) -> Acquisition {
        let mut decision = ask(owner, Some(waiting));
        let waiting = decision.waiting.as_mut().unwrap();
        (waiting.wait, waiting.ticket_kept) = (Millis(0), KEPT);
        self.twins.agree(&mut self.locks, &decision, "").await
    }

    async fn waiters(&mut self) -> u64 {
        let get = GetLock { name: ask("a", None).name };
        self.twins.agree(&mut self.locks, &get, "").await.waiters
    }
}

fn is_granted(outcome: &Acquisition) -> bool {
    matches!(outcome, Acquisition::Acquired { .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn h15_a_kept_ticket_delays_no_other_waiter() {
    let (mut queue, tickets) = Queue::with(&["b", "c"]).await;
    let other = ticket(&queue.asks("d", Some((1, 0, "other"))).await);
    for (number, owner) in [(1, "b"), (2, "c")] {
        let left = queue.leaves(owner, (number, tickets[number as usize - 1], "ends")).await;
        assert!(!is_granted(&left));
    }
    assert_eq!(queue.waiters().await, 1);
    // A kept ticket delays no other waiter: `d` gets the lock, although `b` and `c` came first.
    queue.twins.time.advance(29_000_000).await;
    queue.asks("d", Some((1, other, "other"))).await;
    queue.twins.time.advance(1_000_000).await;
    assert!(is_granted(&queue.asks("d", Some((1, other, "other"))).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn h15_a_kept_ticket_counts_once_and_lapses() {
    let (mut queue, tickets) = Queue::with(&["b", "c"]).await;
    for (number, owner) in [(1, "b"), (2, "c")] {
        queue.leaves(owner, (number, tickets[number as usize - 1], "ends")).await;
    }
    let later = ticket(&queue.asks("d", Some((1, 0, "other"))).await);
    assert!(tickets[1] < later);
    // A call elsewhere resumes the kept ticket, on any server and with any call number.
    queue.twins.time.advance(KEPT.micros() - 3000).await;
    assert_eq!(ticket(&queue.asks("c", Some((7, 0, "other"))).await), tickets[1]);
    // The ticket of `b` has lapsed after 10 s.
    queue.twins.time.advance(3000).await;
    assert!(ticket(&queue.asks("b", Some((8, 0, "other"))).await) > later);
    // A waiter that gives up without a shutdown keeps no ticket.
    let mut gives_up = ask("c", Some((7, tickets[1], "other")));
    gives_up.waiting.as_mut().unwrap().wait = Millis(0);
    queue.twins.agree(&mut queue.locks, &gives_up, "").await;
    assert!(ticket(&queue.asks("c", Some((9, 0, "other"))).await) > later);
}

/// A waiter has moved to another server before its first server, which shuts down, takes it
/// out of the queue.
#[tokio::test(flavor = "multi_thread")]
async fn h15_a_waiter_that_moved_keeps_its_ticket_when_its_old_server_stops() {
    let (mut queue, tickets) = Queue::with(&["b"]).await;
    // Servers number their calls independently: both calls have number 1.
    assert_eq!(ticket(&queue.asks("b", Some((1, 0, "other"))).await), tickets[0]);
    queue.leaves("b", (1, tickets[0], "ends")).await;
    assert_eq!(queue.waiters().await, 1);
    queue.leaves("b", (1, tickets[0], "other")).await;
    assert_eq!(queue.waiters().await, 0);
    // A call that arrives during a shutdown gets its arrival time reserved, even if it is repeated.
    let came = queue.twins.time.now();
    queue.leaves("z", (2, 0, "ends")).await;
    queue.twins.time.advance(5_000_000).await;
    queue.leaves("z", (3, 0, "ends")).await;
    queue.twins.time.advance(6_000_000).await;
    assert_eq!(ticket(&queue.asks("z", Some((4, 0, "other"))).await), came);
}

/// A lock that is free at the moment when a waiter leaves is granted to it.
#[tokio::test(flavor = "multi_thread")]
async fn h15_the_last_attempt_of_a_leaving_waiter_may_be_granted() {
    let (mut queue, tickets) = Queue::with(&["b"]).await;
    queue.twins.time.advance(29_000_000).await;
    queue.asks("b", Some((1, tickets[0], "ends"))).await;
    queue.twins.time.advance(1_000_000).await;
    assert!(is_granted(&queue.leaves("b", (1, tickets[0], "ends")).await));
    // No ticket of `b` is left: only `c` waits.
    queue.asks("c", Some((1, 0, "other"))).await;
    assert_eq!(queue.waiters().await, 1);
}
