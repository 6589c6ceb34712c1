//! Namespaces share an engine, and nothing else: callers of several namespaces make random
//! decisions on the same names, and each sees exactly what it would see alone.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    admission::Pool,
    names::{Name, Namespace},
    time::monotonic,
};

use crate::durable::export::{history::History, sides::Side};

const STEPS: usize = 3000;
const NAMESPACES: [&str; 4] = ["", "acme", "acme-2", "b"];

#[tokio::test(flavor = "multi_thread")]
async fn each_namespace_sees_what_it_would_see_alone_embedded() {
    let start = History::new(0).now;
    let sides = (0..=NAMESPACES.len()).map(|_| Side::in_memory(start)).collect();
    separate(sides, start).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_namespace_sees_what_it_would_see_alone_redis() {
    let start = History::new(0).now;
    let mut sides = Vec::new();
    for _ in 0..=NAMESPACES.len() {
        sides.push(Side::redis(start).await);
    }
    separate(sides, start).await;
}

/// Plays the history of each namespace twice: on the last engine, which all namespaces share, and
/// in the default namespace of a separate engine. Both must have the same outcomes.
async fn separate(mut sides: Vec<Side>, start: u64) {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let shared = sides.pop().unwrap();
    let namespaces = NAMESPACES.map(|text| Namespace::parse(text.as_bytes()).unwrap());
    // Two namespaces have the same seed, so they make the same calls at different times.
    let history = |index: usize| History::new(seed + [0, 1, 1, 2][index]);
    let mut players: Vec<[History; 2]> = (0..NAMESPACES.len())
        .map(|index| [history(index).within(&namespaces[index..=index]), history(index)])
        .collect();
    let mut now = start;
    for step in 0..STEPS {
        now += [0, 0, 0, 5_000, 400_000][random.random_range(0..5)];
        let turn = random.random_range(0..NAMESPACES.len());
        let [on_shared, alone] = &mut players[turn];
        let context = format!("seed {seed}, step {step}, namespace {:?}", NAMESPACES[turn]);
        shared.set(now).await;
        sides[turn].set(now).await;
        (on_shared.now, alone.now) = (now, now);
        on_shared.step(&[&shared], &context).await;
        alone.step(&[&sides[turn]], &context).await;
        assert_eq!(on_shared.outcomes.last(), alone.outcomes.last(), "{context}");
    }
    for (index, namespace) in namespaces.iter().enumerate() {
        let of_namespace = pools(&shared, namespace, 1).await;
        assert!(!of_namespace.is_empty());
        assert!(of_namespace.iter().all(|pool| namespace.contains(pool.as_bytes())));
        let alone = pools(&sides[index], &Namespace::DEFAULT, 100).await;
        let local = |pools: &[Name]| {
            let mut names: Vec<String> = pools.iter().map(Name::to_string).collect();
            names.sort();
            names
        };
        assert_eq!(local(&of_namespace), local(&alone), "{namespace:?}");
    }
    drop(shared);
}

/// Returns the listed pools of a namespace. Fails unless all pages except the last one are full.
async fn pools(side: &Side, namespace: &Namespace, limit: u32) -> Vec<Name> {
    let (mut pools, mut after) = (Vec::new(), None);
    loop {
        let deadline = monotonic() + Duration::from_secs(60);
        let page = side.engine.partitions::<Pool>(namespace, limit, after, deadline).await.unwrap();
        pools.extend(page.names.iter().cloned());
        after = page.next;
        if after.is_none() {
            return pools;
        }
        assert_eq!(page.names.len(), limit as usize, "{namespace:?}");
    }
}
