use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::FutureExt;

use super::{
    super::{Ceiling, Disk, Durability},
    *,
};
use crate::Engine;
use tollgate_core::{
    names::Name,
    rate::{CheckOutcome, CheckRate, LimitSpec, Meter, MeterName, RuleSpec},
    time::{Clock, Millis, monotonic},
};

fn check(key: &str) -> CheckRate {
    let limit = LimitSpec {
        name: b"minute".to_vec(),
        max: Some(10),
        window: Some(Millis::from_secs(60)),
        algorithm: None,
        burst: None,
    };
    let rule = RuleSpec { limits: vec![limit], ..RuleSpec::default() }.build().unwrap();
    let key = Name::parse(Bytes::copy_from_slice(key.as_bytes())).unwrap();
    CheckRate { name: MeterName::new(None, &key), rule: Arc::new(rule), cost: 1, request: None }
}

fn tag_of(check: &CheckRate) -> &[u8] {
    Meter::tag(check.partition())
}

/// A run of decisions ends before the first decision of another shard, or where `take` says so.
#[test]
fn a_run_stays_within_one_shard() {
    let engine = Embedded::new(Clock::Stepped(Arc::default()));
    let run = |checks: &[CheckRate], most: usize| {
        let mut counts = Vec::new();
        let take = |outcome| {
            let Ok(CheckOutcome::Decided { answer, .. }) = outcome else { panic!("{outcome:?}") };
            counts.push(answer.limits[0].count);
            counts.len() < most
        };
        Meter::execute_run(&engine, checks, true, take).unwrap();
        counts
    };
    let checks: Vec<CheckRate> = ["a", "a", "a", "b", "a"].map(check).to_vec();
    assert_ne!(tag_of(&checks[0]), tag_of(&checks[3]));
    assert_eq!(run(&checks, 9), [1, 2, 3]);
    assert_eq!(run(&checks, 2), [4, 5]);
    assert_eq!(run(&checks[3..], 9), [1]);
    assert!(run(&[], 9).is_empty());
}

/// A run skips a shard that another thread has locked, and blocks only on request.
#[test]
fn a_run_skips_a_locked_shard() {
    let engine = Embedded::new(Clock::Stepped(Arc::default()));
    let checks = [check("a")];
    let locked = engine.shard(tag_of(&checks[0]));
    let take = |_| panic!("nothing is decided");
    assert_eq!(Meter::execute_run(&engine, &checks, false, take), None);
    drop(locked);
    assert!(Meter::execute_run(&engine, &checks, false, |outcome| outcome.is_ok()).is_some());
}

/// A decision leaves no changes to the next one of its shard, whether they were queued or dropped.
#[test]
fn the_change_buffer_of_a_shard_contains_one_decision() {
    let folder = std::env::temp_dir().join(format!("tollgate-kept-{}", std::process::id()));
    let open = || {
        let (disk, clock) = (Disk::directory(&folder).unwrap(), Clock::Stepped(Arc::default()));
        Embedded::open_unwritten(clock, disk, Durability::Always, 7).unwrap()
    };
    let (engine, mut writer) = open();
    let known = check("known");
    Meter::execute(&engine, &known).0.unwrap();
    assert!(engine.shard(tag_of(&known)).buffer.changes.row().is_empty());
    writer.write();
    drop((engine, writer));

    // The limit on memory is reached.
    let ceiling = Ceiling::by(1, || Some(2));
    ceiling.look();
    let (engine, mut writer) = open();
    let engine = engine.below(Some(ceiling));
    for number in 0..5000 {
        let new = check(&format!("new-{number}"));
        assert_eq!(Meter::execute(&engine, &new).0, Err(Error::MemoryFull));
        assert!(engine.shard(tag_of(&new)).buffer.changes.row().is_empty());
    }
    Meter::execute(&engine, &known).0.unwrap();
    writer.write();
    drop((engine, writer));

    let (engine, writer) = open();
    let keys: usize = engine.shards.iter().map(|shard| Meter::table(&mut shard.lock()).len()).sum();
    assert_eq!(keys, 1);
    drop((engine, writer));
    std::fs::remove_dir_all(folder).unwrap();
}

/// A caller's answer waits for the disk; the outcome of a heartbeat does not.
#[tokio::test]
async fn outcomes_that_no_caller_sees_do_not_wait_for_the_disk() {
    let folder = std::env::temp_dir().join(format!("tollgate-unwaited-{}", std::process::id()));
    let (disk, clock) = (Disk::directory(&folder).unwrap(), Clock::Stepped(Arc::default()));
    let (engine, writer) = Embedded::open_unwritten(clock, disk, Durability::Always, 7).unwrap();
    let (engine, checks) = (Engine::Embedded(engine), [check("key")]);
    let deadline = monotonic() + Duration::from_secs(30);
    assert!(engine.store_all(&checks, deadline).now_or_never().is_none());
    let outcomes = engine.store_unsynced(&checks, deadline).now_or_never();
    assert!(outcomes.is_some_and(|outcomes| outcomes.is_ok_and(|all| all[0].is_ok())));
    drop((engine, writer));
    std::fs::remove_dir_all(folder).unwrap();
}
