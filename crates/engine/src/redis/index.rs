//! The index of partitions contains the names that Redis knows, for listings and for the sweeper.
//!
//! For each capability, there are two zsets: `partitions` contains the names by the time of their
//! last registration, and `ends` the names by the time of the sweeper's next visit. The index is in
//! a different hash slot than the partitions, so the atomic step of a decision cannot write it. No
//! decision depends on it.
//!
//! Names of the default namespace have their own index; the names of all other namespaces share one
//! ([`IndexOf`]). The shared index has an additional zset for each namespace,
//! `partitions:NAMESPACE`, which its listings read. The listings of a namespace therefore do not
//! depend on other names.
//!
//! `Redis::run` registers a partition together with a decision that can put an entry into it. The
//! registration is a separate command, often to another node: it can be lost although the decision
//! is executed, in which case the next decision registers the partition again. [`Index`] remembers
//! the registrations that were answered, so that a partition is registered only about once a
//! minute. A registration contains the time until something in the partition ends, for which it
//! schedules a visit of the sweeper.
//!
//! # Invariant
//! A decision may skip its registration only if a registration in the last minute has scheduled a
//! visit that is still to come and not later than the end of the decision's new entry.

use std::{
    collections::HashMap,
    str,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ahash::RandomState;
use bytes::Bytes;

use tokio::time::timeout_at;

use super::{
    PartitionCursor, PartitionPage, Redis, fair,
    job::{JobDelivery, LISTING, Pending},
};
use tollgate_core::{
    Call, Cost, Decision, Ends, Listing, Reply, State,
    error::Error,
    names::{Name, Namespace},
    script,
    time::{Clock, Millis, Timestamp, monotonic},
};

/// Maximum time for which a registration is relied on.
const RELIED_ON: Duration = Duration::from_secs(60);
/// Maximum number of names that are remembered. Above it, all are forgotten and registered again.
const RECENT_MAX: usize = 65_536;
/// Maximum time that an answered call waits for the answer to its registration. A later answer is
/// not recorded, so the next call sends another registration.
const ANSWER_MAX: Duration = Duration::from_millis(20);

/// The capability in the keys of an index of the default namespace.
const DEFAULT: &str = "index";
/// The capability in the keys of an index of all other namespaces.
const NAMESPACES: &str = "namespaces";
/// The zset of names by the time of their last registration.
const PARTITIONS: &[u8] = b"partitions";
/// The set of names with permanent entries, such as settings.
const KEPT: &[u8] = b"kept";
/// The key of the server that sweeps.
const SWEEPER: &[u8] = b"sweeper";
/// The zset of names by the time of the sweeper's next visit.
const ENDS: &[u8] = b"ends";

/// An index: of the partitions of a capability in the default namespace, or in all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct IndexOf {
    pub(in super::super) capability: &'static str,
    pub(in super::super) is_default: bool,
}

impl IndexOf {
    /// Returns both indexes of a capability.
    pub(in super::super) fn both(capability: &'static str) -> [IndexOf; 2] {
        [true, false].map(|is_default| IndexOf { capability, is_default })
    }

    /// Returns the index of a partition.
    pub(super) fn for_partition(capability: &'static str, partition: &[u8]) -> IndexOf {
        IndexOf { capability, is_default: Namespace::split(partition).0.is_empty() }
    }

    /// Returns KEYS and ARGV of a script on this index.
    fn call(self, prefix: &str) -> Call<'_> {
        let index = if self.is_default { DEFAULT } else { NAMESPACES };
        Call::new(prefix, index, self.capability.as_bytes())
    }
}

/// Appends the key of the zset that the listings of a partition's namespace read.
fn push_listed(call: &mut Call, partition: &[u8]) {
    match Namespace::split(partition).0 {
        [] => call.key(&[PARTITIONS]),
        namespace => call.key(&[PARTITIONS, b":", namespace]),
    }
}

/// The recent registrations of this server.
#[derive(Debug)]
pub(super) struct Index {
    /// The registrations sent since the last lost connection.
    recent: Mutex<Recent>,
    /// Converts an end time into a duration.
    clock: Clock,
}

/// The content of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Registration {
    /// The effect of the decision on the partition's place in listings.
    listing: Listing,
    /// The time until something in the partition ends; `None` if nothing does.
    visit: Option<Millis>,
}

/// A remembered registration.
#[derive(Debug, Clone, Copy)]
struct Last {
    /// The time when it was sent.
    at: Instant,
    /// The visit that it has scheduled.
    visit: Option<Instant>,
}

#[derive(Debug, Default)]
struct Recent {
    /// The number of lost connections. After each, Redis may have lost registrations.
    epoch: u64,
    /// The last registration of each partition.
    last: HashMap<Box<[u8]>, Last, RandomState>,
}

impl Default for Index {
    fn default() -> Index {
        Index { recent: Mutex::default(), clock: Clock::system() }
    }
}

impl Index {
    /// Returns the registration that must be sent together with a decision, if any.
    pub(super) fn due(
        &self,
        partition: &[u8],
        listing: Listing,
        epoch: u64,
    ) -> Option<Registration> {
        let visit = match listing {
            Listing::Same => return None,
            Listing::Kept | Listing::Released => {
                return Some(Registration { listing, visit: Some(Millis(0)) });
            }
            Listing::Held(Ends::After(length)) => Some(length),
            // If this clock is ahead of the store's, the visit is too early, and is scheduled again
            // for the right time.
            Listing::Held(Ends::At(end)) => Some(self.clock.now().until(end)),
            Listing::Held(Ends::Never) => None,
        };
        let now = monotonic();
        let recent = self.lock(epoch);
        let is_covered = recent.last.get(partition).is_some_and(|last| last.covers(now, visit));
        (!is_covered).then_some(Registration { listing, visit })
    }

    /// Records an answered registration that was sent at `sent`. Ignores a registration from before
    /// the last lost connection.
    pub(super) fn record(
        &self,
        partition: &[u8],
        registration: Registration,
        sent: Instant,
        epoch: u64,
    ) {
        let mut recent = self.lock(epoch);
        if recent.epoch > epoch {
            return;
        }
        if recent.last.len() >= RECENT_MAX {
            recent.last.clear();
        }
        let visit = registration.visit.and_then(|visit| sent.checked_add(visit.duration()));
        match recent.last.get_mut(partition) {
            Some(last) => *last = last.and(Last { at: sent, visit }),
            None => {
                recent.last.insert(partition.into(), Last { at: sent, visit });
            }
        }
    }

    /// Locks the registrations, and drops them if a connection was lost since then.
    fn lock(&self, epoch: u64) -> MutexGuard<'_, Recent> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if epoch > recent.epoch {
            *recent = Recent { epoch, last: HashMap::default() };
        }
        recent
    }
}

impl Registration {
    /// Combines two registrations of a partition into one.
    pub(super) fn and(self, next: Registration) -> Registration {
        let visit = self.visit.into_iter().chain(next.visit).min();
        Registration { visit, ..next }
    }
}

impl Last {
    /// Whether this registration also covers a decision at `now` whose entry ends after the time
    /// `visit`.
    fn covers(&self, now: Instant, visit: Option<Millis>) -> bool {
        let is_recent = now.saturating_duration_since(self.at) < RELIED_ON;
        let is_visited = |length: Millis| {
            let end = now.checked_add(length.duration());
            self.visit.is_some_and(|visit| now <= visit && end.is_none_or(|end| visit <= end))
        };
        is_recent && visit.is_none_or(is_visited)
    }

    /// Combines the remembered registration with a further one. The store keeps the earlier visit,
    /// unless its time has passed.
    fn and(self, next: Last) -> Last {
        let to_come = self.visit.filter(|visit| *visit > next.at);
        let visit = to_come.into_iter().chain(next.visit).min();
        Last { at: next.at, visit }
    }
}

/// Returns KEYS and ARGV of `lua/index/register.lua`.
pub(super) fn register<'a>(
    prefix: &'a str,
    capability: &'static str,
    partition: &[u8],
    registration: Registration,
) -> Call<'a> {
    let mut call = IndexOf::for_partition(capability, partition).call(prefix);
    call.key(&[PARTITIONS]);
    call.key(&[KEPT]);
    call.key(&[ENDS]);
    push_listed(&mut call, partition);
    call.bytes(&[partition]);
    call.number(match registration.listing {
        Listing::Same | Listing::Held(_) => 0,
        Listing::Kept => 1,
        Listing::Released => 2,
    });
    call.optional(registration.visit.map(|visit| visit.0));
    call
}

/// Returns KEYS and ARGV of `lua/index/due.lua`.
pub(super) fn due(prefix: &str, index: IndexOf, limit: u32) -> Call<'_> {
    let mut call = index.call(prefix);
    call.key(&[PARTITIONS]);
    call.key(&[ENDS]);
    call.number(limit.into());
    call
}

/// Returns KEYS and ARGV of `lua/index/latest.lua`.
pub(super) fn latest(prefix: &str, index: IndexOf, limit: u32) -> Call<'_> {
    let mut call = index.call(prefix);
    call.key(&[PARTITIONS]);
    call.number(limit.into());
    call
}

/// The result of a visit of the sweeper to a partition.
#[derive(Debug)]
pub(in super::super) struct Visit {
    /// The partition, and the time of its last registration as the sweeper read it.
    pub(in super::super) seen: PartitionCursor,
    /// The time at which its next entry ends.
    pub(in super::super) next: Option<Timestamp>,
    /// Whether the partition is empty.
    pub(in super::super) is_vacant: bool,
}

/// Returns KEYS and ARGV of `lua/index/schedule.lua`, which removes empty partitions that were last
/// registered before `before` from the index.
pub(super) fn schedule<'a>(
    prefix: &'a str,
    index: IndexOf,
    visit: &Visit,
    before: Timestamp,
) -> Call<'a> {
    let mut call = index.call(prefix);
    call.key(&[PARTITIONS]);
    call.key(&[ENDS]);
    push_listed(&mut call, visit.seen.name.as_bytes());
    call.bytes(&[visit.seen.name.as_bytes()]);
    call.number(visit.seen.noted);
    call.number(visit.next.map_or(0, |next| next.0));
    call.number(visit.is_vacant.into());
    call.number(before.0);
    call
}

/// Returns KEYS and ARGV of `lua/index/claim.lua`.
pub(super) fn claim<'a>(prefix: &'a str, index: IndexOf, server: &str, hold: Millis) -> Call<'a> {
    let mut call = index.call(prefix);
    call.key(&[SWEEPER]);
    call.bytes(&[server.as_bytes()]);
    call.number(hold.0);
    call
}

/// Returns KEYS and ARGV of `lua/index/known.lua`, for a partition of a listed state.
pub(super) fn known<'a>(prefix: &'a str, capability: &'static str, partition: &[u8]) -> Call<'a> {
    let mut call = IndexOf::for_partition(capability, partition).call(prefix);
    push_listed(&mut call, partition);
    call.bytes(&[partition]);
    call
}

/// Returns KEYS of `lua/index/size.lua`, for the names of one namespace.
pub(super) fn size<'a>(
    prefix: &'a str,
    capability: &'static str,
    namespace: &Namespace,
) -> Call<'a> {
    let mut call = IndexOf::for_partition(capability, namespace.prefix()).call(prefix);
    push_listed(&mut call, namespace.prefix());
    call
}

/// Returns KEYS and ARGV of `lua/index/list.lua`. With a namespace, it lists only the names of that
/// namespace. `after` is the time of the last registration, in µs, and the name.
pub(super) fn list<'a>(
    prefix: &'a str,
    index: IndexOf,
    namespace: &Namespace,
    limit: u32,
    after: Option<(u64, &[u8])>,
) -> Call<'a> {
    let mut call = index.call(prefix);
    push_listed(&mut call, namespace.prefix());
    call.number(limit.into());
    call.optional(after.map(|(noted, _)| noted));
    call.bytes(&[after.map_or(&[][..], |(_, name)| name)]);
    call
}

/// Parses the reply of `lua/index/list.lua` into a page of names.
pub(super) fn parse_page(reply: &mut Reply) -> Result<PartitionPage, Error> {
    let (noted, more) = parse_cursors(reply)?;
    let last = noted.last().filter(|_| more).cloned();
    let names = noted.into_iter().map(|cursor| cursor.name).collect();
    Ok(PartitionPage { names, next: last })
}

/// Parses the same reply into names with the time of their last registration. Returns whether more
/// follow.
pub(super) fn parse_cursors(reply: &mut Reply) -> Result<(Vec<PartitionCursor>, bool), Error> {
    let (_, more) = (reply.number()?, reply.number()? != 0);
    let mut listed = Vec::new();
    while reply.has_more() {
        let name = Name::stored(Bytes::from(reply.any_bytes()?));
        let noted = reply.bytes()?;
        let noted = str::from_utf8(&noted).ok().and_then(|text| text.parse().ok());
        // Skips an entry that is not a valid name.
        if let (Ok(name), Some(noted)) = (name, noted) {
            listed.push(PartitionCursor { noted, name });
        }
    }
    Ok((listed, more))
}

/// Returns the options for listing `limit` names: bulk, with the cost of that many names.
pub(super) fn pages(delivery: JobDelivery, limit: u32) -> JobDelivery {
    JobDelivery { cost: Cost::bulk(50 + 5 * limit / 2), ..delivery }
}

/// A registration in flight.
#[derive(Debug)]
pub(super) struct SentRegistration {
    registration: Registration,
    /// When the registration was sent.
    sent: Instant,
    pending: Pending,
}

impl Redis {
    /// Sends a registration for a partition.
    pub(super) fn register<D: Decision>(
        &self,
        partition: &[u8],
        registration: Registration,
        deadline: Instant,
    ) -> SentRegistration {
        let call = register(&self.key_prefix, D::State::CAPABILITY, partition, registration);
        let sent = monotonic();
        let pending = self.send(&script::index::REGISTER, call.finish(), LISTING, deadline);
        SentRegistration { registration, sent, pending }
    }

    /// Waits up to [`ANSWER_MAX`] for the answers to registrations, and records them in the [`Index`].
    pub(super) async fn record_registrations(
        &self,
        registrations: impl IntoIterator<Item = (&[u8], SentRegistration)>,
        epoch: u64,
    ) {
        let mut end = None;
        for (partition, SentRegistration { registration, sent, pending }) in registrations {
            let end = *end.get_or_insert_with(|| monotonic() + ANSWER_MAX);
            if let Ok(Ok(answer)) = timeout_at(end.into(), pending.wait()).await
                && !answer.repeated
            {
                self.index.record(partition, registration, sent, epoch);
            }
        }
    }

    /// Registers a partition again if a lease ends before the scheduled visit of the sweeper.
    /// Settings of ConfigurePool can shorten leases, which only the outcome shows.
    pub(super) async fn register_sooner<D: Decision>(
        &self,
        partition: &[u8],
        length: Millis,
        deadline: Instant,
    ) {
        let (listing, epoch) = (Listing::Held(Ends::After(length)), self.epoch());
        if let Some(registration) = self.index.due(partition, listing, epoch) {
            let sent = self.register::<D>(partition, registration, deadline);
            self.record_registrations([(partition, sent)], epoch).await;
        }
    }

    /// Does the same for a batch, once for each partition. Returns the registrations, of which
    /// there are usually none.
    pub(super) fn register_all_sooner<'a, D: Decision>(
        &self,
        decisions: &'a [D],
        outcomes: &[Result<D::Outcome, Error>],
        (deadline, epoch): (Instant, u64),
    ) -> Vec<(&'a [u8], SentRegistration)> {
        let mut lengths: HashMap<&[u8], Millis> = HashMap::new();
        for (decision, outcome) in decisions.iter().zip(outcomes) {
            let Ok(outcome) = outcome else { continue };
            let Some(length) = (D::PROPERTIES.ends_sooner)(decision, outcome) else { continue };
            let shortest = lengths.entry(decision.partition()).or_insert(length);
            *shortest = length.min(*shortest);
        }
        let due = lengths.into_iter().filter_map(|(partition, length)| {
            let listing = Listing::Held(Ends::After(length));
            Some((partition, self.index.due(partition, listing, epoch)?))
        });
        due.map(|(partition, registration)| {
            (partition, self.register::<D>(partition, registration, deadline))
        })
        .collect()
    }

    /// Registers partitions again if a connection was lost since their decision consulted the
    /// [`Index`]: it may have been executed by another store, which does not have the registrations.
    /// A failure here is repaired by a later call.
    pub(super) async fn register_again<D: Decision>(&self, decisions: &[D], deadline: Instant) {
        let epoch = self.epoch();
        let due = self.unregistered(decisions, epoch).into_iter();
        let registrations: Vec<(&[u8], SentRegistration)> = due
            .map(|(partition, registration)| {
                (partition, self.register::<D>(partition, registration, deadline))
            })
            .collect();
        self.record_registrations(registrations, epoch).await;
    }

    /// Returns the registrations that these decisions need: one for each partition, with the
    /// earliest end.
    pub(super) fn unregistered<'a, D: Decision>(
        &self,
        decisions: impl IntoIterator<Item = &'a D>,
        epoch: u64,
    ) -> Vec<(&'a [u8], Registration)> {
        let mut due: Vec<(&[u8], Registration)> = Vec::new();
        let mut places: HashMap<&[u8], usize> = HashMap::new();
        for decision in decisions {
            let partition = decision.partition();
            let listing = (D::PROPERTIES.listing)(decision);
            let Some(registration) = self.index.due(partition, listing, epoch) else { continue };
            let place = *places.entry(partition).or_insert(due.len());
            match due.get_mut(place) {
                Some((_, first)) => *first = first.and(registration),
                None => due.push((partition, registration)),
            }
        }
        due
    }

    /// Lists a page of the partition names of a namespace from the index.
    pub(in super::super) async fn partitions(
        &self,
        capability: &'static str,
        namespace: &Namespace,
        limit: u32,
        after: Option<&PartitionCursor>,
        deadline: Instant,
    ) -> Result<PartitionPage, Error> {
        self.check()?;
        let _call = self.calls.enter(fair::line_of(namespace.prefix()))?;
        let after = after.map(|cursor| (cursor.noted, cursor.name.as_bytes()));
        let index = IndexOf { capability, is_default: namespace.is_default() };
        let list = list(&self.key_prefix, index, namespace, limit, after).finish();
        let pending = self.send(&script::index::LIST, list, pages(LISTING, limit), deadline);
        parse_page(&mut pending.wait().await?.reply)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_registration_covers_leases_that_end_after_its_visit() {
        let sent = monotonic();
        let seconds = |count: u64| Some(Millis::from_secs(count));
        let last = Last { at: sent, visit: Some(sent + 30 * SECOND) };
        assert!(last.covers(sent, seconds(30)));
        assert!(last.covers(sent, None), "an entry that does not end needs no visit");
        assert!(!last.covers(sent, seconds(29)), "it ends before the visit");
        assert!(last.covers(sent + 29 * SECOND, seconds(5)));
        assert!(!last.covers(sent + 31 * SECOND, seconds(30)), "the time of the visit has passed");
        assert!(!last.covers(sent + 60 * SECOND, None), "the registration is a minute old");
        // The store keeps the earlier visit, unless its time has passed.
        let next = Last { at: sent + SECOND, visit: Some(sent + 300 * SECOND) };
        assert_eq!(last.and(next).visit, last.visit);
        let late = Last { at: sent + 40 * SECOND, visit: Some(sent + 300 * SECOND) };
        assert_eq!(last.and(late).visit, late.visit);
    }

    #[test]
    fn a_partition_is_registered_again_if_a_lease_ends_sooner() {
        let index = Index::default();
        let held = |seconds| Listing::Held(Ends::After(Millis::from_secs(seconds)));
        let registration = index.due(b"p", held(300), 0).expect("it was never registered");
        index.record(b"p", registration, monotonic(), 0);
        assert_eq!(index.due(b"p", held(300), 0), None);
        assert_eq!(index.due(b"p", Listing::Held(Ends::Never), 0), None);
        assert!(index.due(b"p", held(1), 0).is_some());
        assert!(index.due(b"p", Listing::Kept, 0).is_some());
        assert!(
            index.due(b"p", held(300), 1).is_some(),
            "the store may have lost the registration"
        );
    }
}
