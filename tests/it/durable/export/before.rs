//! Files that the first version wrote, `fixtures/`: a data directory and an export of it. Every
//! version must load them.
//!
//! They contain the state after the history of [`lived`]. The test plays the same history on a
//! fresh engine. Later decisions must have equal outcomes on all engines.

use std::{fs, path::Path, sync::Arc};

use bytes::Bytes;
use tollgate::cli::transfer;
use tollgate_core::{
    admission::{
        AdmitTask, CancelTask, CompleteTask, ConfigurePool, EnqueueTask, EvictTask, GetPool,
        ListLeases, ListTasks, Outcome, Overrides, RenewTask, Settings, TaskName,
    },
    lock::{AcquireLock, GetLock, ReleaseLock},
    names::{Name, Namespace},
    rate::{
        Algorithm, BanKey, CheckRate, GetBan, IndexBan, LimitSpec, ListBans, MeterName, Rule,
        RuleSpec, TierAction, TierSpec,
    },
    sequence::{GetSequence, Layout, NextSequence, Sequence},
    stock::{
        AddStock, Buyer, CancelReservation, ConfirmReservation, GetStock, ReserveStock, SetStock,
    },
    time::{Millis, Timestamp},
};

use super::{
    history::{agree, name},
    kept_in,
    sides::Side,
};
use crate::support::process::TempFolder;

/// When the history begins, in µs: in 2090, so that nothing lapses on the clock of a Redis.
const BEGIN: u64 = 3_786_912_000_000_000;
/// When the files were written.
const END: u64 = BEGIN + 10_000_000;

const HOUR: Millis = Millis::from_secs(3600);

fn settings() -> Settings {
    Settings {
        capacity: 3,
        lease_duration: HOUR,
        expiry_grace: Millis(5000),
        retention: Millis::from_secs(7200),
        max_attempts: 2,
        ..Settings::default()
    }
}

fn pool() -> Name {
    name("ar:store-7}")
}

fn task(device: &str, task: &str) -> TaskName {
    TaskName { pool: pool(), device: name(device), task: name(task) }
}

fn admit(device: &str, task: Option<&str>) -> AdmitTask {
    let (device, task) = (name(device), task.map(name));
    let settings = settings();
    AdmitTask { pool: pool(), device, task, lease_duration: None, settings, waiting: None }
}

fn enqueue(device: &str, of: &str, payload: &[u8], ends: Option<u64>) -> EnqueueTask {
    let (payload, ends) = (Bytes::copy_from_slice(payload), ends.map(Timestamp));
    EnqueueTask { name: task(device, of), payload, ends, settings: settings() }
}

fn complete(device: &str, of: &str, outcome: Outcome, result: &'static [u8]) -> CompleteTask {
    let (name, result) = (task(device, of), Bytes::from_static(result));
    CompleteTask { name, token: None, outcome, result, settings: settings() }
}

fn renew(device: &str, of: &str) -> RenewTask {
    RenewTask { name: task(device, of), token: None, lease_duration: None, settings: settings() }
}

/// One limit of each algorithm. The first one warns above 1 and bans above 3 calls.
fn rule() -> Arc<Rule> {
    let algorithms = [
        Algorithm::FixedWindow,
        Algorithm::CalendarWindow,
        Algorithm::SlidingWindow,
        Algorithm::TokenBucket,
    ];
    let limit = |(index, algorithm): (u64, Algorithm)| LimitSpec {
        name: format!("limit-{index}").into(),
        max: Some(10 + index),
        window: Some(HOUR),
        algorithm: Some(algorithm),
        burst: None,
    };
    let tier = |above, action, ban_durations| TierSpec {
        above: Some(above),
        action: Some(action),
        ban_durations,
    };
    let tiers = vec![tier(1, TierAction::Warn, vec![]), tier(3, TierAction::Ban, vec![HOUR])];
    let limits = (0..).zip(algorithms).map(limit).collect();
    Arc::new(RuleSpec { limits, tiers, ..RuleSpec::default() }.build().unwrap())
}

fn meter(policy: Option<&str>, key: &str) -> MeterName {
    MeterName::new(policy.map(name).as_ref(), &name(key))
}

fn check(policy: Option<&str>, key: &str, request: Option<&str>) -> CheckRate {
    CheckRate { name: meter(policy, key), rule: rule(), cost: 1, request: request.map(name) }
}

fn next(sequence: &str, layout: Option<&str>, request: Option<&str>) -> NextSequence {
    let request = request.map(name);
    let (sequence, count, step) = (named(sequence, layout), 3, 2);
    let (floor, reserve, confirmed) = (None, None, None);
    NextSequence { sequence, count, step, floor, request, reserve, confirmed }
}

fn named(sequence: &str, layout: Option<&str>) -> Sequence {
    let layout = layout.map(|text| Arc::new(Layout::parse(text, 0, HOUR).unwrap()));
    Sequence::new(&name(sequence), layout)
}

const DATED: Option<&str> = Some("R-{yyyyMMdd}-{n:06}");

fn acquire(lock: &str, owner: &str) -> AcquireLock {
    AcquireLock { name: name(lock), owner: name(owner), lease_duration: HOUR, waiting: None }
}

fn reserve(order: &str, buyer: Option<&str>) -> ReserveStock {
    let buyer = buyer.map(|buyer| Buyer { name: name(buyer), limit: Some(9) });
    ReserveStock { sku: name("tv"), order: name(order), quantity: 2, hold: HOUR, buyer }
}

/// The history of the stored state, which has every kind of entry.
async fn lived(sides: &[&Side]) {
    let at = "the history";
    let mut now = BEGIN;
    // Different instants, so that no two tokens are equal.
    macro_rules! all {
        ($($decision:expr;)*) => {$(
            now += 1000;
            for side in sides {
                side.set(now).await;
            }
            agree(sides, &$decision, at).await;
        )*};
    }
    let capacity = Overrides { capacity: Some(4), paused: Some(false), ..Overrides::default() };
    let configure =
        |overrides| ConfigurePool { pool: pool(), overrides, reset: false, settings: settings() };
    let reason = Bytes::from_static(b"stuck");
    let (sku, order) = (|| name("tv"), name);
    let add = |delta, request| AddStock { sku: sku(), delta, request };
    let ban = |key| BanKey {
        name: meter(Some("reads"), key),
        duration: HOUR,
        memory: HOUR,
        reason: b"scraper".to_vec(),
        actor: b"ops".to_vec(),
    };
    all! {
        configure(capacity);
        admit("camera-1", Some("a"));
        admit("camera-1", Some("a"));
        admit("camera-2", Some("b"));
        complete("camera-2", "b", Outcome::Succeeded, b"\xff\xd8");
        admit("camera-4", Some("c"));
        EvictTask { name: task("camera-4", "c"), reason, settings: settings() };
        enqueue("camera-3", "t1", b"one", None);
        enqueue("camera-3", "t2", &[b'x'; 600], Some(BEGIN + 2 * HOUR.micros()));
        enqueue("camera-3", "t3", b"three", None);
        CancelTask { name: task("camera-3", "t3"), settings: settings() };
        admit("camera-3", None);
        renew("camera-3", "t1");
        enqueue("camera-5", "u1", b"again", None);
        admit("camera-5", None);
        complete("camera-5", "u1", Outcome::Failed, b"");
        check(Some("reads"), "ip:192.0.2.7", Some("r-1"));
        check(Some("reads"), "ip:192.0.2.7", None);
        check(Some("reads"), "user:9", None);
        ban("user:9");
        IndexBan { name: meter(Some("reads"), "user:9"), until: Timestamp(now + HOUR.micros()) };
        check(None, "user:7", Some("r-1"));
        next("order", None, Some("cart-88"));
        next("invoice", DATED, Some("cart-88"));
        acquire("nightly", "host-1");
        acquire("weekly", "host-2");
        ReleaseLock { name: name("weekly"), owner: name("host-2"), token: None };
        SetStock { sku: sku(), on_hand: 50 };
        add(3, Some(name("delivery-3")));
        reserve("o-1", Some("ann"));
        reserve("o-2", Some("ann"));
        reserve("o-3", None);
        ConfirmReservation { sku: sku(), order: order("o-2") };
        CancelReservation { sku: sku(), order: order("o-3") };
    }
}

/// The answers to later decisions.
async fn answered(sides: &[&Side], at: &str) {
    for side in sides {
        side.set(END + 2_000_000).await;
    }
    macro_rules! all {
        ($($decision:expr;)*) => {$( agree(sides, &$decision, at).await; )*};
    }
    let sku = || name("tv");
    let list = |left| ListTasks { pool: pool(), left, limit: 100, after: None };
    all! {
        GetPool { pool: pool(), settings: settings() };
        ListLeases { pool: pool(), limit: 100, after: None };
        list(false);
        list(true);
        admit("camera-1", Some("a"));
        complete("camera-2", "b", Outcome::Succeeded, b"other");
        admit("camera-4", Some("c"));
        admit("camera-3", None);
        complete("camera-3", "t1", Outcome::Succeeded, b"");
        admit("camera-3", None);
        admit("camera-5", None);
        renew("camera-1", "a");
        GetPool { pool: pool(), settings: settings() };
        check(Some("reads"), "ip:192.0.2.7", Some("r-1"));
        check(Some("reads"), "ip:192.0.2.7", None);
        check(Some("reads"), "ip:192.0.2.7", None);
        check(Some("reads"), "user:9", None);
        GetBan { name: meter(Some("reads"), "user:9") };
        ListBans {
            policy: Some(name("reads")),
            namespace: Namespace::DEFAULT,
            limit: 10,
            after: None,
        };
        check(None, "user:7", Some("r-1"));
        check(None, "user:7", None);
        next("order", None, Some("cart-88"));
        next("order", None, None);
        GetSequence { sequence: named("invoice", DATED) };
        next("invoice", DATED, Some("cart-88"));
        next("invoice", DATED, None);
        acquire("nightly", "host-3");
        GetLock { name: name("nightly") };
        ReleaseLock { name: name("weekly"), owner: name("host-2"), token: None };
        acquire("weekly", "host-3");
        AddStock { sku: sku(), delta: 3, request: Some(name("delivery-3")) };
        reserve("o-1", Some("ann"));
        ConfirmReservation { sku: sku(), order: name("o-1") };
        ConfirmReservation { sku: sku(), order: name("o-2") };
        CancelReservation { sku: sku(), order: name("o-3") };
        reserve("o-4", Some("ann"));
        GetStock { sku: sku() };
    }
}

fn fixture(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/durable/export/fixtures").join(name)
}

/// Every kind of line is in the export.
#[test]
fn the_export_of_the_first_version_has_every_kind_of_line() {
    let text = fs::read_to_string(fixture("version-1.jsonl")).unwrap();
    for kind in super::KINDS {
        assert!(text.contains(&format!("\"kind\":\"{kind}\"")), "no {kind}");
    }
}

/// The lines of the export and the entries of the directory are two forms of one state.
#[tokio::test(flavor = "multi_thread")]
async fn the_directory_of_the_first_version_is_exported_as_before() {
    let (folder, files) = (TempFolder::new(), TempFolder::new());
    let (export, copy) = (fixture("version-1.jsonl"), files.path().join("copy.jsonl"));
    for path in [folder.path(), files.path()] {
        fs::create_dir_all(path).unwrap();
    }
    fs::copy(fixture("version-1.redb"), folder.path().join("tollgate.redb")).unwrap();
    transfer::export(&mut kept_in(&folder, END), Some(&copy)).await.unwrap();
    let lines = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&copy), lines(&export));
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_first_version_are_loaded_and_answered() {
    let folders = [TempFolder::new(), TempFolder::new(), TempFolder::new()];
    let [fresh, written, imported] = &folders;
    let fresh = Side::embedded(fresh, BEGIN).await;
    lived(&[&fresh]).await;

    fs::create_dir_all(written.path()).unwrap();
    fs::copy(fixture("version-1.redb"), written.path().join("tollgate.redb")).unwrap();
    let export = fixture("version-1.jsonl");
    transfer::import(&mut kept_in(imported, END), &export, false).await.unwrap();
    let redis = Side::redis(END).await;
    transfer::import(&mut redis.store().await, &export, false).await.unwrap();

    let begin = END + 1_000_000;
    let written = Side::embedded(written, begin).await;
    let imported = Side::embedded(imported, begin).await;
    let sides = [&fresh, &written, &imported, &redis];
    answered(&sides, "after the history").await;
    fresh.close().await;
    written.close().await;
    imported.close().await;
}
