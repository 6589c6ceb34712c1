//! The limits of each namespace, from the entries `[[namespace]]`, and its usage.
//!
//! A server counts its own calls, connections and streams of each namespace. Names, leases, queued
//! tasks and bytes are in the store: the embedded engine counts them exactly; on Redis, each server
//! counts them from time to time (`tally.rs`). Without entries, nothing is counted. A new name
//! costs the same however many are known. Lookups of limits take no lock.

use std::{
    collections::HashMap,
    iter,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ahash::RandomState;
use arc_swap::ArcSwap;

use super::{
    namespace_limits::{NamespaceLimits, NamespaceRule},
    refused_calls::RefusedCalls,
    tally::{Added, Tallies, Total},
};
use tollgate_core::{
    Takes,
    error::Error,
    globs::NamespaceGlob,
    time::{Millis, monotonic},
};

/// The number of maps of namespaces. Adding a namespace copies one of them.
const SHARDS: usize = 1024;
/// Maximum number of namespaces in a map, about 10,000 in total. Above it, idle namespaces are
/// forgotten.
const KNOWN_MAX: usize = 10;
/// The burst: the period whose calls a namespace may make in one go.
const BURST: Duration = Duration::from_secs(1);
/// The retry delay for calls that exceed another limit.
const RETRY: Millis = Millis(1000);

/// The limits of all namespaces, and their usage.
#[derive(Debug)]
pub struct NamespaceBudget {
    /// The namespaces, by the hash of their prefix.
    shards: Box<[ArcSwap<KnownNamespaces>]>,
    hasher: RandomState,
    /// Whether there are entries. Without them, calls read nothing else.
    is_set: AtomicBool,
    /// Whether an entry limits names, leases, queued tasks or bytes.
    has_totals: AtomicBool,
}

/// The entries, and the namespaces that were looked up.
#[derive(Debug, Clone, Default)]
struct KnownNamespaces {
    rules: Arc<[(NamespaceGlob, NamespaceLimits)]>,
    /// The number of servers that share the calls per second.
    servers: u32,
    /// The namespaces by prefix; `None` for a namespace without limits.
    used: HashMap<Box<[u8]>, Option<Arc<NamespaceUse>>, RandomState>,
}

/// The limits of one namespace and its counts.
#[derive(Debug)]
pub struct NamespaceUse {
    pub(super) limits: NamespaceLimits,
    servers: u32,
    pub(super) counts: Arc<NamespaceCounts>,
}

#[derive(Debug)]
pub(super) struct NamespaceCounts {
    pub(super) in_flight: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) waiting: AtomicU64,
    pub(super) watchers: AtomicU64,
    /// The time by which the calls so far are paid for at the allowed rate, in ns after `start`.
    paid: AtomicU64,
    start: Instant,
    /// The totals in Redis.
    pub(super) tallies: Tallies,
    pub(super) refused: RefusedCalls,
}

/// A resource that a namespace uses, which is counted until it is dropped.
#[derive(Debug)]
pub struct Held {
    counts: Arc<NamespaceCounts>,
    count: fn(&NamespaceCounts) -> &AtomicU64,
}

impl Default for NamespaceBudget {
    fn default() -> NamespaceBudget {
        let shards = iter::repeat_with(ArcSwap::default).take(SHARDS).collect();
        let [is_set, has_totals] = [const { AtomicBool::new(false) }; 2];
        NamespaceBudget { shards, hasher: RandomState::default(), is_set, has_totals }
    }
}

impl NamespaceBudget {
    /// Replaces the entries; the first one that matches a namespace applies. `servers` share the
    /// calls per second. The counts continue. Fails if a glob is invalid.
    pub fn set(&self, rules: &[NamespaceRule], servers: u32) -> Result<(), globset::Error> {
        let rules = rules.iter().map(|NamespaceRule { pattern, limits }| {
            NamespaceGlob::new(Some(pattern)).map(|glob| (glob, *limits))
        });
        let rules: Arc<[_]> = rules.collect::<Result<_, _>>()?;
        self.is_set.store(!rules.is_empty(), Ordering::Relaxed);
        let has_totals =
            |limits: &NamespaceLimits| limits.names_max.is_some() || limits.limits_held();
        let has_totals = rules.iter().any(|(_, limits)| has_totals(limits));
        self.has_totals.store(has_totals, Ordering::Relaxed);
        for shard in &self.shards {
            shard.rcu(|known| {
                let (rules, servers, used) = (rules.clone(), servers.max(1), HashMap::default());
                let mut next = KnownNamespaces { rules, servers, used };
                for (prefix, used) in &known.used {
                    next.add(prefix, used.as_ref().map(|used| used.counts.clone()));
                }
                next
            });
        }
        Ok(())
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        !self.is_set.load(Ordering::Relaxed)
    }

    /// Whether an entry limits names, leases, queued tasks or bytes.
    pub fn has_totals(&self) -> bool {
        self.has_totals.load(Ordering::Relaxed)
    }

    /// Returns the namespaces whose total is limited and was used by a call in the last minute,
    /// with their prefixes.
    pub fn wanted(&self, total: Total) -> Vec<(Box<[u8]>, Arc<NamespaceUse>)> {
        let now = monotonic();
        let mut used = self.used();
        used.retain(|(_, used)| {
            used.limits.total_max(total).is_some()
                && used.counts.tallies.tally(total).lock().is_wanted(now)
        });
        used
    }

    /// Returns the known namespaces that have limits, with their prefixes.
    pub(super) fn used(&self) -> Vec<(Box<[u8]>, Arc<NamespaceUse>)> {
        let limited = |shard: &ArcSwap<KnownNamespaces>| -> Vec<_> {
            let known = shard.load();
            let used = known.used.iter();
            used.filter_map(|(prefix, used)| Some((prefix.clone(), used.clone()?))).collect()
        };
        self.shards.iter().flat_map(limited).collect()
    }

    /// Returns the limits and the usage of the namespace with this prefix; `None` if it has no
    /// limits.
    pub fn of(&self, prefix: &[u8]) -> Option<Arc<NamespaceUse>> {
        if self.is_empty() {
            return None;
        }
        let shard = &self.shards[self.hasher.hash_one(prefix) as usize % SHARDS];
        if let Some(used) = shard.load().used.get(prefix) {
            return used.clone();
        }
        let mut found = None;
        shard.rcu(|known| {
            if let Some(used) = known.used.get(prefix) {
                found = used.clone();
                return known.clone();
            }
            let mut next = KnownNamespaces::clone(known);
            if next.used.len() >= KNOWN_MAX {
                next.used.retain(|_, used| used.as_ref().is_some_and(|used| used.counts.is_used()));
            }
            found = next.add(prefix, None);
            Arc::new(next)
        });
        found
    }
}

impl KnownNamespaces {
    /// Adds a namespace, keeping its earlier counts.
    fn add(
        &mut self,
        prefix: &[u8],
        counts: Option<Arc<NamespaceCounts>>,
    ) -> Option<Arc<NamespaceUse>> {
        let rule = self.rules.iter().find(|(glob, _)| glob.matches(prefix));
        let used = rule.map(|(_, limits)| {
            let (limits, servers) = (*limits, self.servers);
            let counts = counts.unwrap_or_else(|| Arc::new(NamespaceCounts::new()));
            // A total without a limit is never counted, so a request for its count would never be
            // fulfilled.
            let unlimited = |total: &Total| limits.total_max(*total).is_none();
            for total in Total::ALL.into_iter().filter(unlimited) {
                counts.tallies.tally(total).lock().forget();
            }
            Arc::new(NamespaceUse { limits, servers, counts })
        });
        self.used.insert(prefix.into(), used.clone());
        used
    }
}

impl NamespaceCounts {
    fn new() -> NamespaceCounts {
        let [in_flight, connections, waiting, watchers, paid] = [const { AtomicU64::new(0) }; 5];
        let (start, tallies, refused) = (monotonic(), Tallies::default(), RefusedCalls::default());
        NamespaceCounts { in_flight, connections, waiting, watchers, paid, start, tallies, refused }
    }

    /// Whether a count is above 0, calls of the last second are not paid for yet, or a total is
    /// wanted.
    fn is_used(&self) -> bool {
        let counts = [&self.in_flight, &self.connections, &self.waiting, &self.watchers];
        counts.iter().any(|count| count.load(Ordering::Relaxed) > 0)
            || self.owed() > 0
            || self.tallies.are_wanted()
    }

    /// Returns how far the calls so far are ahead of the allowed rate, in ns.
    fn owed(&self) -> u64 {
        let now = self.start.elapsed().as_nanos() as u64;
        self.paid.load(Ordering::Relaxed).saturating_sub(now)
    }
}

impl NamespaceUse {
    /// Counts a call until the result is dropped. An exempt call is counted, but never refused.
    pub fn call(&self, is_exempt: bool) -> Result<Held, Error> {
        let most = if is_exempt { None } else { self.limits.in_flight_max };
        let held = self.hold(most, "in_flight_max", |counts| &counts.in_flight)?;
        match self.limits.calls_per_second {
            Some(rate) if !is_exempt => self.pay(rate).map(|()| held),
            _ => Ok(held),
        }
    }

    /// Charges further calls to the calls per second, for a batch that is already decided. Refuses
    /// nothing now, but later calls are refused until the charge is paid.
    pub fn charge(&self, calls: u32) {
        let Some(rate) = self.limits.calls_per_second else { return };
        let charge = self.price(rate) * u64::from(calls);
        let now = self.now();
        let paid = |paid: u64| Some(paid.max(now).saturating_add(charge));
        let _ = self.counts.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, paid);
    }

    /// Counts a connection until the result is dropped.
    pub fn connection(&self) -> Result<Held, Error> {
        self.hold(self.limits.connections_max, "connections_max", |counts| &counts.connections)
    }

    /// Counts a waiting call until the result is dropped.
    pub fn waiting(&self) -> Result<Held, Error> {
        self.hold(self.limits.waiting_max, "waiting_max", |counts| &counts.waiting)
    }

    /// Counts a stream of events until the result is dropped.
    pub fn watcher(&self) -> Result<Held, Error> {
        self.hold(self.limits.watchers_max, "watchers_max", |counts| &counts.watchers)
    }

    /// Returns the limit on names.
    pub fn names_max(&self) -> Option<u32> {
        self.limits.names_max
    }

    /// Returns the limit on the resource that a decision takes, with its configuration key.
    pub fn held_max(&self, takes: Takes) -> Option<(&'static str, u64)> {
        self.limits.total_max(takes.into())
    }

    /// Returns the limit on bytes.
    pub fn bytes_max(&self) -> Option<u64> {
        self.limits.bytes_max
    }

    /// Returns the number of servers that share the limits.
    pub fn servers(&self) -> u32 {
        self.servers
    }

    /// Whether the total is limited.
    pub fn has_limit(&self, total: Total) -> bool {
        self.limits.total_max(total).is_some()
    }

    /// Whether more than half of the limit on a total in Redis is used, according to the last count
    /// and this server's additions.
    pub fn is_scarce(&self, total: Total) -> bool {
        let used = || self.counts.tallies.tally(total).lock().used(self.servers);
        self.limits.total_max(total).is_some_and(|(_, most)| 2 * used() > most)
    }

    /// Adds one to a limited total in Redis, if the last count and this server's additions since
    /// then leave room. Fails with [`Error::NamespaceLimit`], which is not counted as a refusal.
    pub fn add(&self, total: Total) -> Result<Added, Error> {
        let (limit, value) = self.limits.total_max(total).unwrap_or(("", u64::MAX));
        let added = self.counts.tallies.tally(total).lock().add(value, self.servers);
        added.ok_or(Error::NamespaceLimit { limit, value, retry: RETRY })
    }

    /// Adds bytes in Redis under the same condition. They are included until the next count.
    pub fn add_bytes(&self, bytes: u64) -> Result<(), Error> {
        let Some(value) = self.limits.bytes_max else { return Ok(()) };
        let mut tally = self.counts.tallies.tally(Total::Bytes).lock();
        match tally.add_many(bytes, value, self.servers) {
            Some(_) => Ok(()),
            None => Err(self.exceeded("bytes_max", value, RETRY)),
        }
    }

    /// Undoes the addition of an entry that the store does not contain.
    pub fn remove(&self, total: Total, added: Added) {
        self.counts.tallies.tally(total).lock().remove(added);
    }

    /// Returns the result of the last count of a total in Redis; 0 before the first one.
    pub fn counted(&self, total: Total) -> u64 {
        self.counts.tallies.tally(total).lock().counted()
    }

    /// Starts a count of a total in Redis.
    pub fn begin(&self, total: Total) {
        self.counts.tallies.tally(total).lock().begin();
    }

    /// Finishes the count that was started last.
    pub fn end(&self, total: Total, counted: u64) {
        self.counts.tallies.tally(total).lock().end(counted);
    }

    fn hold(
        &self,
        most: Option<u32>,
        limit: &'static str,
        count: fn(&NamespaceCounts) -> &AtomicU64,
    ) -> Result<Held, Error> {
        let before = count(&self.counts).fetch_add(1, Ordering::Relaxed);
        // On an error it is dropped, and thus no longer counted.
        let held = Held { counts: self.counts.clone(), count };
        match most {
            Some(most) if before >= most.into() => Err(self.exceeded(limit, most, RETRY)),
            _ => Ok(held),
        }
    }

    /// Returns the time that one call takes of this server's quota of the calls per second, in ns.
    fn price(&self, rate: u32) -> u64 {
        1_000_000_000 * u64::from(self.servers) / u64::from(rate.max(1))
    }

    /// Returns the time since the start of the counts, in ns.
    fn now(&self) -> u64 {
        self.counts.start.elapsed().as_nanos() as u64
    }

    /// Pays for one call from this server's quota of the calls per second, a token bucket that
    /// holds the calls of one second.
    fn pay(&self, rate: u32) -> Result<(), Error> {
        let price = self.price(rate);
        // A quota below one call per second still allows one call.
        let burst = (BURST.as_nanos() as u64).max(price);
        let now = self.now();
        let paid = self.counts.paid.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |paid| {
            Some(paid.max(now) + price).filter(|paid| paid - now <= burst)
        });
        paid.map(drop).map_err(|paid| {
            let wait = (paid.max(now) + price - now).saturating_sub(burst);
            self.exceeded("calls_per_second", rate, Millis(wait.div_ceil(1_000_000)))
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        (self.count)(&self.counts).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
