//! Many leases and tasks that end together: one step removes only a part of them.

use super::*;
use crate::support::reread::EVERY;

/// More leases and more queued tasks end together than one step removes.
#[tokio::test]
async fn both_executors_agree_when_many_leases_end_together() {
    // With this seed a sweep has overspent its allowance before it comes to the queued tasks.
    play(&[6112374822160824639], crowd).await;
}

async fn crowd(seed: u64) {
    const DEVICES: u32 = 330;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (twins, mut pools) = (Twins::new().await, States::<Pool>::new());
    let name = |text: String| Name::parse(Bytes::from(text)).unwrap();
    let pool = name("p".to_owned());
    // Some tasks die with their leases, others are queued again.
    let max_attempts = random.random_range(1..4);
    let (history, queued_max, capacity) = (5000, 5000, DEVICES);
    let settings = Settings { history, queued_max, capacity, max_attempts, ..settings(&pool) };
    let task = |device: u32, task: &str| TaskName {
        pool: pool.clone(),
        device: name(format!("d{device}")),
        task: name(task.to_owned()),
    };
    for round in 0..4 {
        let context = format!("seed {seed}, round {round}");
        // Reading a crowd back takes long, so it is read less often while it grows.
        twins.read_back_every(5 * EVERY);
        for device in 0..DEVICES {
            for (number, ends) in [(0, 0), (1, 1), (2, 1)] {
                let name =
                    task(if number == 0 { device } else { 0 }, &format!("{device} {number}"));
                let ends = (ends > 0).then(|| Timestamp(twins.time.now() + 1_000_000));
                let payload = Bytes::from_static(b"payload");
                let enqueue = EnqueueTask { name, payload, ends, settings };
                twins.agree(&mut pools, &enqueue, &context).await;
            }
        }
        let admit = |device: u32, named: bool| {
            let TaskName { pool, device, task } = task(device, "named");
            let (lease_duration, waiting) = (Some(Millis(1000)), None);
            AdmitTask {
                pool,
                device,
                task: named.then_some(task),
                lease_duration,
                settings,
                waiting,
            }
        };
        for device in 0..DEVICES {
            let admit = admit(device, random.random_bool(0.5));
            twins.agree(&mut pools, &admit, &context).await;
        }
        twins.read_back_every(EVERY);
        twins.time.advance(2_000_000).await;
        // A capacity below the number of ended leases that have no event yet.
        let overrides =
            Overrides { capacity: Some(random.random_range(1..200)), ..Overrides::default() };
        let (name, reset) = (pool.clone(), false);
        let configure = ConfigurePool { pool: name, overrides, reset, settings };
        twins.agree(&mut pools, &configure, &context).await;
        for _ in 0..20 {
            let device = random.random_range(0..3);
            let named = random.random_bool(0.5);
            match random.random_range(0..4) {
                0 => drop(twins.agree(&mut pools, &admit(device, named), &context).await),
                1 => {
                    let (name, outcome) = (task(device, "named"), Outcome::Succeeded);
                    let (token, result) = (None, Bytes::new());
                    let complete = CompleteTask { name, token, outcome, result, settings };
                    twins.agree(&mut pools, &complete, &context).await;
                }
                2 => drop(
                    twins
                        .agree(&mut pools, &admit(random.random_range(0..DEVICES), true), &context)
                        .await,
                ),
                _ => {
                    let sweep = SweepPool { pool: pool.clone(), settings };
                    twins.agree(&mut pools, &sweep, &context).await;
                }
            }
        }
        let after = After { number: Some(0), limit: 10_000 };
        let read = ReadEvents { pool: pool.clone(), after };
        assert!(twins.agree(&mut pools, &read, &context).await.events.len() > 1000);
        let overrides = Overrides { capacity: Some(DEVICES), ..Overrides::default() };
        let (name, reset) = (pool.clone(), false);
        let configure = ConfigurePool { pool: name, overrides, reset, settings };
        twins.agree(&mut pools, &configure, &context).await;
    }
}
