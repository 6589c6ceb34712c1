//! A record of the acknowledged changes, and its comparison with a server.

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use pb::{RenewVerdict, ReserveOutcome};
use tollgate_client::pb;
use tollgate_core::time::monotonic;

use super::HOURS;
use crate::support::{
    sequences::next,
    stocks::{Shop, confirm, patient, reserve},
    world::{admit, complete, renew, seconds},
};

/// The kind of an item. The first step acquires it, the second releases or settles it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Task,
    Lock,
    Order,
}

/// An item, and the steps that a caller has run with it.
#[derive(Debug)]
pub struct Item {
    kind: Kind,
    name: String,
    token: u64,
    /// Number of attempted steps.
    pub tried: usize,
    /// The acknowledged steps, in order.
    pub acknowledged: Vec<Told>,
}

/// An acknowledgement that the server gave between two instants.
#[derive(Debug, Clone, Copy)]
pub struct Told {
    asked: Instant,
    heard: Instant,
}

impl Told {
    /// Returns an acknowledgement of a call that began at `asked` and has just ended.
    pub fn since(asked: Instant) -> Told {
        Told { asked, heard: monotonic() }
    }
}

/// The record of all callers.
#[derive(Default)]
pub struct Book {
    pub items: Vec<Item>,
    serials: Vec<(u64, Told)>,
    /// Acknowledged changes that were lost.
    lost: Vec<Told>,
    /// The last serial that a caller got.
    told: u64,
    /// Number of running tasks, held orders and sold orders after the last check.
    counts: [u64; 3],
    last_serial: u64,
}

fn lock(item: &Item) -> pb::AcquireLockRequest {
    pb::AcquireLockRequest {
        name: item.name.clone(),
        owner: "one".into(),
        lease_duration: Some(seconds(HOURS)),
        ..pb::AcquireLockRequest::default()
    }
}

impl Item {
    pub fn new(kind: Kind, name: String) -> Item {
        Item { kind, name, token: 0, tried: 0, acknowledged: Vec::new() }
    }

    /// Attempts the next step. Returns whether it was acknowledged.
    pub async fn step(&mut self, shop: &Shop) -> bool {
        let (client, locks) = (&shop.world.client, &shop.world.locks);
        let (name, token) = (self.name.clone(), self.token);
        match (self.kind, self.tried) {
            (Kind::Task, 1) => {
                let answer = client.clone().admit_task(patient_admit(&name)).await;
                let Ok(answer) = answer else { return false };
                self.token = answer.into_inner().lease.unwrap().fencing_token;
                true
            }
            (Kind::Task, _) => {
                client.clone().complete_task(complete("p", "d", &name)).await.is_ok()
            }
            (Kind::Lock, 1) => {
                let Ok(answer) = locks.clone().acquire_lock(lock(self)).await else { return false };
                self.token = answer.into_inner().lease.unwrap().fencing_token;
                true
            }
            (Kind::Lock, _) => {
                let release = pb::ReleaseLockRequest {
                    name,
                    owner: "one".into(),
                    fencing_token: Some(token),
                };
                locks.clone().release_lock(release).await.is_ok()
            }
            (Kind::Order, 1) => shop.client.clone().reserve_stock(held(&name)).await.is_ok(),
            (Kind::Order, _) => {
                shop.client.clone().confirm_reservation(confirm("tv", &name)).await.is_ok()
            }
        }
    }

    /// Returns the number of steps that the server knows.
    async fn known(&self, shop: &Shop) -> usize {
        match self.kind {
            Kind::Task => {
                let renew = patient(renew("p", "d", &self.name));
                let response =
                    shop.world.client.clone().renew_task(renew).await.unwrap().into_inner();
                match response.verdict() {
                    RenewVerdict::Renewed => {
                        let token = response.lease.unwrap().fencing_token;
                        assert!(self.acknowledged.is_empty() || token == self.token, "{self:?}");
                        1
                    }
                    RenewVerdict::Completed => 2,
                    RenewVerdict::Unknown => 0,
                    other => panic!("{self:?}: {other:?}"),
                }
            }
            Kind::Lock => {
                let get = patient(pb::GetLockRequest { name: self.name.clone() });
                let response = shop.world.locks.clone().get_lock(get).await.unwrap().into_inner();
                match response.lease.filter(|_| response.held) {
                    Some(lease) => {
                        let is_known = !self.acknowledged.is_empty();
                        assert!(
                            !is_known || lease.fencing_token == self.token,
                            "{self:?}: {lease:?}"
                        );
                        1
                    }
                    // Not held: it was released, or never acquired.
                    None if self.tried == 2 => 2,
                    None => 0,
                }
            }
            Kind::Order => {
                let response = shop.reserve(held(&self.name)).await;
                match (response.outcome(), response.replayed) {
                    (ReserveOutcome::Reserved, false) => 0,
                    (ReserveOutcome::Reserved, true) => 1,
                    (ReserveOutcome::AlreadySettled, _) => 2,
                    other => panic!("{self:?}: {other:?}"),
                }
            }
        }
    }
}

fn held(name: &str) -> pb::ReserveStockRequest {
    pb::ReserveStockRequest { hold_duration: Some(seconds(HOURS)), ..reserve("tv", name, 1) }
}

fn patient_admit(name: &str) -> pb::AdmitTaskRequest {
    pb::AdmitTaskRequest { lease_duration: Some(seconds(HOURS)), ..admit("p", "d", name) }
}

impl Book {
    pub fn serial(&mut self, value: u64, told: Told) {
        self.serials.push((value, told));
    }

    /// Checks that all lost changes were acknowledged within an interval of `most`. Zero allows no
    /// loss.
    pub fn check_lost(&mut self, most: Duration, context: &str) {
        let lost = std::mem::take(&mut self.lost);
        let first = lost.iter().map(|told| told.heard).min();
        let last = lost.iter().map(|told| told.asked).max();
        let span = last.zip(first).map(|(last, first)| last.saturating_duration_since(first));
        let is_kept = if most.is_zero() { lost.is_empty() } else { span <= Some(most) };
        assert!(is_kept, "{context}: {} acknowledged changes of {span:?} are lost", lost.len());
    }

    /// Compares all items and serials with the server. Returns the number of acknowledged changes
    /// that it knows.
    pub async fn check(&mut self, shop: &Shop, context: &str) -> usize {
        let mut found = 0;
        let items = std::mem::take(&mut self.items);
        let known: Vec<_> =
            stream::iter(&items).map(|item| item.known(shop)).buffered(32).collect().await;
        for (item, known) in items.iter().zip(known) {
            assert!(
                known <= item.tried,
                "{context}: the server knows {known} steps, more than were attempted: {item:?}"
            );
            self.lost.extend(item.acknowledged.iter().skip(known));
            found += item.acknowledged.len().min(known);
            match (item.kind, known) {
                (Kind::Task, 1) => self.counts[0] += 1,
                // The check itself has reserved a lost order again.
                (Kind::Order, 0 | 1) => self.counts[1] += 1,
                (Kind::Order, 2) => self.counts[2] += 1,
                _ => {}
            }
        }
        let get = patient(pb::GetPoolRequest { pool: "p".into() });
        let pool = shop.world.client.clone().get_pool(get).await.unwrap().into_inner();
        let in_use = pool.pool.unwrap().usage.unwrap().in_use;
        assert_eq!(u64::from(in_use), self.counts[0], "{context}: each task counts once");
        let [on_hand, _, reserved, sold] = shop.get("tv").await;
        assert_eq!([reserved, sold], self.counts[1..], "{context}: each order counts once");
        assert_eq!(on_hand + sold, super::STOCK as u64, "{context}");
        found + self.check_serials(shop, context).await
    }

    async fn check_serials(&mut self, shop: &Shop, context: &str) -> usize {
        let serials = std::mem::take(&mut self.serials);
        let mut values: Vec<u64> = serials.iter().map(|(value, _)| *value).collect();
        values.sort();
        let all = values.len();
        values.dedup();
        assert_eq!(values.len(), all, "{context}: a serial was given twice");
        assert!(values.first().is_none_or(|first| *first > self.last_serial), "{context}");
        self.told = self.told.max(values.last().copied().unwrap_or_default());
        let response = shop.world.sequences.clone().next_sequence(patient(next("order"))).await;
        let last = response.unwrap().into_inner().last;
        assert!(last > self.last_serial, "{context}: {last} after {}", self.last_serial);
        assert!(last > self.told, "{context}: {last} after a caller got {}", self.told);
        self.last_serial = last;
        let lost = serials.iter().filter(|(value, _)| *value >= last).map(|(_, told)| told);
        self.lost.extend(lost);
        serials.iter().filter(|(value, _)| *value < last).count()
    }
}
