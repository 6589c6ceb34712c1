//! J14: `bytes_max` of `[[namespace]]` on both engines. A namespace cannot fill the store with the
//! records of its ended calls: results, orders, buyers, answers for repeats.

use std::time::Duration;

use pb::CompleteVerdict;
use tokio::time::timeout;
use tollgate_client::pb;
use tonic::Status;

use super::limits::{assert_limit, limited};
use crate::support::world::{World, admit, complete, patient};

const PATIENCE: Duration = Duration::from_secs(60);
const MIB: u64 = 1 << 20;
const RESULT: usize = 60_000;

/// Admits a task of a pool and completes it with a large result.
async fn complete_large(world: &World, task: &str) -> Result<(), Status> {
    let mut client = world.client.clone();
    client.admit_task(patient(admit("p", task, "t"))).await?;
    let result =
        pb::CompleteTaskRequest { result: vec![b'r'; RESULT].into(), ..complete("p", task, "t") };
    let completed = client.complete_task(patient(result)).await?.into_inner();
    assert_eq!(completed.verdict(), CompleteVerdict::Completed);
    Ok(())
}

/// Completes tasks until one is refused. Returns their number and the refusal.
async fn until_refused(world: &World) -> (usize, Status) {
    for number in 0..100 {
        if let Err(refused) = complete_large(world, &format!("d{number}")).await {
            return (number, refused);
        }
    }
    panic!("no task is refused");
}

async fn results_have_a_limit(world: World, least: usize) {
    let (completed, refused) = until_refused(&world).await;
    assert_limit(&refused, "bytes_max", MIB);
    assert!(
        (least..=17).contains(&completed),
        "{completed} results of 60 kB were stored within 1 \
        MiB"
    );
    // The task that is refused with its result can be completed without it.
    let last = format!("d{completed}");
    assert_eq!(world.complete("p", &last, "t").await.verdict(), CompleteVerdict::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn j14_results_of_a_namespace_have_a_limit_embedded() {
    let limits = "bytes_max = \"1MiB\"\nleases_max = 10";
    results_have_a_limit(limited(false, limits).await, 15).await;
}

/// A count that runs beside the calls can count some of them twice, until the next one.
#[tokio::test(flavor = "multi_thread")]
async fn j14_results_of_a_namespace_have_a_limit_redis() {
    results_have_a_limit(limited(true, "bytes_max = \"1MiB\"").await, 6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j14_the_bytes_of_expired_records_are_free_again() {
    let world = limited(false, "bytes_max = \"1MiB\"").await;
    let (completed, refused) = until_refused(&world).await;
    assert_limit(&refused, "bytes_max", MIB);
    world.complete("p", &format!("d{completed}"), "t").await;
    // A repeat is still answered.
    let repeat =
        pb::CompleteTaskRequest { result: vec![b'r'; RESULT].into(), ..complete("p", "d0", "t") };
    let repeated = world.client.clone().complete_task(patient(repeat)).await.unwrap().into_inner();
    assert_eq!(repeated.verdict(), CompleteVerdict::AlreadyCompleted);
    world.advance(Duration::from_secs(10 * 86_400)).await;
    let again = async {
        while complete_large(&world, "again").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, again).await.expect("forgotten records still count");
}
