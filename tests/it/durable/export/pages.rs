//! Partitions that are larger than a page of an export.

use bytes::Bytes;
use tollgate_core::{
    admission::{AdmitTask, EnqueueTask, Settings, TaskName},
    stock::{Buyer, ReserveStock, SetStock},
    time::{Clock, Millis},
};

use super::{
    archived,
    history::{agree, name},
    kept_in, same,
    sides::Side,
};
use crate::support::process::TempFolder;

/// More than two pages.
const MANY: usize = 250;
const HOUR: Millis = Millis::from_secs(3600);

#[tokio::test(flavor = "multi_thread")]
async fn large_partitions_are_exported_completely() {
    let folders = [TempFolder::new(), TempFolder::new()];
    let [folder, scratch] = &folders;
    std::fs::create_dir_all(scratch.path()).unwrap();
    let mut now = Clock::system().now().0 + HOUR.micros();
    let (redis, embedded) = (Side::redis(now).await, Side::embedded(folder, now).await);
    let sides = [&redis, &embedded];
    let settings = Settings { capacity: 1000, lease_duration: HOUR, ..Settings::default() };
    let (pool, sku, context) = (name("p"), name("tv"), "many");
    agree(&sides, &SetStock { sku: sku.clone(), on_hand: 1000 }, context).await;
    for number in 0..MANY {
        if number % 50 == 0 {
            now += 1000;
            redis.set(now).await;
            embedded.set(now).await;
        }
        let (device, task) = (name(&format!("device {number}")), Some(name("t")));
        let (lease_duration, waiting) = (None, None);
        let admit =
            AdmitTask { pool: pool.clone(), device, task, lease_duration, settings, waiting };
        agree(&sides, &admit, context).await;
        let (device, task) = (name(&format!("queue {number}")), name("t"));
        let of = TaskName { pool: pool.clone(), device, task };
        let payload = Bytes::from(vec![b'x'; 500 + number]);
        agree(&sides, &EnqueueTask { name: of, payload, ends: None, settings }, context).await;
        let buyer = Some(Buyer { name: name(&format!("buyer {number}")), limit: None });
        let order = name(&format!("order {number}"));
        let reserve = ReserveStock { sku: sku.clone(), order, quantity: 1, hold: HOUR, buyer };
        agree(&sides, &reserve, context).await;
    }
    embedded.close().await;
    let mut directory = kept_in(folder, now);
    let lines = same(&mut redis.store().await, &mut directory, scratch, now).await;
    let of = |lines: &[String], kind: &str| {
        let kind = format!("\"kind\":\"{kind}\"");
        lines.iter().filter(|line| line.contains(&kind)).count()
    };
    assert_eq!(["hold", "buyer", "order"].map(|kind| of(&lines, kind)), [MANY; 3]);
    assert_eq!(of(&lines, "task"), 2 * MANY);

    // A running lease whose record is missing is exported as a lease without retention.
    redis.remove("{admission:p}:task:device 7\x1ft").await;
    let other = archived(&mut redis.store().await, scratch, now).await;
    let changed: Vec<&String> = other.iter().filter(|line| !lines.contains(line)).collect();
    let [lost] = changed[..] else { panic!("{changed:?}") };
    let lost: serde_json::Value = serde_json::from_str(lost).unwrap();
    assert_eq!((other.len(), lost["device"].as_str()), (lines.len(), Some("device 7")));
    assert_eq!(lost["forget"], lost["slot_end"]);
    assert_eq!(lost["listed"], true);
}
