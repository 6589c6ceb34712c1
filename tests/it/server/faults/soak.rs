//! Causes one fault after the other for `TOLLGATE_TEST_SOAK` seconds; default 60:
//!
//!     TOLLGATE_TEST_SOAK=600 ./tests/run.sh --test it soak -- --ignored --nocapture

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::support::process::TempFile;

/// Returns the length of the run, and a random source seeded by `TOLLGATE_TEST_SEED`.
fn soak() -> (Duration, ChaCha8Rng) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let length = Duration::from_secs(number("TOLLGATE_TEST_SOAK").unwrap_or(60));
    let seed = number("TOLLGATE_TEST_SEED").unwrap_or_else(rand::random);
    println!("{length:?} of faults, TOLLGATE_TEST_SEED={seed}");
    (length, ChaCha8Rng::seed_from_u64(seed))
}

/// Prints a summary. Checks that the capacity held and that no call hung.
async fn report(load: Load, faults: BTreeMap<&str, usize>, begun: Instant) {
    let history = load.end().await;
    let (calls, failed, most) = (history.seen.len(), history.failed().count(), history.most_held());
    let longest = history.seen.iter().map(|seen| seen.end - seen.start).max().unwrap();
    let took = begun.elapsed().as_secs();
    println!("{took} s, {faults:?}: {calls} calls, {failed} failed, longest {longest:?}");
    println!("at most {most} of {CAPACITY} at once");
    assert!(most <= CAPACITY && longest < load::DEADLINE + Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn soak_one_redis_that_fails_in_every_way() {
    let (length, mut random) = soak();
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    let (_server, client) = served(&format!("redis://127.0.0.1:{}", wire.port)).await;
    let (load, begun) = (Load::start(&[client], "p"), monotonic());
    let mut faults = BTreeMap::new();
    while begun.elapsed() < length {
        load.answered(random.random_range(1..2 * CALM)).await;
        let pause = Duration::from_millis(random.random_range(1..1500));
        let fault = match random.random_range(0..6) {
            0 => {
                redis.kill();
                sleep(pause).await;
                redis.start().await;
                "kill -9"
            }
            1 => {
                redis.signal("-STOP");
                sleep(pause).await;
                redis.signal("-CONT");
                "SIGSTOP"
            }
            2 => {
                // The command may fail while an earlier pause lasts.
                let _ = redis.command(&["SCRIPT", "FLUSH"]).await;
                "SCRIPT FLUSH"
            }
            3 => {
                let millis = pause.as_millis().to_string();
                let _ = redis.command(&["CLIENT", "PAUSE", &millis]).await;
                "CLIENT PAUSE"
            }
            4 => {
                wire.tear(true);
                sleep(pause).await;
                wire.tear(false);
                "torn answers"
            }
            _ => {
                wire.garble(true);
                sleep(pause).await;
                wire.garble(false);
                "garbage"
            }
        };
        *faults.entry(fault).or_default() += 1;
    }
    load.answered(CALM).await;
    report(load, faults, begun).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long"]
async fn soak_sentinels_that_fail_over_again_and_again() {
    let (length, _) = soak();
    let mut farm = Watched::start(2).await;
    // Every node that could be promoted must acknowledge the writes.
    let config = TempFile::new(&format!(
        "[[pool]]\nmatch = \"*\"\ncapacity = {CAPACITY}\nwait_replicas = 2\n"
    ));
    let server = Server::start(&["--engine", &farm.url(), "--config", config.path()]).await;
    let (load, begun) = (Load::start(&[server.client().await], "p"), monotonic());
    let mut failovers = 0;
    while begun.elapsed() < length {
        load.answered(2 * CALM).await;
        let mut leader = None;
        for node in 0..farm.nodes.len() {
            if farm.leads(node).await {
                leader = Some(node);
            }
        }
        let Some(leader) = leader else { continue };
        farm.nodes[leader].kill();
        let others = (0..farm.nodes.len()).filter(|node| *node != leader).collect::<Vec<_>>();
        eventually("a replica leads", async || {
            farm.leads(others[0]).await || farm.leads(others[1]).await
        })
        .await;
        let next = if farm.leads(others[0]).await { others[0] } else { others[1] };
        // Without this the old primary would return as an empty primary.
        let of = format!("127.0.0.1 {}", farm.nodes[next].port);
        farm.nodes[leader].restart(&["--replicaof", &of]).await;
        // The Sentinels may have chosen another node in between.
        eventually("the Sentinels agree", async || {
            farm.is_settled(0).await || farm.is_settled(1).await || farm.is_settled(2).await
        })
        .await;
        failovers += 1;
    }
    load.answered(CALM).await;
    report(load, BTreeMap::from([("failovers", failovers)]), begun).await;
}
