//! Tests of the denial cache in front of an embedded store, both on one stepped clock.

mod world;

use std::collections::HashSet;

use rand::Rng;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

use super::*;
use tollgate_core::{
    admission::{Admission, AdmitDecision, AdmitTask},
    denial::RefusalCaching,
    rate::{Answer, CheckOutcome, CheckRate, ResetRate, UnbanKey, Verdict},
};
use world::*;

#[test]
fn a_full_pool_is_cached_until_something_changes() {
    let world = World::new();
    world.fill("p");
    assert!(!world.asked(&admit("p", "a")).1);
    assert!(world.asked(&admit("p", "b")).1, "another task of the same pool");
    assert!(!world.asked(&admit("q", "b")).1, "another pool");
    for change in [Change::Complete, Change::Evict, Change::Renew, Change::Configure] {
        world.asked(&admit("p", "a"));
        world.change("p", "holder", change);
        assert!(!world.asked(&admit("p", "c")).1, "after {change:?}");
        world.fill("p");
    }
}

#[test]
fn a_refusal_is_cached_for_the_shorter_of_both_times() {
    let world = World::new();
    world.fill("p");
    world.asked(&admit("p", "a"));
    world.step(49_999);
    assert!(world.asked(&admit("p", "b")).1);
    world.step(1);
    assert!(!world.asked(&admit("p", "b")).1, "50 ms are over");
    // Now with a lease that ends earlier.
    let short = AdmitTask { lease_duration: Some(Millis(120)), ..admit("short", "holder") };
    world.asked(&short);
    world.step(100_000);
    assert!(matches!(world.asked(&admit("short", "a")).0.decision, AdmitDecision::Full { .. }));
    world.step(19_999);
    let (full, cached) = world.asked(&admit("short", "b"));
    let AdmitDecision::Full { retry_after, room_in: 1, .. } = full.decision else {
        panic!("{full:?}");
    };
    assert!(cached && retry_after.0 >= 1);
    world.step(1);
    assert!(world.asked(&admit("short", "b")).0.is_granted());
}

#[test]
fn j3_callers_of_a_large_pool_are_asked_to_retry_within_a_second_and_spread() {
    let world = World::new();
    // The pool has more holders than a refusal lists.
    let of_many = |device: &str| {
        let mut asked = admit("p", device);
        asked.settings.capacity = 200;
        asked
    };
    for holder in 0..200 {
        let lease_duration = Some(Millis(10_000));
        world.asked(&AdmitTask { lease_duration, ..of_many(&format!("h{holder}")) });
    }
    world.asked(&of_many("a"));
    world.step(40_000);
    let mut waits = Vec::new();
    for device in 0..100 {
        let (full, cached) = world.asked(&of_many(&format!("d{device}")));
        let AdmitDecision::Full { retry_after, room_in, .. } = full.decision else {
            panic!("{full:?}");
        };
        assert!(cached && room_in == 9_960_000);
        assert!((500..1000).contains(&retry_after.0), "{retry_after:?}");
        waits.push(retry_after);
    }
    waits.sort();
    waits.dedup();
    assert!(waits.len() > 50, "{waits:?}");
}

#[test]
fn a_refusal_that_was_in_flight_is_not_cached() {
    let world = World::new();
    world.fill("p");
    let late = admit("p", "late");
    let Recall::Ask(ticket) = world.denials.recall(&late, 0) else { panic!("remembered") };
    assert!(ticket.is_some());
    let full = world.store.run(&late);
    // The answer to the completion is processed first.
    world.change("p", "holder", Change::Complete);
    world.denials.learn(&late, &full, ticket);
    assert!(world.asked(&admit("p", "next")).0.is_granted());
}

#[test]
fn a_call_with_an_unknown_outcome_counts_as_executed() {
    let world = World::new();
    world.fill("p");
    world.asked(&admit("p", "a"));
    let complete = [complete("p", "holder")];
    // The caller was cancelled.
    drop(world.denials.watch(&complete));
    assert!(!world.asked(&admit("p", "b")).1);
    for error in [Error::DeadlineExceeded, Error::Corrupt(String::new())] {
        world.denials.watch(&complete).settle([Err(&error)].into_iter());
        assert!(!world.asked(&admit("p", "b")).1, "{error:?}");
        assert!(world.asked(&admit("p", "b")).1);
    }
    for error in [Error::Unavailable(String::new()), Error::Overloaded] {
        world.denials.watch(&complete).settle([Err(&error)].into_iter());
        assert!(world.asked(&admit("p", "b")).1, "{error:?}");
    }
    // An admission with an unknown outcome may have been granted.
    let lost = [admit("p", "lost")];
    drop(world.denials.watch(&lost));
    assert!(!world.asked(&admit("p", "b")).1);
    assert!(world.asked(&admit("p", "b")).1);
    assert!(!world.asked(&lost[0]).1);
}

#[test]
fn a_refusal_is_not_repeated_in_another_epoch_or_with_other_settings() {
    let world = World::new();
    world.fill("p");
    world.asked(&admit("p", "a"));
    assert!(matches!(world.denials.recall(&admit("p", "a"), 0), Recall::Denied(_)));
    assert!(matches!(world.denials.recall(&admit("p", "a"), 1), Recall::Ask(Some(_))));
    let mut other = admit("p", "a");
    other.settings.capacity += 1;
    assert!(matches!(world.denials.recall(&other, 0), Recall::Ask(Some(_))));
    let mut off = admit("p", "a");
    off.settings.denial_cache = Millis(0);
    assert!(matches!(world.denials.recall(&off, 0), Recall::Ask(None)));
}

#[test]
fn j3_a_holder_that_another_server_admitted_before_the_refusal_reaches_the_store() {
    let world = World::new();
    // Granted by a server that this one knows nothing about.
    world.store.run(&admit("p", "holder")).unwrap();
    assert!(!world.asked(&admit("p", "storm")).1 && world.asked(&admit("p", "storm 2")).1);
    let (answer, from_memory) = world.asked(&admit("p", "holder"));
    assert!(answer.is_granted() && !from_memory, "{answer:?}");
}

#[test]
fn a_task_granted_by_another_server_reaches_the_store_after_a_second() {
    let world = World::new();
    // A pool with more leases than a refusal lists, granted by a server that this one knows nothing
    // about.
    let of_many = |mut asked: AdmitTask| {
        asked.settings.capacity = 200;
        asked
    };
    (0..199).for_each(|device| {
        world.store.run(&of_many(admit("p", &format!("d{device}")))).unwrap();
    });
    let admit = |pool: &str, device: &str| of_many(admit(pool, device));
    world.store.run(&admit("p", "holder")).unwrap();
    let mut asked = 0;
    for _ in 0..100 {
        world.step(49_000);
        world.asked(&admit("p", "storm"));
        let (answer, from_memory) = world.asked(&admit("p", "holder"));
        assert_eq!(answer.is_granted(), !from_memory);
        asked += usize::from(answer.is_granted());
        if answer.is_granted() {
            break;
        }
    }
    assert_eq!(asked, 1, "within the patience");
    world.step(49_000);
    world.asked(&admit("p", "storm"));
    assert!(world.asked(&admit("p", "holder")).0.is_granted(), "known from now on");
}

/// Makes random changes through this server and through others: a cached answer equals that of the
/// store, now or within the bound.
#[test]
fn the_cache_never_grants_and_entries_never_outlive_their_bound() {
    const BOUND: u64 = 50_000;
    let mut cached = 0;
    for seed in 0..40 {
        let (world, mut random) = (World::new(), ChaCha8Rng::seed_from_u64(seed));
        let (mut foreign, mut strangers) = (None::<u64>, HashSet::new());
        for _ in 0..1000 {
            world.step(random.random_range(0..15_000));
            let now = world.now();
            let task = format!("t{}", random.random_range(0..8));
            if random.random_range(0..5) > 0 {
                let fresh = format!("fresh{now}");
                let task = if random.random_range(0..8) > 0 { fresh } else { task };
                let (answer, from_memory) = world.asked(&world.any_admit(&mut random, &task));
                if !from_memory {
                    continue;
                }
                cached += 1;
                assert!(matches!(answer.decision, AdmitDecision::Full { .. }), "{answer:?}");
                let truth = world.store.run(&admit("p", &task)).unwrap();
                let is_excused = foreign.is_some_and(|at| now - at < BOUND);
                match truth.decision {
                    AdmitDecision::Full { .. } | AdmitDecision::AlreadyCompleted => {}
                    // This server does not know grants of other servers.
                    AdmitDecision::Admitted { replayed: true, .. } if strangers.contains(&task) => {
                    }
                    _ if is_excused => {
                        strangers.insert(task);
                        foreign = Some(now);
                    }
                    _ => panic!("seed {seed}: {answer:?} from the cache, {truth:?} by the store"),
                }
            } else if random.random_range(0..8) == 0 {
                world.change_behind("p", &task, Change::any(&mut random));
                foreign = Some(now);
            } else {
                world.change("p", &task, Change::any(&mut random));
            }
        }
    }
    assert!(cached > 2000, "{cached}");
}

/// The same for rates: equal verdicts, and nothing that the store would have counted.
#[test]
fn keys_are_refused_from_the_cache_as_the_store_would() {
    const BOUND: u64 = 50_000;
    let mut cached = 0;
    for seed in 0..200 {
        let (world, mut random) = (World::new(), ChaCha8Rng::seed_from_u64(seed));
        let rules = world::rules(&mut random);
        let mut foreign = None::<u64>;
        for _ in 0..300 {
            world.step(random.random_range(0..20_000));
            let now = world.now();
            match random.random_range(0..40) {
                0 => drop(world.run(&ResetRate { name: world::meter() })),
                1 => drop(world.run(&UnbanKey { name: world::meter(), actor: Vec::new() })),
                2 => drop(world.run(&world::ban(&mut random))),
                3 => {
                    world.store.run(&UnbanKey { name: world::meter(), actor: Vec::new() }).unwrap();
                    foreign = Some(now);
                }
                _ => {
                    let check = world::check(&rules, &mut random);
                    let (checked, from_memory) = world.asked(&check);
                    if !from_memory {
                        continue;
                    }
                    cached += 1;
                    assert!(check.request.is_none());
                    let answer = decided(checked);
                    let is_excused = foreign.is_some_and(|at| now - at < BOUND);
                    assert!(!answer.is_allowed() && !answer.crossed, "{answer:?}");
                    assert!(answer.retry_after.is_some_and(|wait| wait.0 > 0), "{answer:?}");
                    let look = CheckRate { cost: 0, ..check.clone() };
                    let state = |answer: Answer| (answer.limits, answer.ban);
                    let before = state(decided(world.store.run(&look).unwrap()));
                    let truth = decided(world.store.run(&check).unwrap());
                    let has_changed = state(decided(world.store.run(&look).unwrap())) != before;
                    // The store may have a ban that no caller has seen yet.
                    let verdicts = [answer.verdict, Verdict::Ban];
                    let same = verdicts.contains(&truth.verdict) && !truth.crossed && !has_changed;
                    // After the end of the ban, only if a limit also refuses the call.
                    let since_ban = answer.ban.map(|ban| now.saturating_sub(ban.until.0));
                    let has_ended = since_ban.is_some_and(|since| (1..BOUND).contains(&since));
                    let is_excused = is_excused || has_ended && !truth.is_allowed();
                    assert!(
                        is_excused || same,
                        "seed {seed}: {truth:?} by the store for {check:?}"
                    );
                    if !same {
                        foreign = Some(now);
                    }
                }
            }
        }
    }
    assert!(cached > 5000, "{cached}");
}

fn decided(checked: CheckOutcome) -> Answer {
    match checked {
        CheckOutcome::Decided { answer, .. } => answer,
        other => panic!("{other:?}"),
    }
}

/// Grants are never cached.
#[test]
fn no_grant_is_ever_cached() {
    let world = World::new();
    let granted = world.run(&admit("p", "a"));
    assert!(granted.is_granted());
    assert_eq!(admit("p", "a").denial(&granted).map(|(_, holds)| holds), None);
    let repeat: Admission = world.run(&admit("p", "a"));
    assert!(repeat.is_granted() && admit("p", "a").denial(&repeat).is_none());
}

fn entry(since: u64, until: u64) -> CachedRefusal<u64> {
    let (since, until) = (Timestamp(since), Timestamp(until));
    CachedRefusal {
        partition: Box::default(),
        generation: 0,
        epoch: 0,
        since,
        until,
        denial: since.0,
    }
}

fn denial(refusals: &CachedRefusals<u64>, key: u64) -> Option<u64> {
    refusals.with(key, |entry| Some(entry.denial))
}

#[test]
fn a_full_shard_drops_expired_entries_and_then_the_one_that_expires_first() {
    let refusals = CachedRefusals::default();
    // All keys belong to one shard.
    for key in 0..SHARD_MAX as u64 {
        let until = if key % 2 == 0 { 100 } else { 1000 + key };
        refusals.put(key, entry(key, until), Timestamp(0));
    }
    assert_eq!(refusals.len(), SHARD_MAX);
    // A replacement needs no free space.
    refusals.put(0, entry(9999, 100), Timestamp(0));
    assert_eq!((refusals.len(), denial(&refusals, 0)), (SHARD_MAX, Some(9999)));
    refusals.put(10_000, entry(1, 1500), Timestamp(100));
    assert_eq!(refusals.len(), SHARD_MAX / 2 + 1);
    assert_eq!((denial(&refusals, 2), denial(&refusals, 1)), (None, Some(1)));
    // None is expired: the entry that expires first is dropped.
    for key in 20_000..30_000 {
        refusals.put(key, entry(key, key), Timestamp(100));
        assert!(refusals.len() <= SHARD_MAX);
    }
    assert_eq!(denial(&refusals, 10_000), None);
    assert!((30_000 - SHARD_MAX as u64..30_000).all(|key| denial(&refusals, key) == Some(key)));
}

#[test]
fn all_shards_together_are_bounded() {
    let refusals = CachedRefusals::default();
    for key in 0..100_000u64 {
        let spread = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        refusals.put(spread, entry(0, 1000), Timestamp(0));
    }
    assert!((30_000..=SHARDS * SHARD_MAX).contains(&refusals.len()), "{}", refusals.len());
}

#[test]
fn holders_are_known_until_their_lease_ends() {
    let held = Holders::default();
    let now = Timestamp(1_000_000_500);
    assert!(!held.holds(7, now));
    held.hold(7, Timestamp(1_002_000_001));
    // A shorter lease with the same slot does not shorten it.
    held.hold(7 + HOLDER_SLOTS as u64, Timestamp(1_001_000_000));
    assert!(held.holds(7, now) && held.holds(7, Timestamp(1_002_000_001)));
    assert!(!held.holds(7, Timestamp(1_003_000_000)) && !held.holds(8, now));
    (0..300_000).for_each(|slot| held.hold(slot, now));
    assert!(held.holds(7, Timestamp(1_002_000_001)));
}
