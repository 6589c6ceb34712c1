//! `names_max`, `leases_max` and `queued_max` of `[[namespace]]` on Redis. Each server counts the
//! entries of all servers, and refuses calls that would add an entry above the limit.

use std::{sync::Arc, time::Duration};

use pb::{AdmitDecision, EnqueueStatus};
use tokio::time::timeout;
use tollgate::server::Rules;
use tollgate_client::pb;
use tollgate_engine::{
    Engine,
    budget::{NamespaceUse, Total},
};
use tonic::{Code, Request, Status};

use super::limits::{assert_limit, limited, renew_and_complete};
use crate::support::{
    access::Token,
    queue::{batch, queued},
    rates::{check, configured, limit, rule},
    world::{World, admit, assert_at_limit, capacity, patient},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a condition holds.
async fn eventually(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("never: {what}"));
}

fn rules(limits: &str) -> Rules {
    configured(&format!("[[namespace]]\nmatch = \"\"\n{limits}"))
}

/// Starts another server on the Redis of a world. Also returns its engine.
async fn beside(world: &World, limits: &str) -> (World, Arc<Engine>) {
    let engine = world.time().engine_beside();
    (World::on(engine.clone(), world.time().clone(), rules(limits)).await, engine)
}

/// Returns the counts of the default namespace in this engine.
fn used(engine: &Engine) -> Arc<NamespaceUse> {
    engine.hub().namespaces().of(b"").unwrap()
}

async fn acquire(world: &World, name: &str) -> Result<(), Status> {
    let request =
        pb::AcquireLockRequest { name: name.into(), owner: "o".into(), ..Default::default() };
    world.locks.clone().acquire_lock(patient(request)).await.map(drop)
}

async fn try_admit(world: &World, pool: &str, device: &str) -> Result<(), Status> {
    let admitted = world.client.clone().admit_task(patient(admit(pool, device, "t"))).await;
    admitted.map(|response| {
        assert_eq!(response.into_inner().decision(), AdmitDecision::Admitted);
    })
}

async fn next(world: &World, name: &str) -> Result<(), Status> {
    let request = pb::NextSequenceRequest { name: name.into(), ..Default::default() };
    world.sequences.clone().next_sequence(patient(request)).await.map(drop)
}

async fn check_key(world: &World, key: &str) -> Result<(), Status> {
    let minute = Duration::from_secs(60);
    let rule = rule([limit(9, minute, pb::Algorithm::FixedWindow)]);
    world.rates.clone().check_rate(patient(check(key, &rule))).await.map(drop)
}

/// Repeats a call until it is admitted. An entry that a server adds during a count can count twice
/// until the next count.
async fn admitted(what: &str, mut call: impl AsyncFnMut() -> Result<(), Status>) {
    eventually(what, async || match call().await {
        Ok(()) => true,
        Err(refused) => {
            assert_at_limit(&refused, "NAMESPACE_LIMIT");
            false
        }
    })
    .await;
}

async fn names_have_a_limit() {
    const LIMITS: &str = "names_max = 4";
    let world = limited(true, LIMITS).await;
    acquire(&world, "l1").await.unwrap();
    admitted("the second name", async || next(&world, "s1").await).await;
    admitted("the third name", async || check_key(&world, "k1").await).await;
    admitted("the fourth name", async || try_admit(&world, "p", "d0").await).await;
    let tasks = batch("q", vec![queued("d", "1")]);
    for refused in [
        acquire(&world, "l2").await,
        next(&world, "s2").await,
        check_key(&world, "k2").await,
        try_admit(&world, "q", "d0").await,
        world.client.clone().configure_pool(patient(capacity("q", 1))).await.map(drop),
        world.client.clone().enqueue_tasks(patient(tasks)).await.map(drop),
    ] {
        assert_limit(&refused.unwrap_err(), "names_max", 4);
    }
    // Reads create nothing. Known names continue.
    assert_eq!(world.in_use("q").await, 0);
    acquire(&world, "l1").await.unwrap();
    next(&world, "s1").await.unwrap();
    check_key(&world, "k1").await.unwrap();
    try_admit(&world, "p", "d1").await.unwrap();
    renew_and_complete(&world).await;

    // Another server counts the same names, and looks up those that it does not know.
    let (other, engine) = beside(&world, LIMITS).await;
    next(&other, "s1").await.unwrap();
    eventually("the names are counted", async || used(&engine).counted(Total::Names) == 4).await;
    assert_limit(&next(&other, "s2").await.unwrap_err(), "names_max", 4);
    next(&other, "s1").await.unwrap();
    check_key(&other, "k1").await.unwrap();
    acquire(&other, "l1").await.unwrap();
    try_admit(&other, "p", "d2").await.unwrap();

    // A name without state does not count.
    world.tamper(&["DEL", "{}:{lock:l1}:lock"]).await;
    admitted("a name in place of another", async || acquire(&other, "l2").await).await;
    assert_limit(&next(&other, "s2").await.unwrap_err(), "names_max", 4);
}

async fn leases_have_a_limit() {
    const LIMITS: &str = "leases_max = 2";
    let world = limited(true, LIMITS).await;
    try_admit(&world, "p", "d0").await.unwrap();
    admitted("the second lease", async || try_admit(&world, "q", "d0").await).await;
    assert_limit(&try_admit(&world, "p", "d1").await.unwrap_err(), "leases_max", 2);
    assert!(world.admit("p", "d0", "t").await.replayed, "a repeat gets its lease");
    // PAUSED and FULL of the pool are answered as without a limit.
    world.configure(capacity("full", 0)).await;
    assert_eq!(world.admit("full", "d0", "t").await.decision(), AdmitDecision::Paused);
    world.configure(capacity("q", 1)).await;
    assert_eq!(world.admit("q", "d1", "t").await.decision(), AdmitDecision::Full);

    // Another server counts the same leases.
    let (other, engine) = beside(&world, LIMITS).await;
    assert_eq!(other.admit("full", "d0", "t").await.decision(), AdmitDecision::Paused);
    let counted = || used(&engine).counted(Total::Leases);
    eventually("the leases are counted", async || counted() == 2).await;
    assert_limit(&try_admit(&other, "p", "d1").await.unwrap_err(), "leases_max", 2);
    assert!(other.admit("p", "d0", "t").await.replayed, "a repeat gets its lease");

    renew_and_complete(&world).await;
    admitted("a lease after a result", async || try_admit(&other, "p", "d1").await).await;
    eventually("the new lease is counted", async || counted() == 2).await;
    assert_limit(&try_admit(&other, "r", "d1").await.unwrap_err(), "leases_max", 2);
    // Ended leases do not count.
    world.advance(Duration::from_secs(301)).await;
    admitted("a lease after the end of others", async || try_admit(&other, "r", "d1").await).await;
}

/// An unreadable pool does not stop the count of the other pools.
async fn an_unreadable_pool_is_left_out() {
    const LIMITS: &str = "leases_max = 5";
    let world = limited(true, LIMITS).await;
    let (other, engine) = beside(&world, LIMITS).await;
    let counted = || used(&engine).counted(Total::Leases);
    try_admit(&world, "p", "d0").await.unwrap();
    world.tamper(&["SET", "{}:{admission:broken}:leases", "x"]).await;
    let unreadable = try_admit(&other, "broken", "d0").await.unwrap_err();
    assert_eq!(unreadable.code(), Code::Internal, "{unreadable}");
    eventually("the lease is counted", async || counted() == 1).await;
    world.complete("p", "d0", "t").await;
    eventually("it is counted no longer", async || counted() == 0).await;
}

async fn enqueue(world: &World, pool: &str, task: &str) -> Result<(), Status> {
    let tasks = batch(pool, vec![queued("d", task)]);
    world.client.clone().enqueue_tasks(patient(tasks)).await.map(drop)
}

async fn cancel(world: &World, pool: &str, task: &str) {
    let (pool, device_id, task_id) = (pool.into(), "d".into(), task.into());
    let request = pb::CancelTaskRequest { pool, device_id, task_id };
    world.client.clone().cancel_task(patient(request)).await.unwrap();
}

async fn queued_tasks_have_a_limit() {
    use EnqueueStatus::{Duplicate, Full};

    const LIMITS: &str = "queued_max = 3";
    let world = limited(true, LIMITS).await;
    enqueue(&world, "q", "1").await.unwrap();
    admitted("the second task", async || enqueue(&world, "p", "1").await).await;
    admitted("the third task", async || enqueue(&world, "p", "2").await).await;
    assert_limit(&enqueue(&world, "p", "3").await.unwrap_err(), "queued_max", 3);
    let statuses = world.enqueue("p", &[("d", "1"), ("d", "3"), ("d", "2")]).await;
    assert_eq!(statuses, [Duplicate, Full, Duplicate]);

    // Another server counts the same tasks.
    let (other, engine) = beside(&world, LIMITS).await;
    assert_eq!(other.enqueue("p", &[("d", "1")]).await, [Duplicate]);
    eventually("the tasks are counted", async || used(&engine).counted(Total::Queued) == 3).await;
    assert_limit(&enqueue(&other, "p", "3").await.unwrap_err(), "queued_max", 3);

    cancel(&other, "p", "1").await;
    admitted("a task after another one", async || enqueue(&world, "p", "4").await).await;
    cancel(&world, "p", "4").await;
    admitted("a task through the other server", async || enqueue(&other, "p", "3").await).await;
}

/// Only the limited namespace is refused, and only its own leases count.
async fn another_namespace_is_unaffected() {
    let mut config = "[[namespace]]\nmatch = \"acme\"\nleases_max = 1\nnames_max = 1\n".to_owned();
    let mut bearers = Vec::new();
    for namespace in ["acme", "beta"] {
        let token = Token::new();
        config += &format!(
            "[[caller]]\nname = \"{namespace}\"\ntoken_sha256 = [\"{}\"]\n\
             allow = [\"use\"]\nnamespace = \"{namespace}\"\n",
            token.digest
        );
        bearers.push(token.bearer());
    }
    let world = World::with_rules(true, configured(&config)).await;
    let try_admit = async |caller: usize, pool: &str, device: &str| {
        let mut request: Request<_> = patient(admit(pool, device, "t"));
        request.metadata_mut().insert("authorization", bearers[caller].parse().unwrap());
        world.client.clone().admit_task(request).await.map(drop)
    };
    for device in ["d0", "d1", "d2"] {
        try_admit(1, "p", device).await.unwrap();
    }
    try_admit(0, "p", "d0").await.unwrap();
    assert_limit(&try_admit(0, "p", "d1").await.unwrap_err(), "leases_max", 1);
    assert_limit(&try_admit(0, "q", "d0").await.unwrap_err(), "names_max", 1);
    try_admit(1, "q", "d0").await.unwrap();
    try_admit(0, "p", "d0").await.unwrap();
}

mod redis {
    macro_rules! tests {
        ($($name:ident),* $(,)?) => {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name().await
            })*
        };
    }

    tests! {
        names_have_a_limit,
        leases_have_a_limit,
        queued_tasks_have_a_limit,
        an_unreadable_pool_is_left_out,
        another_namespace_is_unaffected,
    }
}
