//! Ten leases end within milliseconds of each other while twenty calls wait: how late the first ten
//! calls are admitted.

use std::time::Duration;

use hdrhistogram::Histogram;
use tollgate_client::pb;
use tonic::Request;

use crate::{Client, Site, admit, micros};

const SLOTS: u64 = 10;
/// Length of the leases in ms. All waiting calls start within it.
const LEASE: u64 = 500;
const WAIT: Duration = Duration::from_secs(30);

pub(crate) async fn measure(site: &Site, rounds: usize) {
    let mut late = Histogram::<u64>::new(3).unwrap();
    let mut last = Histogram::<u64>::new(3).unwrap();
    for round in 0..rounds {
        let all = lapse(site, &format!("pool-{round}")).await;
        all.iter().for_each(|late_by| late.record(*late_by).unwrap());
        last.record(*all.iter().max().unwrap()).unwrap();
    }
    let at = |all: &Histogram<u64>, quantile| all.value_at_quantile(quantile) as f64 / 1000.0;
    println!(
        "  {:17} p50 {:5.2}, p90 {:5.2}, p99 {:5.2}, longest {:5.2}; the latest of a round: p50 \
         {:5.2}; {rounds} rounds",
        site.label,
        at(&late, 0.5),
        at(&late, 0.9),
        at(&late, 0.99),
        at(&late, 1.0),
        at(&last, 0.5),
    );
}

/// Returns how late each waiter was admitted, in µs.
async fn lapse(site: &Site, pool: &str) -> Vec<u64> {
    let mut first = site.clients[0].clone();
    let configured = pb::ConfigurePoolRequest {
        pool: pool.into(),
        capacity: Some(SLOTS as u32),
        ..Default::default()
    };
    first.configure_pool(configured).await.unwrap();
    let mut ends = Vec::new();
    for holder in 0..SLOTS {
        let request = admit(pool, &format!("holder-{holder}"), "task", LEASE + holder);
        let lease = first.admit_task(request).await.unwrap().into_inner().lease.unwrap();
        ends.push(micros(&lease.expire_time.unwrap()));
    }
    let mut calls = Vec::new();
    for waiter in 0..2 * SLOTS {
        let client = site.clients[waiter as usize % site.clients.len()].clone();
        let waiting = waiters(&mut first, pool).await;
        calls.push(tokio::spawn(wait(client, pool.to_owned(), waiter)));
        while waiters(&mut first, pool).await == waiting {
            tokio::task::yield_now().await;
        }
    }
    let rest = calls.split_off(SLOTS as usize);
    let mut grants = Vec::new();
    for call in calls {
        grants.push(call.await.unwrap());
    }
    rest.into_iter().for_each(|call| call.abort());
    ends.sort_unstable();
    grants.sort_unstable();
    let pairs = grants.into_iter().zip(ends);
    pairs.map(|(grant, end)| grant.checked_sub(end).expect("no overlap")).collect()
}

async fn waiters(client: &mut Client, pool: &str) -> u32 {
    let view = client.get_pool(pb::GetPoolRequest { pool: pool.into() }).await.unwrap();
    view.into_inner().pool.unwrap().waiters
}

/// Waits for a slot; returns when it was granted, in µs.
async fn wait(mut client: Client, pool: String, waiter: u64) -> u64 {
    let mut request = Request::new(pb::AdmitTaskRequest {
        max_wait: Some(prost_types::Duration { seconds: WAIT.as_secs() as i64, nanos: 0 }),
        ..admit(&pool, &format!("waiter-{waiter}"), "task", 600_000)
    });
    request.set_timeout(2 * WAIT);
    let lease = client.admit_task(request).await.unwrap().into_inner().lease.unwrap();
    micros(&lease.grant_time.unwrap())
}
