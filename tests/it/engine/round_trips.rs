//! The cost of a decision in Redis: one round trip with one EVALSHA, and nothing else.

use std::{collections::BTreeMap, time::Duration};

use tokio::{task::JoinSet, time::sleep};

use crate::support::{
    process::{OwnRedis, Server, TempFile},
    queue::{batch, queued},
    rates::{check, limit, rule, tier, under},
    wire::Wire,
    world::{Rates, admit, capacity, complete, evict, renew},
};
use tollgate_client::pb;

fn leases(pool: &str) -> pb::ListLeasesRequest {
    pb::ListLeasesRequest { pool: pool.into(), ..Default::default() }
}

/// Returns the number of calls of each command since the last CONFIG RESETSTAT.
async fn all_calls(redis: &OwnRedis) -> BTreeMap<String, u64> {
    let info = redis.command(&["INFO", "commandstats"]).await.unwrap();
    let text: String = redis::from_redis_value(info).unwrap();
    let stats = text.lines().filter_map(|line| {
        let (name, stats) = line.strip_prefix("cmdstat_")?.split_once(':')?;
        let calls = stats.strip_prefix("calls=")?.split(',').next()?.parse().ok()?;
        Some((name.to_owned(), calls))
    });
    stats.collect()
}

/// Waits until a server has asked for the sweeper, which loads that script. Then resets the
/// counters.
pub async fn reset(redis: &OwnRedis) {
    redis.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    while !all_calls(redis).await.contains_key("type") {
        sleep(Duration::from_millis(20)).await;
    }
    redis.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
}

/// Like [`all_calls`], for a Redis whose sweeper is another server, without the background calls of
/// servers. A request for the sweeper is an EVALSHA, a TYPE and a GET. A probe is an EVALSHA, a
/// TIME, a PSETEX, two GETs (of its record and of the marker of the store) and at least one INFO.
pub async fn calls(redis: &OwnRedis) -> BTreeMap<String, u64> {
    let mut stats = all_calls(redis).await;
    let probes = stats.remove("psetex").unwrap_or(0);
    let count = |command: &str| stats.get(command).copied().unwrap_or(0);
    // The script that enters a ban into the index calls TYPE, too, but not GET.
    let asked = count("type").min(count("get").saturating_sub(2 * probes));
    for (command, others) in
        [("evalsha", asked + probes), ("get", asked + 2 * probes), ("time", probes)]
    {
        if let Some(calls) = stats.remove(command).filter(|calls| *calls > others) {
            stats.insert(command.to_owned(), calls - others);
        }
    }
    stats.remove("info");
    stats
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_one_evalsha_and_nothing_else() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let config = TempFile::new("[[pool]]\nmatch = \"*\"\ndenial_cache = \"0s\"\n");
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let mut client = server.client().await;
    // Loads the scripts, opens the connections, and registers the pool in the index.
    let warm = async |client: &mut crate::support::world::Client, pool: &str, device: &str| {
        client.configure_pool(capacity(pool, 60)).await?;
        client.admit_task(admit(pool, device, "t")).await?;
        client.renew_task(renew(pool, device, "t")).await?;
        client.complete_task(complete(pool, device, "t")).await?;
        client.evict_task(evict(pool, device, "t")).await?;
        client.get_pool(pb::GetPoolRequest { pool: pool.into() }).await?;
        client.list_leases(leases(pool)).await.map(drop)
    };
    while warm(&mut client, "p", "d").await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    // The plain scripts decline a new pool, which then uses the other ones for 100 ms.
    sleep(Duration::from_millis(300)).await;
    warm(&mut client, "p", "e").await.unwrap();
    client.configure_pool(capacity("full", 1)).await.unwrap();
    client.admit_task(admit("full", "holder", "t")).await.unwrap();
    reset(&redis).await;

    let mut expected = 0;
    for round in 0..50 {
        let device = format!("d{round}");
        client.admit_task(admit("p", &device, "t")).await.unwrap();
        client.renew_task(renew("p", &device, "t")).await.unwrap();
        client.complete_task(complete("p", &device, "t")).await.unwrap();
        client.evict_task(evict("p", &device, "t")).await.unwrap();
        client.admit_task(admit("full", "refused", &device)).await.unwrap();
        client.get_pool(pb::GetPoolRequest { pool: "p".into() }).await.unwrap();
        client.list_leases(leases("p")).await.unwrap();
        expected += 7;
    }
    let calls = calls(&redis).await;
    assert_eq!(calls.get("evalsha"), Some(&expected), "{calls:?}");
    for inside in ["mget", "set", "zadd", "zcount", "zcard", "zrem", "rpush", "pexpire", "time"] {
        assert!(calls.contains_key(inside), "{inside} is not counted: {calls:?}");
    }
    for outside in ["eval", "script", "script|load"] {
        assert!(!calls.contains_key(outside), "{outside} was called: {calls:?}");
    }
    // PING, and GET of the marker of the store, come from probes, a few each second; no call needs one.
    for probe in ["ping", "get"] {
        assert!(calls.get(probe).is_none_or(|probes| *probes <= calls["evalsha"] / 4), "{calls:?}");
    }
    // The plain script declines a repeat, unless it has just declined another task of the pool.
    reset(&redis).await;
    for repeat in 0..50 {
        client.admit_task(admit("full", "holder", "t")).await.unwrap();
        let calls = self::calls(&redis).await;
        let scripts = calls.get("evalsha").copied().unwrap_or_default();
        assert!((repeat + 1..=2 * (repeat + 1)).contains(&scripts), "{calls:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_checks_take_one_round_trip() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut rates = Rates::connect(server.address()).await.unwrap();
    let minute = std::time::Duration::from_secs(60);
    let rule = rule([limit(1000, minute, pb::Algorithm::SlidingWindow)]);
    while rates.check_rate(check("warm", &rule)).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    reset(&redis).await;
    let hundred = |rule: &pb::Rule| pb::CheckRatesRequest {
        checks: (0..100).map(|i| check(&format!("key-{i}"), rule)).collect(),
    };
    for _ in 0..10 {
        let response = rates.check_rates(hundred(&rule)).await.unwrap();
        assert_eq!(response.into_inner().results.len(), 100);
        rates.check_rate(check("one", &rule)).await.unwrap();
    }
    // In two batches that are sent together, so that Redis can serve other clients in between.
    let counted = calls(&redis).await;
    assert_eq!(counted.get("evalsha"), Some(&(10 * 2 + 10)), "{counted:?}");
    // Usage and bans of a batch are read together, and each check writes its usage.
    assert_eq!(counted.get("mget"), Some(&30), "{counted:?}");
    // GET comes from probes, which read the marker of the store.
    assert!(counted.get("get").is_none_or(|gets| *gets <= 50), "{counted:?}");
    assert_eq!(counted.get("set"), Some(&1010), "{counted:?}");

    // A hundred bans are entered into the index together, too.
    let mut bans = rule.clone();
    bans.tiers = vec![tier(1, pb::TierAction::Ban, &[minute])];
    // Loads the script of a rule with tiers.
    rates.check_rate(check("warm", &bans)).await.unwrap();
    reset(&redis).await;
    let response = rates.check_rates(hundred(&bans)).await.unwrap().into_inner();
    assert!(response.results.iter().all(|result| result.crossed));
    let counted = calls(&redis).await;
    let scripts = counted["evalsha"] + counted.get("script|load").copied().unwrap_or(0);
    assert!(scripts <= 4 + 12, "{counted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_tasks_are_queued_in_one_round_trip() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let config = TempFile::new("[[pool]]\nmatch = \"*\"\ndenial_cache = \"0s\"\n");
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let mut client = server.client().await;
    let tasks = |of: &str| (0..1000).map(|i| queued(&format!("{of}{i}"), "t")).collect();
    while client.enqueue_tasks(batch("p", tasks("warm"))).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    // A device with nothing queued costs no more than a full pool.
    client.configure_pool(capacity("full", 1)).await.unwrap();
    client.admit_task(admit("full", "holder", "t")).await.unwrap();
    client.admit_task(admit("full", "refused", "t")).await.unwrap();
    client.admit_task(admit("full", "nobody", "")).await.unwrap();
    reset(&redis).await;
    client.enqueue_tasks(batch("p", tasks("d"))).await.unwrap();
    let counted = calls(&redis).await;
    // In batches of at most 64, whose declared costs stay below 3 ms, and which are sent together, so
    // that Redis can serve other clients in between.
    assert_eq!(counted.get("evalsha"), Some(&20), "{counted:?}");
    assert_eq!(counted.get("hset"), Some(&1000), "{counted:?}");

    let mut commands = Vec::new();
    for task in ["t", ""] {
        reset(&redis).await;
        client.admit_task(admit("full", "refused", task)).await.unwrap();
        let mut counted = calls(&redis).await;
        counted.retain(|command, _| !["config|resetstat", "type"].contains(&&**command));
        commands.push(counted.values().sum::<u64>());
    }
    assert!(
        commands[1] <= commands[0],
        "{commands:?} commands for a full pool, with and without a task id"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_crosses_no_level_writes_no_event() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    redis.hold_sweeper().await;
    let config = TempFile::new(
        "[[policy]]\nname = \"p\"\nlimit = [{ max = 90, window = \"1h\" }]\n\
         tier = [{ above = 80, action = \"WARN\" }]\n",
    );
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let mut rates = Rates::connect(server.address()).await.unwrap();
    while rates.check_rate(under("warm", "p")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    reset(&redis).await;
    for _ in 0..80 {
        rates.check_rate(under("k", "p")).await.unwrap();
    }
    let counted = calls(&redis).await;
    let of = |name: &str| counted.get(name).copied().unwrap_or_default();
    assert_eq!((of("evalsha"), of("mget"), of("set")), (80, 80, 80), "{counted:?}");
    let events = ["rpush", "lpush", "llen", "lindex", "ltrim", "pexpire", "get"];
    assert!(events.iter().all(|command| of(command) == 0), "{counted:?}");
    // The call that crosses the level, and later calls.
    for _ in 0..10 {
        rates.check_rate(under("k", "p")).await.unwrap();
    }
    assert_eq!(calls(&redis).await.get("rpush"), Some(&1));
}

/// A connection that a batch needs for a moment is completed and kept. Otherwise batches that overlap
/// from time to time would connect again and again.
#[tokio::test(flavor = "multi_thread")]
async fn batches_that_overlap_from_time_to_time_use_few_connections() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let wire = Wire::to(redis.port).await;
    wire.delay(Duration::from_millis(5));
    let url = format!("redis://127.0.0.1:{}", wire.port);
    let file = TempFile::new("workers = 1\n");
    let server = Server::start(&["--engine", &url, "--config", file.path()]).await;
    let mut clients = JoinSet::new();
    for number in 0..14 {
        let mut client = server.client().await;
        clients.spawn(async move {
            let mut answered = 0;
            while answered < 60 {
                // Until the server is connected, calls fail.
                answered += usize::from(client.list_leases(leases("p")).await.is_ok());
                sleep(Duration::from_millis(7 + 3 * number)).await;
            }
        });
    }
    clients.join_all().await;
    let info = redis.command(&["INFO", "stats"]).await.unwrap();
    let text: String = redis::from_redis_value(info).unwrap();
    let connections =
        text.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    let connections: usize = connections.unwrap().parse().unwrap();
    eprintln!("{connections} connections");
    assert!(connections <= 30, "{connections} connections");
}
