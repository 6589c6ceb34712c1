//! Invariants of locks and waiting. Random histories of one lock, whose calls wait on two servers,
//! are compared with a model of the callers' view.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use tollgate_core::{
    Decision, State,
    lock::{
        AcquireLock, Acquisition, GetLock, HeartbeatLock, Lock, Release, ReleaseLock, RenewLock,
        Renewal,
    },
    names::Name,
    time::{Millis, Timestamp},
    waiting::{Heartbeat, Proceed, WaitingCall, Waits},
};

const KEEP: Millis = Millis(1500);

#[derive(Debug, Clone)]
enum Op {
    /// A call, with or without a place in the queue.
    Acquire {
        owner: u8,
        waits: bool,
    },
    Release {
        owner: u8,
        stale: bool,
    },
    Renew {
        owner: u8,
    },
    /// A heartbeat of a server.
    Heartbeat {
        server: u8,
    },
    /// The client of a waiting call disconnects.
    Leave {
        owner: u8,
    },
    Pass {
        millis: u64,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let owner = 0..6u8;
    let op = prop_oneof![
        5 => (owner.clone(), any::<bool>()).prop_map(|(owner, waits)| Op::Acquire { owner, waits }),
        3 => (owner.clone(), any::<bool>()).prop_map(|(owner, stale)| Op::Release { owner, stale }),
        1 => owner.clone().prop_map(|owner| Op::Renew { owner }),
        3 => (0..2u8).prop_map(|server| Op::Heartbeat { server }),
        1 => owner.prop_map(|owner| Op::Leave { owner }),
        2 => (0..900u64).prop_map(|millis| Op::Pass { millis }),
    ];
    prop::collection::vec(op, 1..200)
}

/// The lock, and a model of the callers' view of it.
#[derive(Default)]
struct Seen {
    lock: Lock,
    now: u64,
    /// Owner, token and end of the lease in force.
    holder: Option<(u8, u64, u64)>,
    last_token: u64,
    /// By ticket: the waiter, and the earliest end of its waiting.
    waiting: BTreeMap<u64, (u8, u64)>,
    known: [u64; 2],
    /// Whether places of a server were removed since its last heartbeat.
    lost: [bool; 2],
    wake_ups: usize,
}

fn name(text: String) -> Name {
    Name::parse(Bytes::from(text)).unwrap()
}

impl Seen {
    fn take<D: Decision<State = Lock>>(&mut self, decision: &D) -> D::Outcome {
        let outcome = decision.decide(&mut self.lock, Timestamp(self.now));
        self.wake_ups += self.lock.take_wake_ups().len();
        outcome
    }

    fn held_by(&self, owner: u8) -> bool {
        self.holder.is_some_and(|(holder, _, end)| holder == owner && self.now < end)
    }

    /// Returns the first waiter. Lapsed places before it are removed.
    fn first(&mut self) -> Option<u8> {
        let (now, known) = (self.now, self.known);
        while let Some(first) = self.waiting.first_entry() {
            let (owner, until) = *first.get();
            if until > now && known[usize::from(owner % 2)] > now {
                return Some(owner);
            }
            first.remove();
            self.lost[usize::from(owner % 2)] = true;
        }
        None
    }

    fn acquire(&mut self, owner: u8, waits: bool) {
        let number = u64::from(owner) + 1;
        let ticket = self.waiting.iter().find(|(_, (by, _))| *by == owner).map(|(t, _)| *t);
        let waiting = waits.then(|| WaitingCall {
            number,
            ticket: ticket.unwrap_or(0),
            wait: Millis(10_000),
            ticket_kept: Millis(0),
            keep: KEEP,
            channel: format!("server{}", owner % 2).into(),
        });
        let was_held = self.holder.filter(|(_, _, end)| self.now < *end);
        let is_repeat = was_held.is_some_and(|(holder, ..)| holder == owner);
        if waits && !is_repeat && (was_held.is_some() || !self.waiting.is_empty()) {
            self.known[usize::from(owner % 2)] = self.now + KEEP.micros();
        }
        let lease_duration = Millis(1000);
        let (l, by) = (name("l".into()), name(owner.to_string()));
        let decision = AcquireLock { name: l, owner: by, lease_duration, waiting };
        // A repeat without a place does not examine the queue.
        let first = if is_repeat && !waits { None } else { self.first() };
        let outcome = self.take(&decision);
        match outcome {
            Acquisition::Acquired { lease, replayed: true } => {
                assert_eq!(Some((owner, lease.token, lease.expire.0)), was_held);
            }
            Acquisition::Acquired { lease, replayed: false } => {
                assert!(was_held.is_none(), "the lock has two holders");
                assert!(first.is_none_or(|first| first == owner), "{owner} overtakes {first:?}");
                assert!(lease.token > self.last_token);
                self.last_token = lease.token;
                self.holder = Some((owner, lease.token, lease.expire.0));
                self.waiting.retain(|_, (by, _)| *by != owner);
            }
            outcome @ Acquisition::Held { .. } => {
                let must_wait = was_held.is_some() || first.is_some_and(|first| first != owner);
                // The call itself removes lapsed places.
                assert!(must_wait, "the lock is free and {owner} is first, but refused");
                let turn = AcquireLock::proceed(&outcome);
                assert_eq!(matches!(turn, Proceed::Waits(_)), waits);
                if let Proceed::Waits(ticket) = turn {
                    self.waiting.retain(|_, (by, _)| *by != owner);
                    // One second longer than the wait, for the last attempt.
                    self.waiting.insert(ticket, (owner, self.now + 11_000_000));
                }
            }
        }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Pass { millis } => self.now += millis * 1000,
            Op::Acquire { owner, waits } => self.acquire(owner, waits),
            Op::Release { owner, stale } => {
                let token = stale.then_some(1);
                let (l, by) = (name("l".into()), name(owner.to_string()));
                let was_held = self.held_by(owner);
                let waits = was_held && !stale && self.first().is_some();
                let told = self.wake_ups;
                let release = self.take(&ReleaseLock { name: l, owner: by, token });
                if was_held && !stale {
                    assert_eq!(release, Release::Released);
                    self.holder = None;
                    assert_eq!(
                        self.wake_ups - told,
                        usize::from(waits),
                        "a release wakes one waiter, if any waits"
                    );
                } else {
                    assert_eq!(self.wake_ups, told);
                }
            }
            Op::Renew { owner } => {
                let (l, by) = (name("l".into()), name(owner.to_string()));
                let renew = RenewLock { name: l, owner: by, token: None, lease_duration: None };
                match self.take(&renew) {
                    Renewal::Renewed(lease) => {
                        assert!(self.held_by(owner));
                        self.holder = Some((owner, lease.token, lease.expire.0));
                    }
                    Renewal::NotHeld => assert!(!self.held_by(owner)),
                }
            }
            Op::Heartbeat { server } => self.heartbeat(server, None),
            Op::Leave { owner } => {
                let gone = (owner.to_string().into_bytes().into(), u64::from(owner) + 1);
                self.waiting.retain(|_, (by, _)| *by != owner);
                self.heartbeat(owner % 2, Some(gone));
            }
        }
    }

    fn heartbeat(&mut self, server: u8, gone: Option<(Box<[u8]>, u64)>) {
        let channel = format!("server{server}").into();
        let heartbeat = Heartbeat { channel, keep: KEEP, gone };
        let was_known = self.known[usize::from(server)] > self.now;
        let answer = self.take(&HeartbeatLock { name: name("l".into()), heartbeat });
        if self.take(&GetLock { name: name("l".into()) }).waiters == 0 {
            self.waiting.clear();
            return;
        }
        // The places of the server are kept, unless other calls have removed them.
        let was_lost = std::mem::take(&mut self.lost[usize::from(server)]);
        assert_eq!(answer.again, was_lost || !was_known);
        self.known[usize::from(server)] = self.now + KEEP.micros();
        let is_free = self.holder.is_none_or(|(_, _, end)| end <= self.now);
        let next = self.first().filter(|first| is_free && first % 2 == server);
        let next: Vec<u64> = next.map(|first| u64::from(first) + 1).into_iter().collect();
        let proceeding: Vec<u64> = answer.proceeding.iter().map(|(number, _)| *number).collect();
        assert_eq!(proceeding, next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_lock_has_one_holder_and_waiters_keep_their_order(ops in ops()) {
        let mut seen = Seen { now: 1_700_000_000_000_000, ..Seen::default() };
        for op in &ops {
            seen.step(op);
            if seen.waiting.is_empty() {
                // Without waiters the queue forgets its servers.
                (seen.known, seen.lost) = ([0; 2], [false; 2]);
            }
        }
    }
}
