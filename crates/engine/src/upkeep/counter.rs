//! Counts the names, leases, queued tasks and bytes that each limited namespace has in Redis, for
//! `names_max`, `leases_max`, `queued_max` and `bytes_max`.
//!
//! Each server counts for itself. It counts a namespace for a minute after a call that may add to
//! it. No capacity depends on a total (`redis/quota.rs`).
//!
//! - Leases and queued tasks: it visits the pools of the namespace in the index. Each pool is one
//!   small item of a script call.
//! - Names and bytes: one SCAN of all keys for all namespaces, and the size of the index.
//!
//! A count starts every second, or as soon as the previous one has ended. After each round trip, it
//! rests [`REST`] times as long, multiplied by the number of servers. Each of the two kinds
//! therefore takes at most 4 % of Redis's time, for all servers together. If a count fails, the
//! last one stays in use.

use std::{
    collections::HashSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ahash::RandomState;
use tokio::time::{sleep, sleep_until};

use super::Failures;
use crate::{
    budget::{NamespaceUse, Total},
    redis::{
        Redis,
        index::IndexOf,
        name_scan::{NameCounts, NameScan},
    },
};
use tollgate_core::{
    Decision, Footprint, State,
    error::Error,
    names::{Name, Namespace},
    time::monotonic,
};

/// Minimum time from the start of one count to the start of the next.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// Time limit for one request.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Number of names in a page of the index. Their pools are counted in one round trip.
const PAGE: u32 = 128;
/// After a round trip, the counter rests this many times as long.
const REST: u32 = 24;
/// Maximum rest, before it is multiplied by the number of servers. A round trip takes Redis a few
/// milliseconds, however long the answer takes.
const REST_MAX: Duration = Duration::from_millis(500);
/// The log lines of failures.
const HELD_FAILED: &str = "cannot count leases and queued tasks of a namespace: leases_max and \
                           queued_max use the last count; it tries again";
const NAMES_FAILED: &str = "cannot count the names and bytes of namespaces: names_max and bytes_max use the last count; it \
     tries again";

/// Counts, and never completes. `decision` creates the decision that counts the leases and queued
/// tasks of a partition.
pub(crate) async fn count<D>(engine: &Redis, decision: impl Fn(Name) -> D)
where
    D: Decision<Outcome = Footprint>,
{
    tokio::join!(count_held(engine, &decision), count_names::<D::State>(engine));
}

/// Counts leases and queued tasks.
async fn count_held<D>(engine: &Redis, decision: &impl Fn(Name) -> D)
where
    D: Decision<Outcome = Footprint>,
{
    let failures = Failures::new(HELD_FAILED);
    loop {
        let next = monotonic() + COUNT_EVERY;
        let budget = engine.hub().namespaces();
        let mut wanted = budget.wanted(Total::Leases);
        for (prefix, used) in budget.wanted(Total::Queued) {
            if !wanted.iter().any(|(known, _)| *known == prefix) {
                wanted.push((prefix, used));
            }
        }
        for (prefix, used) in wanted {
            [Total::Leases, Total::Queued].iter().for_each(|total| used.begin(*total));
            match held(engine, &prefix, used.servers(), decision, &failures).await {
                Ok(Footprint { leases, queued, .. }) => {
                    used.end(Total::Leases, leases);
                    used.end(Total::Queued, queued);
                }
                Err(error) => failures.log(&error),
            }
        }
        sleep_until(next.into()).await;
    }
}

/// Returns the leases and queued tasks of the namespace with this prefix. Unreadable pools are
/// logged and skipped.
async fn held<D>(
    engine: &Redis,
    prefix: &[u8],
    servers: u32,
    decision: &impl Fn(Name) -> D,
    failures: &Failures,
) -> Result<Footprint, Error>
where
    D: Decision<Outcome = Footprint>,
{
    let namespace = namespace(prefix)?;
    let index = IndexOf { capability: D::State::CAPABILITY, is_default: namespace.is_default() };
    // A new registration moves a name to the end of the index, where it is found again.
    let (mut seen, hasher) = (HashSet::new(), RandomState::new());
    let (mut total, mut after) = (Footprint::default(), None);
    loop {
        engine.check()?;
        let begin = monotonic();
        let deadline = begin + ANSWER_MAX;
        let page = engine.page(index, &namespace, PAGE, after.as_ref(), deadline);
        let (page, has_more) = page.await?;
        rest(begin, servers).await;
        after = page.last().cloned();
        let names = page.into_iter().map(|cursor| cursor.name);
        let names = names.filter(|name| seen.insert(hasher.hash_one(name.as_bytes())));
        let decisions: Vec<D> = names.map(decision).collect();
        let begin = monotonic();
        for held in engine.run_all(&decisions, begin + ANSWER_MAX).await? {
            match held {
                Ok(held) => {
                    total.leases += held.leases;
                    total.queued += held.queued;
                }
                Err(error @ Error::Corrupt(_)) => failures.log(&error),
                Err(error) => return Err(error),
            }
        }
        rest(begin, servers).await;
        if !has_more {
            return Ok(total);
        }
    }
}

/// Counts names and bytes, and never completes. `S` is the listed state, whose names are in the
/// index.
async fn count_names<S: State>(engine: &Redis) {
    let failures = Failures::new(NAMES_FAILED);
    loop {
        let next = monotonic() + COUNT_EVERY;
        let budget = engine.hub().namespaces();
        let [of_names, of_bytes] = [Total::Names, Total::Bytes].map(|total| budget.wanted(total));
        if let Some((_, first)) = of_names.first().or(of_bytes.first()) {
            of_names.iter().for_each(|(_, used)| used.begin(Total::Names));
            of_bytes.iter().for_each(|(_, used)| used.begin(Total::Bytes));
            match names::<S>(engine, &of_names, &of_bytes, first.servers()).await {
                Ok((names, bytes)) => {
                    for ((_, used), count) in of_names.iter().zip(names) {
                        used.end(Total::Names, count);
                    }
                    for (prefix, used) in &of_bytes {
                        used.end(Total::Bytes, bytes.get(prefix).copied().unwrap_or_default());
                    }
                }
                Err(error) => failures.log(&error),
            }
        }
        sleep_until(next.into()).await;
    }
}

/// The namespaces whose totals are counted, by prefix.
type Wanted = [(Box<[u8]>, Arc<NamespaceUse>)];

/// Returns the number of names of each of the first namespaces, in order, and the bytes of the
/// others.
async fn names<S: State>(
    engine: &Redis,
    of_names: &Wanted,
    of_bytes: &Wanted,
    servers: u32,
) -> Result<(Vec<u64>, NameCounts), Error> {
    engine.check()?;
    let zero = |wanted: &Wanted| -> NameCounts {
        wanted.iter().map(|(prefix, _)| (prefix.clone(), 0)).collect()
    };
    let (mut counts, mut bytes) = (zero(of_names), zero(of_bytes));
    let in_default = counts.contains_key(&[][..]) || bytes.contains_key(&[][..]);
    let mut scan = NameScan::open(engine, in_default).await?;
    loop {
        let begin = monotonic();
        let has_more = scan.page(&mut counts, &mut bytes).await?;
        rest(begin, servers).await;
        if !has_more {
            break;
        }
    }
    let mut names = Vec::with_capacity(of_names.len());
    for (prefix, _) in of_names {
        let begin = monotonic();
        let size = engine.size(S::CAPABILITY, &namespace(prefix)?, begin + ANSWER_MAX).await?;
        names.push(counts.get(prefix).copied().unwrap_or_default() + size);
        rest(begin, servers).await;
    }
    Ok((names, bytes))
}

/// Returns the namespace with this prefix.
fn namespace(prefix: &[u8]) -> Result<Namespace, Error> {
    let invalid = |why: &str| Error::Corrupt(format!("the name of a namespace {why}"));
    Namespace::parse(Namespace::split(prefix).0).map_err(invalid)
}

/// Rests after a round trip that started at `begin`.
async fn rest(begin: Instant, servers: u32) {
    sleep((REST * begin.elapsed()).min(REST_MAX) * servers).await;
}
