//! The history that the files of [`super::before`] contain, and decisions after it.

use std::sync::Arc;

use bytes::Bytes;
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
    sides::Side,
};

/// When the history begins, in µs: in 2090, so that nothing lapses on the clock of a Redis.
pub const BEGIN: u64 = 3_786_912_000_000_000;
/// When the files were written.
pub const END: u64 = BEGIN + 10_000_000;

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

const DATED: Option<&str> = Some("R-{yyyyMMdd}-{n:06}");

/// The decisions of a history in one namespace.
pub struct Within(pub Namespace);

impl Within {
    /// Returns the name of a partition.
    fn name(&self, text: &str) -> Name {
        name(text).within(&self.0)
    }

    fn pool(&self) -> Name {
        self.name("ar:store-7}")
    }

    fn task(&self, device: &str, task: &str) -> TaskName {
        TaskName { pool: self.pool(), device: name(device), task: name(task) }
    }

    fn admit(&self, device: &str, task: Option<&str>) -> AdmitTask {
        let (device, task) = (name(device), task.map(name));
        let settings = settings();
        AdmitTask { pool: self.pool(), device, task, lease_duration: None, settings, waiting: None }
    }

    fn enqueue(&self, device: &str, of: &str, payload: &[u8], ends: Option<u64>) -> EnqueueTask {
        let (payload, ends) = (Bytes::copy_from_slice(payload), ends.map(Timestamp));
        EnqueueTask { name: self.task(device, of), payload, ends, settings: settings() }
    }

    fn complete(
        &self,
        device: &str,
        of: &str,
        outcome: Outcome,
        result: &'static [u8],
    ) -> CompleteTask {
        let (name, result) = (self.task(device, of), Bytes::from_static(result));
        CompleteTask { name, token: None, outcome, result, settings: settings() }
    }

    fn renew(&self, device: &str, of: &str) -> RenewTask {
        RenewTask {
            name: self.task(device, of),
            token: None,
            lease_duration: None,
            settings: settings(),
        }
    }

    fn meter(&self, policy: Option<&str>, key: &str) -> MeterName {
        MeterName::new(policy.map(|policy| self.name(policy)).as_ref(), &self.name(key))
    }

    fn check(&self, policy: Option<&str>, key: &str, request: Option<&str>) -> CheckRate {
        CheckRate {
            name: self.meter(policy, key),
            rule: rule(),
            cost: 1,
            request: request.map(name),
        }
    }

    fn next(&self, sequence: &str, layout: Option<&str>, request: Option<&str>) -> NextSequence {
        let request = request.map(name);
        let (sequence, count, step) = (self.named(sequence, layout), 3, 2);
        let (floor, reserve, confirmed) = (None, None, None);
        NextSequence { sequence, count, step, floor, request, reserve, confirmed }
    }

    fn named(&self, sequence: &str, layout: Option<&str>) -> Sequence {
        let layout = layout.map(|text| Arc::new(Layout::parse(text, 0, HOUR).unwrap()));
        Sequence::new(&self.name(sequence), layout)
    }

    fn acquire(&self, lock: &str, owner: &str) -> AcquireLock {
        AcquireLock {
            name: self.name(lock),
            owner: name(owner),
            lease_duration: HOUR,
            waiting: None,
        }
    }

    fn reserve(&self, order: &str, buyer: Option<&str>) -> ReserveStock {
        let buyer = buyer.map(|buyer| Buyer { name: name(buyer), limit: Some(9) });
        ReserveStock { sku: self.name("tv"), order: name(order), quantity: 2, hold: HOUR, buyer }
    }
}

/// The history of the stored state of a namespace, which has every kind of entry.
async fn lived_within(sides: &[&Side], of: &Within, begin: u64) {
    let at = "the history";
    let mut now = begin;
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
    let configure = |overrides| ConfigurePool {
        pool: of.pool(),
        overrides,
        reset: false,
        settings: settings(),
    };
    let reason = Bytes::from_static(b"stuck");
    let (sku, order) = (|| of.name("tv"), name);
    let add = |delta, request| AddStock { sku: sku(), delta, request };
    let ban = |key| BanKey {
        name: of.meter(Some("reads"), key),
        duration: HOUR,
        memory: HOUR,
        reason: b"scraper".to_vec(),
        actor: b"ops".to_vec(),
    };
    all! {
        configure(capacity);
        of.admit("camera-1", Some("a"));
        of.admit("camera-1", Some("a"));
        of.admit("camera-2", Some("b"));
        of.complete("camera-2", "b", Outcome::Succeeded, b"\xff\xd8");
        of.admit("camera-4", Some("c"));
        EvictTask { name: of.task("camera-4", "c"), reason, settings: settings() };
        of.enqueue("camera-3", "t1", b"one", None);
        of.enqueue("camera-3", "t2", &[b'x'; 600], Some(begin + 2 * HOUR.micros()));
        of.enqueue("camera-3", "t3", b"three", None);
        CancelTask { name: of.task("camera-3", "t3"), settings: settings() };
        of.admit("camera-3", None);
        of.renew("camera-3", "t1");
        of.enqueue("camera-5", "u1", b"again", None);
        of.admit("camera-5", None);
        of.complete("camera-5", "u1", Outcome::Failed, b"");
        of.check(Some("reads"), "ip:192.0.2.7", Some("r-1"));
        of.check(Some("reads"), "ip:192.0.2.7", None);
        of.check(Some("reads"), "user:9", None);
        ban("user:9");
        IndexBan { name: of.meter(Some("reads"), "user:9"), until: Timestamp(now + HOUR.micros()) };
        of.check(None, "user:7", Some("r-1"));
        of.next("order", None, Some("cart-88"));
        of.next("invoice", DATED, Some("cart-88"));
        of.acquire("nightly", "host-1");
        of.acquire("weekly", "host-2");
        ReleaseLock { name: of.name("weekly"), owner: name("host-2"), token: None };
        SetStock { sku: sku(), on_hand: 50 };
        add(3, Some(name("delivery-3")));
        of.reserve("o-1", Some("ann"));
        of.reserve("o-2", Some("ann"));
        of.reserve("o-3", None);
        ConfirmReservation { sku: sku(), order: order("o-2") };
        CancelReservation { sku: sku(), order: order("o-3") };
    }
    if of.0 != Namespace::DEFAULT {
        // A dead task.
        all! {
            of.enqueue("camera-6", "v1", b"never", None);
            of.admit("camera-6", None);
            of.complete("camera-6", "v1", Outcome::Failed, b"");
            of.admit("camera-6", None);
            of.complete("camera-6", "v1", Outcome::Failed, b"broken");
        }
    }
}

/// The history of each namespace, one after the other.
pub async fn lived(sides: &[&Side], namespaces: &[Within]) {
    for (begin, of) in (BEGIN..END).step_by(1_000_000).zip(namespaces) {
        lived_within(sides, of, begin).await;
    }
}

/// The answers to later decisions.
pub async fn answered(sides: &[&Side], of: &Within) {
    let at = "after the history";
    macro_rules! all {
        ($($decision:expr;)*) => {$( agree(sides, &$decision, at).await; )*};
    }
    let sku = || of.name("tv");
    let list = |left| ListTasks { pool: of.pool(), left, limit: 100, after: None };
    all! {
        GetPool { pool: of.pool(), settings: settings() };
        ListLeases { pool: of.pool(), limit: 100, after: None };
        list(false);
        list(true);
        of.admit("camera-1", Some("a"));
        of.complete("camera-2", "b", Outcome::Succeeded, b"other");
        of.admit("camera-4", Some("c"));
        of.admit("camera-3", None);
        of.complete("camera-3", "t1", Outcome::Succeeded, b"");
        of.admit("camera-3", None);
        of.admit("camera-5", None);
        of.renew("camera-1", "a");
        GetPool { pool: of.pool(), settings: settings() };
        of.check(Some("reads"), "ip:192.0.2.7", Some("r-1"));
        of.check(Some("reads"), "ip:192.0.2.7", None);
        of.check(Some("reads"), "ip:192.0.2.7", None);
        of.check(Some("reads"), "user:9", None);
        GetBan { name: of.meter(Some("reads"), "user:9") };
        ListBans {
            policy: Some(of.name("reads")),
            namespace: of.0.clone(),
            limit: 10,
            after: None,
        };
        of.check(None, "user:7", Some("r-1"));
        of.check(None, "user:7", None);
        of.next("order", None, Some("cart-88"));
        of.next("order", None, None);
        GetSequence { sequence: of.named("invoice", DATED) };
        of.next("invoice", DATED, Some("cart-88"));
        of.next("invoice", DATED, None);
        of.acquire("nightly", "host-3");
        GetLock { name: of.name("nightly") };
        ReleaseLock { name: of.name("weekly"), owner: name("host-2"), token: None };
        of.acquire("weekly", "host-3");
        AddStock { sku: sku(), delta: 3, request: Some(name("delivery-3")) };
        of.reserve("o-1", Some("ann"));
        ConfirmReservation { sku: sku(), order: name("o-1") };
        ConfirmReservation { sku: sku(), order: name("o-2") };
        CancelReservation { sku: sku(), order: name("o-3") };
        of.reserve("o-4", Some("ann"));
        GetStock { sku: sku() };
    }
}
