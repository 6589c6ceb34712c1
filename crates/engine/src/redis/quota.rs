//! The limits of namespaces on their entries in Redis: `names_max`, `leases_max`, `queued_max` and
//! `bytes_max`.
//!
//! Each server counts the totals of a namespace from time to time (`engine::counter`), and adds the
//! entries that it admits itself (`decision/budget/tally.rs`). While a total has reached its limit:
//! - A decision that may grant a lease or queue a task is sent as limited. Its script adds no
//!   entries, but still answers repeats ([`Call::is_limited`]).
//! - A decision that may create a partition is refused, unless its name is known.
//! - A decision that may add bytes is refused, even if it is a repeat, because this server does not
//!   know what it has already added.
//!
//! A total is a snapshot, so it can temporarily exceed its limit. Capacities do not depend on it.
//!
//! A name is known if this server has seen it in the last one to two minutes. Once more than half
//! of `names_max` is used, other names are looked up in Redis, which costs another round trip. The
//! index can be on a different node than the partition, so a name also counts as known if its
//! lookup fails: the limit never makes a call unavailable.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ahash::RandomState;
use parking_lot::Mutex;

use super::{
    Redis, fair, index,
    job::{LISTING, Pending},
    shared::Router,
};
use crate::budget::{Added, NamespaceUse, Total};
use tollgate_core::{
    Arguments, Call, Decision, State, Taking, error::Error, names::Namespace, script,
    time::monotonic,
};

/// Minimum time for which a name is remembered. The maximum is twice that.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum number of names in each half. Above it, the older half is dropped earlier.
const REMEMBERED_MAX: usize = 65_536;

/// The names that are known to have state, by hash.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    state: RandomState,
    halves: Mutex<Halves>,
}

/// The names of the current period and of the previous one. A period is a minute.
#[derive(Debug, Default)]
struct Halves {
    now: HashSet<u64, RandomState>,
    before: HashSet<u64, RandomState>,
    since: Option<Instant>,
}

impl KnownNames {
    fn has(&self, name: Name<'_>) -> bool {
        let (hash, halves) = (self.state.hash_one(name), self.halves.lock());
        let is_over = |age: Duration| halves.since.is_some_and(|since| since.elapsed() >= age);
        !is_over(2 * REMEMBERED)
            && (halves.now.contains(&hash) || !is_over(REMEMBERED) && halves.before.contains(&hash))
    }

    fn add(&self, name: Name<'_>) {
        let (hash, mut halves) = (self.state.hash_one(name), self.halves.lock());
        let now = monotonic();
        let age = halves.since.map(|since| now.saturating_duration_since(since));
        if age.is_none_or(|age| age >= REMEMBERED) || halves.now.len() >= REMEMBERED_MAX {
            halves.before = std::mem::take(&mut halves.now);
            if age.is_none_or(|age| age >= 2 * REMEMBERED) {
                halves.before.clear();
            }
            halves.since = Some(now);
        }
        halves.now.insert(hash);
    }
}

/// The capability and the partition of a decision.
type Name<'a> = (&'static str, &'a [u8]);

/// The entries that a decision can add to the totals of its namespace. The code that handles them
/// is compiled once, not for each verb.
struct Addition<'a> {
    name: Name<'a>,
    /// `None` without limits.
    used: Option<Arc<NamespaceUse>>,
    /// Whether it can create its partition.
    creates: bool,
    bytes: u64,
    entry: Option<Total>,
}

/// The position of each decision within the limits of its namespace, in order. Empty, without an
/// allocation, if no namespace has such a limit.
#[derive(Debug, Default)]
pub(super) struct Quotas(Vec<Result<Quota, Error>>);

/// The position of one decision.
#[derive(Debug, Default)]
struct Quota {
    /// The usage of its namespace, and the total that it may add to; `None` without a limit.
    limit: Option<(Arc<NamespaceUse>, Total)>,
    /// The entry that was added to the total, or an error if the total has reached its limit.
    added: Option<Result<Added, Error>>,
}

impl Quotas {
    /// Fails with [`Error::NamespaceLimit`] if a decision must not be sent.
    pub(super) fn check(&self, index: usize) -> Result<(), Error> {
        match self.0.get(index) {
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Whether a decision must add no entry.
    pub(super) fn is_limited(&self, index: usize) -> bool {
        matches!(self.0.get(index), Some(Ok(Quota { added: Some(Err(_)), .. })))
    }

    /// Corrects the total according to the outcome. Without an outcome, the decision counts as
    /// executed until the next count. Fails with [`Error::NamespaceLimit`] if the decision added no
    /// entry because it was limited.
    pub(super) fn settle<D: Decision>(
        &mut self,
        index: usize,
        outcome: Result<D::Outcome, Error>,
    ) -> Result<D::Outcome, Error> {
        if self.0.is_empty() {
            return outcome;
        }
        let outcome = outcome?;
        self.correct(index, (D::PROPERTIES.taken)(&outcome))?;
        Ok(outcome)
    }

    fn correct(&mut self, index: usize, taken: Taking) -> Result<(), Error> {
        let Some(Ok(quota)) = self.0.get_mut(index) else { return Ok(()) };
        let (Some((used, total)), Some(added)) = (quota.limit.take(), quota.added.take()) else {
            return Ok(());
        };
        match added {
            Err(error) if taken == Taking::Limited => {
                used.note_refusal(&error);
                return Err(error);
            }
            Ok(added) if taken != Taking::One => used.remove(total, added),
            _ => {}
        }
        Ok(())
    }
}

impl Redis {
    /// Adds decisions to the totals of their namespaces.
    pub(super) async fn quotas<D: Decision>(&self, decisions: &[D], deadline: Instant) -> Quotas {
        let namespaces = self.hub.namespaces();
        let is_limited = |decision: &D| {
            (D::PROPERTIES.kind.is_some()
                || (D::PROPERTIES.creates)(decision)
                || (D::PROPERTIES.adds)(decision) > 0)
                && namespaces.of(Namespace::prefix_of(decision.partition())).is_some()
        };
        if !namespaces.has_totals() || !decisions.iter().any(is_limited) {
            return Quotas::default();
        }
        let additions = decisions.iter().map(|decision| Addition {
            name: (D::State::CAPABILITY, decision.partition()),
            used: namespaces.of(Namespace::prefix_of(decision.partition())),
            creates: (D::PROPERTIES.creates)(decision),
            bytes: (D::PROPERTIES.adds)(decision),
            entry: D::PROPERTIES.kind.map(Total::from),
        });
        let lookup = |index: usize| match D::State::NAME_KEY {
            Some(_) => Call::encode(&decisions[index], &self.key_prefix).finish().first_key(),
            None => {
                let partition = decisions[index].partition();
                index::known(&self.key_prefix, D::State::CAPABILITY, partition).finish()
            }
        };
        // Boxed, because nearly all calls need no memory for it.
        Box::pin(self.limited_quotas(additions.collect(), &lookup, deadline)).await
    }

    /// Adds limited decisions to the totals. `lookup` returns the arguments that look up the name
    /// of an addition.
    async fn limited_quotas(
        &self,
        additions: Vec<Addition<'_>>,
        lookup: &(dyn Fn(usize) -> Arguments + Sync),
        deadline: Instant,
    ) -> Quotas {
        let mut unknown: Vec<(Name<'_>, Arguments)> = Vec::new();
        let mut names: HashSet<&[u8]> = HashSet::new();
        for (index, Addition { name, used, creates, .. }) in additions.iter().enumerate() {
            // While half of the limit is free, an unknown name counts as new, without a lookup.
            let is_scarce = used.as_ref().is_some_and(|used| used.is_scarce(Total::Names));
            if is_scarce && *creates && !self.known_names.has(*name) && names.insert(name.1) {
                unknown.push((*name, lookup(index)));
            }
        }
        // A lookup leaves time for the decision.
        let time = deadline.saturating_duration_since(monotonic()) / 2;
        let unsure = self.look_up(unknown, monotonic() + time).await;
        let quota = |Addition { name, used, creates, bytes, entry }| {
            let Some(used) = used else { return Ok(Quota::default()) };
            if creates && !unsure.contains(&name.1) {
                self.add_name(name, &used)?;
            }
            if bytes > 0 {
                used.add_bytes(bytes)?;
            }
            Ok(Quota::new(used, entry))
        };
        Quotas(additions.into_iter().map(quota).collect())
    }

    /// Looks up names, and remembers those that have state. Returns the partitions whose lookup has
    /// failed.
    async fn look_up<'a>(
        &self,
        names: Vec<(Name<'a>, Arguments)>,
        deadline: Instant,
    ) -> Vec<&'a [u8]> {
        let ask = |(name, arguments): (Name<'a>, Arguments)| {
            let (mut job, pending) = self.job(&script::index::KNOWN, arguments, LISTING, deadline);
            job.namespace = fair::line_of(name.1);
            self.topology.push(job);
            (name, pending)
        };
        let asked: Vec<(Name<'_>, Pending)> = names.into_iter().map(ask).collect();
        let mut unsure = Vec::new();
        for (name, pending) in asked {
            match is_known(pending).await {
                Ok(true) => self.known_names.add(name),
                Ok(false) => {}
                Err(_) => unsure.push(name.1),
            }
        }
        unsure
    }

    /// Adds a name to the total of its namespace, unless it is known. Fails with
    /// [`Error::NamespaceLimit`].
    fn add_name(&self, name: Name<'_>, used: &NamespaceUse) -> Result<(), Error> {
        if !used.has_limit(Total::Names) || self.known_names.has(name) {
            return Ok(());
        }
        used.add(Total::Names).inspect_err(|error| used.note_refusal(error))?;
        self.known_names.add(name);
        Ok(())
    }
}

/// Reads the reply of `lua/index/known.lua`.
async fn is_known(pending: Pending) -> Result<bool, Error> {
    let mut reply = pending.wait().await?.reply;
    reply.ok()?;
    Ok(reply.number()? != 0)
}

impl Quota {
    /// Adds an entry to the total, if it is limited.
    fn new(used: Arc<NamespaceUse>, entry: Option<Total>) -> Quota {
        match entry.filter(|total| used.has_limit(*total)) {
            None => Quota::default(),
            Some(total) => {
                let added = Some(used.add(total));
                Quota { limit: Some((used, total)), added }
            }
        }
    }
}
