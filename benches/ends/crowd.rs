//! Leases of one pool that end together without calls: when their EXPIRED events are written, and
//! when a watcher receives them.

use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use tollgate_client::pb::{self, PoolEventKind};

use crate::{Client, Site, admit, micros, now};

const IN_FLIGHT: usize = 64;
/// Time to admit all leases, in ms.
const LEAD: u64 = 30_000;
const POOL: &str = "crowd";

pub(crate) async fn measure(site: &Site, leases: usize) {
    let client = site.clients[0].clone();
    let watching = tokio::spawn(expired(client.clone(), leases));
    let end = now() + LEAD * 1000;
    let admitted = (0..leases).map(|number| {
        let mut client = client.clone();
        async move {
            loop {
                let left = end.checked_sub(now()).expect("leases are admitted in time") / 1000;
                let request = admit(POOL, &format!("device-{number}"), "task", left.max(100));
                // A busy machine may refuse a call or answer it too late: repeat it.
                if let Ok(answer) = client.admit_task(request).await {
                    let lease = answer.into_inner().lease.unwrap();
                    return micros(&lease.expire_time.unwrap());
                }
            }
        }
    });
    let ends: Vec<u64> = stream::iter(admitted).buffer_unordered(IN_FLIGHT).collect().await;
    let (first, last) = (ends.iter().min().unwrap(), ends.iter().max().unwrap());
    assert!(now() < *first, "leases are admitted in time");
    tokio::time::sleep(Duration::from_micros(first - now())).await;
    let before = site.redis.as_ref().map(|redis| (redis.id(), processor_time(redis.id())));
    let server = processor_time(site.servers[0].id());
    let (written, mut seen) = watching.await.unwrap();
    let server = processor_time(site.servers[0].id()) - server;
    let redis = before.map(|(id, before)| processor_time(id) - before);
    seen.sort_unstable();
    let late = |at: u64| (at as f64 - *last as f64) / 1000.0;
    println!(
        "  {:10} written until {:5.0}; seen: first {:4.0}, median {:5.0}, last {:5.0}; ends within \
         {:.0}; processor time: server {:.2} s{}",
        site.label,
        late(written),
        late(seen[0]),
        late(seen[leases / 2]),
        late(seen[leases - 1]),
        (last - first) as f64 / 1000.0,
        server.as_secs_f64(),
        redis.map_or(String::new(), |time| format!(", Redis {:.2} s", time.as_secs_f64())),
    );
}

/// Returns when the last of `count` EXPIRED events was written, and when each was seen, in µs.
async fn expired(mut client: Client, count: usize) -> (u64, Vec<u64>) {
    let (mut cursor, mut written, mut seen) = (None, 0, Vec::with_capacity(count));
    while seen.len() < count {
        let request = pb::WatchPoolRequest { pool: POOL.into(), after: cursor.clone() };
        let mut events = client.watch_pool(request).await.unwrap().into_inner();
        // A watcher that was too slow continues at its cursor.
        while seen.len() < count
            && let Ok(Some(event)) = events.message().await
        {
            let event = event.event.unwrap();
            if event.kind() == PoolEventKind::Expired {
                seen.push(now());
                written = written.max(micros(event.event_time.as_ref().unwrap()));
            }
            cursor = Some(event.cursor);
        }
    }
    (written, seen)
}

/// CPU time that a process has used.
fn processor_time(id: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let fields = stat.rsplit_once(") ").unwrap().1.split(' ').skip(11).take(2);
    let ticks: u64 = fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    // Linux reports ticks of 10 ms, whatever the frequency of its timer.
    Duration::from_millis(10 * ticks)
}
