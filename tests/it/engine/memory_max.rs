//! The memory bound of the embedded engine. At the bound new names are refused, and known names
//! continue.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tollgate::server::Rules;
use tollgate_client::pb::{self, AdmitDecision, CompleteVerdict, RenewVerdict};
use tollgate_core::time::Clock;
use tollgate_engine::{
    Engine,
    embedded::{Ceiling, Embedded},
};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use crate::support::{
    farm::eventually,
    locks::{acquire, release},
    process::{Server, tollgate},
    queue::{batch, queued},
    rates::{check, limit, rule},
    sequences::next,
    stocks::{Stocks, confirm, reserve, set},
    world::{START, Time, World, admit},
};

/// The used memory that the engine of the first test measures.
static USED: AtomicU64 = AtomicU64::new(0);
const MOST: u64 = 1000;

fn is_refused(status: &Status) -> bool {
    let reason = status.get_details_error_info().map(|info| info.reason);
    status.code() == Code::ResourceExhausted
        && reason.as_deref() == Some("MEMORY_FULL")
        && status.get_details_retry_info().is_some()
}

/// Sets the used memory, and waits until the engine has measured it.
async fn use_memory(world: &World, used: u64) {
    USED.store(used, Ordering::SeqCst);
    static PROBES: AtomicU64 = AtomicU64::new(0);
    eventually("the server has measured its memory", async || {
        let probe = format!("probe {}", PROBES.fetch_add(1, Ordering::SeqCst));
        let asked = world.client.clone().admit_task(admit(&probe, "d", "t")).await;
        asked.is_err() == (used >= MOST)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn at_the_bound_new_names_are_refused_and_known_names_continue() {
    let now = Arc::new(AtomicU64::new(START));
    let ceiling = Ceiling::by(MOST, || Some(USED.load(Ordering::SeqCst)));
    let engine = Embedded::new(Clock::Stepped(now.clone())).below(Some(ceiling));
    let engine = Arc::new(Engine::Embedded(engine));
    let world = World::on(engine, Time::Embedded(now), Rules::default()).await;
    let mut stocks = Stocks::connect(world.address.clone()).await.unwrap();
    let minute = limit(5, Duration::from_secs(60), pb::Algorithm::FixedWindow);
    let rule = rule([minute]);
    world.admit("p", "d", "t").await;
    world.enqueue("p", &[("d", "queued")]).await;
    world.check("key", &rule).await;
    world.next(next("order")).await;
    world.locks.clone().acquire_lock(acquire("lock", "a")).await.unwrap();
    stocks.set_stock(set("sku", 5)).await.unwrap();
    stocks.reserve_stock(reserve("sku", "one", 1)).await.unwrap();

    use_memory(&world, MOST).await;
    let mut client = world.client.clone();
    for (pool, task) in [("p", "new"), ("new", "t")] {
        assert!(is_refused(&client.admit_task(admit(pool, "d", task)).await.unwrap_err()));
    }
    let tasks = batch("p", vec![queued("d", "new")]);
    assert!(is_refused(&client.enqueue_tasks(tasks).await.unwrap_err()));
    let checked = world.rates.clone().check_rate(check("new", &rule)).await;
    assert!(is_refused(&checked.unwrap_err()));
    let given = world.sequences.clone().next_sequence(next("new")).await;
    assert!(is_refused(&given.unwrap_err()));
    let acquired = world.locks.clone().acquire_lock(acquire("new", "a")).await;
    assert!(is_refused(&acquired.unwrap_err()));
    assert!(is_refused(&stocks.set_stock(set("new", 5)).await.unwrap_err()));
    assert!(is_refused(&stocks.reserve_stock(reserve("sku", "new", 1)).await.unwrap_err()));
    // A read creates no entry.
    assert_eq!(world.in_use("new").await, 0);

    assert!(world.admit("p", "d", "t").await.replayed);
    assert_eq!(world.renew("p", "d", "t").await.verdict(), RenewVerdict::Renewed);
    assert_eq!(world.complete("p", "d", "t").await.verdict(), CompleteVerdict::Completed);
    assert_eq!(world.report("p", "d").await.unwrap().task, "queued");
    assert!(world.check("key", &rule).await.allowed);
    assert_eq!(world.next(next("order")).await.first, 2);
    world.locks.clone().release_lock(release("lock", "a")).await.unwrap();
    world.locks.clone().acquire_lock(acquire("lock", "b")).await.unwrap();
    stocks.confirm_reservation(confirm("sku", "one")).await.unwrap();

    // Refusals end 1/16 below the bound, so that they do not alternate with grants.
    use_memory(&world, MOST / 2).await;
    assert_eq!(world.admit("new", "d", "t").await.decision(), AdmitDecision::Admitted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_stays_below_memory_max() {
    let server = Server::start(&["--memory-max", "128MiB"]).await;
    let mut client = server.client().await;
    let payload = vec![7_u8; 64 * 1024];
    let mut taken = 0;
    let refused = loop {
        let tasks = (0..48).map(|task| pb::QueuedTask {
            payload: payload.clone().into(),
            ..queued("d", &format!("{taken} {task}"))
        });
        match client.enqueue_tasks(batch("p", tasks.collect())).await {
            Ok(_) => taken += 48,
            Err(status) => break status,
        }
        assert!(taken < 10_000, "640 MB were taken");
        // Gives the server time to measure its memory.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert!(is_refused(&refused), "{refused:?}");
    assert!(taken >= 480, "{taken} tasks of 64 KiB in 128 MiB");
    // The oldest task is still dispatched with its payload.
    let dispatched = client.admit_task(admit("p", "d", "")).await.unwrap().into_inner();
    assert_eq!(dispatched.task.unwrap().payload.len(), payload.len());
    // Freed memory is returned to the system, so new names are accepted again.
    for task in 0..taken {
        let task_id = format!("{} {}", task / 48 * 48, task % 48);
        let (pool, device_id) = ("p".to_owned(), "d".to_owned());
        client.cancel_task(pb::CancelTaskRequest { pool, device_id, task_id }).await.unwrap();
    }
    eventually("new names are accepted again", async || {
        client.clone().admit_task(admit("another pool", "d", "t")).await.is_ok()
    })
    .await;
}

#[test]
fn invalid_sizes_are_named() {
    for (size, said) in [("1MiB", "32MiB or more"), ("much", "such as 512MiB")] {
        let refused = tollgate(&["serve", "--memory-max", size]).output().unwrap();
        let told = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() >= Some(64) && told.contains(said), "{told}");
    }
    let both = ["serve", "--memory-max", "1GiB", "--engine", "redis://127.0.0.1:1"];
    let refused = tollgate(&both).output().unwrap();
    assert!(String::from_utf8(refused.stderr).unwrap().contains("memory_max"));
}
