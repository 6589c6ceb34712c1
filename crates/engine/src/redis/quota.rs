//! The limits of namespaces on their entries in Redis: `names_max`, `leases_max`, `queued_max` and
//! `bytes_max`.
//!
//! Each server counts the totals of a namespace from time to time (`engine::counter`), and adds the
//! entries that it admits itself (`decision/budget/tally.rs`). While a total leaves no room:
//! - A decision that may grant a lease or queue a task is sent as limited. Its script adds no
//!   entry, but still answers repeats ([`Call::is_limited`]).
//! - A decision that may create a partition is refused, unless its name is known.
//! - A decision that may add bytes is refused, also a repeat: what it has added is not known here.
//!
//! A total is a snapshot, so it can exceed its limit for a while. Capacities do not depend on it.
//!
//! A name is known if this server has seen it in the last minute, or at most two. Once more than
//! half of `names_max` is used, other names are looked up in Redis: one more round trip. The index
//! can be on another node than the partition. So a name also counts as known if its lookup fails:
//! the limit makes no call unavailable.

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
    Call, Decision, State, Taking, error::Error, names::Namespace, script, time::monotonic,
};

/// The shortest time for which a name is remembered. The longest is twice that.
const REMEMBERED: Duration = Duration::from_secs(60);
/// The maximum number of names in each half. Above it the older half is dropped earlier.
const REMEMBERED_MAX: usize = 65_536;

/// The names that are known to have state, by hash.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    state: RandomState,
    halves: Mutex<Halves>,
}

/// The names of the current period and of the one before. A period is a minute.
#[derive(Debug, Default)]
struct Halves {
    now: HashSet<u64, RandomState>,
    before: HashSet<u64, RandomState>,
    since: Option<Instant>,
}

impl KnownNames {
    fn has<D: Decision>(&self, decision: &D) -> bool {
        let (hash, halves) = (self.hash(decision), self.halves.lock());
        let is_over = |age: Duration| halves.since.is_some_and(|since| since.elapsed() >= age);
        !is_over(2 * REMEMBERED)
            && (halves.now.contains(&hash) || !is_over(REMEMBERED) && halves.before.contains(&hash))
    }

    fn add<D: Decision>(&self, decision: &D) {
        let (hash, mut halves) = (self.hash(decision), self.halves.lock());
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

    fn hash<D: Decision>(&self, decision: &D) -> u64 {
        self.state.hash_one((D::State::CAPABILITY, decision.partition()))
    }
}

/// The position of decisions within the limits of their namespaces, in order. Empty, and without an
/// allocation, if no namespace has such a limit.
#[derive(Debug, Default)]
pub(super) struct Quotas(Vec<Result<Quota, Error>>);

/// The position of one decision.
#[derive(Debug, Default)]
struct Quota {
    /// The use of its namespace, and the total that it may add to; `None` without a limit.
    limit: Option<(Arc<NamespaceUse>, Total)>,
    /// The entry that was added to the total; an error if the total leaves no room.
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

    /// Corrects the total by the outcome. Without an outcome the decision counts as executed until
    /// the next count. Fails with [`Error::NamespaceLimit`] if the decision added no entry because
    /// it was limited.
    pub(super) fn settle<D: Decision>(
        &mut self,
        index: usize,
        outcome: Result<D::Outcome, Error>,
    ) -> Result<D::Outcome, Error> {
        let Some(Ok(quota)) = self.0.get_mut(index) else { return outcome };
        let (Some((used, total)), Some(added), Ok(decided)) =
            (quota.limit.take(), quota.added.take(), &outcome)
        else {
            return outcome;
        };
        let taken = (D::PROPERTIES.taken)(decided);
        match added {
            Err(error) if taken == Taking::Limited => {
                used.note_refusal(&error);
                return Err(error);
            }
            Ok(added) if taken != Taking::One => used.remove(total, added),
            _ => {}
        }
        outcome
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
        // Boxed: nearly all calls need no memory for it.
        Box::pin(self.limited_quotas(decisions, deadline)).await
    }

    async fn limited_quotas<D: Decision>(&self, decisions: &[D], deadline: Instant) -> Quotas {
        let namespaces = self.hub.namespaces();
        let used = |decision: &D| namespaces.of(Namespace::prefix_of(decision.partition()));
        let used: Vec<Option<Arc<NamespaceUse>>> = decisions.iter().map(used).collect();
        let mut unknown: Vec<&D> = Vec::new();
        let mut names: HashSet<&[u8]> = HashSet::new();
        for (decision, used) in decisions.iter().zip(&used) {
            // While half of the limit is free, an unknown name counts as new, without a lookup.
            let is_scarce = used.as_ref().is_some_and(|used| used.is_scarce(Total::Names));
            if is_scarce
                && (D::PROPERTIES.creates)(decision)
                && !self.known_names.has(decision)
                && names.insert(decision.partition())
            {
                unknown.push(decision);
            }
        }
        // A lookup leaves time for the decision.
        let time = deadline.saturating_duration_since(monotonic()) / 2;
        let unsure = self.look_up(&unknown, monotonic() + time).await;
        let quota = |(decision, used): (&D, Option<Arc<NamespaceUse>>)| match used {
            None => Ok(Quota::default()),
            Some(used) => {
                if !unsure.contains(&decision.partition()) {
                    self.add_name(decision, &used)?;
                }
                if (D::PROPERTIES.adds)(decision) > 0 {
                    used.add_bytes((D::PROPERTIES.adds)(decision))?;
                }
                Ok(Quota::for_verb::<D>(used))
            }
        };
        Quotas(decisions.iter().zip(used).map(quota).collect())
    }

    /// Looks up the names of decisions, and remembers the names that have state. Returns the
    /// partitions whose lookup has failed.
    async fn look_up<'a, D: Decision>(
        &self,
        decisions: &[&'a D],
        deadline: Instant,
    ) -> Vec<&'a [u8]> {
        let asked: Vec<Pending> =
            decisions.iter().map(|one| self.ask_for(*one, deadline)).collect();
        let mut unsure = Vec::new();
        for (pending, decision) in asked.into_iter().zip(decisions) {
            match is_known(pending).await {
                Ok(true) => self.known_names.add(*decision),
                Ok(false) => {}
                Err(_) => unsure.push(decision.partition()),
            }
        }
        unsure
    }

    /// Asks whether the name of a decision has state.
    fn ask_for<D: Decision>(&self, decision: &D, deadline: Instant) -> Pending {
        let arguments = match D::State::NAME_KEY {
            Some(_) => Call::encode(decision, &self.key_prefix).finish().first_key(),
            None => {
                index::known(&self.key_prefix, D::State::CAPABILITY, decision.partition()).finish()
            }
        };
        let (mut job, pending) = self.job(&script::index::KNOWN, arguments, LISTING, deadline);
        job.namespace = fair::line_of(decision.partition());
        self.topology.push(job);
        pending
    }

    /// Adds the name of a decision to the total of its namespace, unless it is known. Fails with
    /// [`Error::NamespaceLimit`].
    fn add_name<D: Decision>(&self, decision: &D, used: &NamespaceUse) -> Result<(), Error> {
        let is_limited = used.has_limit(Total::Names) && (D::PROPERTIES.creates)(decision);
        if !is_limited || self.known_names.has(decision) {
            return Ok(());
        }
        used.add(Total::Names).inspect_err(|error| used.note_refusal(error))?;
        self.known_names.add(decision);
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
    /// Adds the entry that a decision may add to a limited total.
    fn for_verb<D: Decision>(used: Arc<NamespaceUse>) -> Quota {
        match D::PROPERTIES.kind.map(Total::from).filter(|total| used.has_limit(*total)) {
            None => Quota::default(),
            Some(total) => {
                let added = Some(used.add(total));
                Quota { limit: Some((used, total)), added }
            }
        }
    }
}
