//! The partition index of pools: the scripts with which the sweeper reads and writes it.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    process::Stdio,
};

use tollgate_core::script::{self, Script};

use super::*;
use crate::support::process::tollgate;

/// The listings of two namespaces.
const OF_ACME: &str = "tollgate:{index:admission}:partitions:acme";
const OF_B: &str = "tollgate:{index:admission}:partitions:b";

/// The sweeper schedules three names, and `noted` is registered again. Only `vacant` leaves the
/// index.
#[tokio::test(flavor = "multi_thread")]
async fn h5_a_name_used_again_during_a_sweep_stays_in_the_index() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let mut connection = connect(&redis.url()).await.unwrap();
    let schedule = redis::Script::new(&script::index::SCHEDULE.text(None));
    let note = redis::Script::new(&script::index::REGISTER.text(None));
    let now = Clock::system().now().0;
    let (old, before) = (now - 600_000_000, now - 120_000_000);
    let mut add = redis::cmd("ZADD");
    for name in ["vacant", "noted", "held"] {
        add.arg(PARTITIONS).arg(old).arg(name);
        let _: () = add.query_async(&mut connection).await.unwrap();
        add = redis::cmd("ZADD");
    }
    let mut settled = HashMap::new();
    let kept = "tollgate:{index:admission}:kept";
    let noted: Vec<u64> = {
        let mut note = note.key(PARTITIONS);
        note.key(kept).key(ENDS).key(PARTITIONS).arg("noted").arg(0).arg(300_000);
        let (reply, _): (Vec<u64>, u64) = note.invoke_async(&mut connection).await.unwrap();
        reply
    };
    assert_eq!(noted, [0]);
    for (name, next, is_vacant) in [("vacant", 0, 1), ("noted", 0, 1), ("held", now + 1_000_000, 0)]
    {
        let mut schedule = schedule.key(PARTITIONS);
        schedule.key(ENDS).key(PARTITIONS).arg(name).arg(old).arg(next).arg(is_vacant).arg(before);
        let (reply, _): (Vec<u64>, u64) = schedule.invoke_async(&mut connection).await.unwrap();
        settled.insert(name, reply[1]);
    }
    assert_eq!((settled["vacant"], settled["noted"], settled["held"]), (1, 0, 0));
    let names: Vec<String> = redis::cmd("ZRANGE")
        .arg(PARTITIONS)
        .arg(0)
        .arg(-1)
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(names, ["held", "noted"]);
    // Registering `noted` has scheduled the next visit to it: in 300 s.
    let looks: Vec<(String, f64)> = redis::cmd("ZRANGE")
        .arg(ENDS)
        .arg(0)
        .arg(-1)
        .arg("WITHSCORES")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(looks[0], ("held".to_owned(), (now + 1_000_000) as f64));
    assert!(looks[1].0 == "noted" && looks[1].1 >= (now + 300_000_000) as f64, "{looks:?}");
    // The sweeper visits a name again that was just registered: its decision may not have run yet.
    let score: f64 = redis::cmd("ZSCORE")
        .arg(PARTITIONS)
        .arg("noted")
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut schedule = schedule.key(PARTITIONS);
    schedule.key(ENDS).key(PARTITIONS).arg("noted").arg(score).arg(0).arg(1).arg(before);
    let (reply, _): (Vec<u64>, u64) = schedule.invoke_async(&mut connection).await.unwrap();
    assert_eq!(reply, [0, 0]);
    let look: f64 =
        redis::cmd("ZSCORE").arg(ENDS).arg("noted").query_async(&mut connection).await.unwrap();
    assert_eq!(look, score + 10_000_000.0);
}

/// Runs a script of the index and returns the reply to the first item.
async fn run(
    connection: &mut MultiplexedConnection,
    script: &Script,
    keys: &[&str],
    arguments: &[&str],
) -> Vec<redis::Value> {
    let text = redis::Script::new(&script.text(None));
    let mut call = text.prepare_invoke();
    for key in keys {
        call.key(*key);
    }
    call.arg(arguments);
    let (reply, _): (Vec<redis::Value>, u64) = call.invoke_async(connection).await.unwrap();
    reply
}

/// A server that has just started to sweep cannot know yet whether a vacant name may leave the
/// index. It visits the name again once it can know, not every few seconds.
#[tokio::test(flavor = "multi_thread")]
async fn h5_a_vacant_name_is_visited_again_when_it_can_leave() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let mut connection = connect(&redis.url()).await.unwrap();
    let now = Clock::system().now().0;
    // The next visit is 150 s after the last registration; if that time has passed, 150 s from now.
    for (name, noted) in [("days ago", now - 3 * 86_400_000_000), ("lately", now - 60_000_000)] {
        let noted_at = noted.to_string();
        redis.command(&["ZADD", PARTITIONS, &noted_at, name]).await.unwrap();
        let before = (now - 86_400_000_000 * 7).to_string();
        let keys = [PARTITIONS, ENDS, PARTITIONS];
        let arguments = [name, &noted_at, "0", "1", &before];
        let reply = run(&mut connection, &script::index::SCHEDULE, &keys, &arguments).await;
        assert_eq!(reply, [redis::Value::Int(0), redis::Value::Int(0)], "{name}: it stays");
        let look: f64 =
            redis::cmd("ZSCORE").arg(ENDS).arg(name).query_async(&mut connection).await.unwrap();
        let since = if name == "lately" { noted } else { now };
        assert!(look >= (since + 150_000_000) as f64, "{name}: {look}, now {now}");
    }
}

/// Names of a namespace are in the index of all namespaces and in the zset of their own listings,
/// and leave both together. The sweeper fills a lost zset again.
#[tokio::test(flavor = "multi_thread")]
async fn names_of_a_namespace_are_listed_separately() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let mut connection = connect(&redis.url()).await.unwrap();
    let kept = "tollgate:{index:admission}:kept";
    for (name, listed) in [("acme\x1ea", OF_ACME), ("acme\x1eb", OF_ACME), ("b\x1ea", OF_B)] {
        let keys = [PARTITIONS, kept, ENDS, listed];
        run(&mut connection, &script::index::REGISTER, &keys, &[name, "0", ""]).await;
    }
    let names = async |connection: &mut MultiplexedConnection, key: &str| {
        let mut range = redis::cmd("ZRANGE");
        range.arg(key).arg(0).arg(-1);
        let mut names: Vec<String> = range.query_async(connection).await.unwrap();
        names.sort();
        names
    };
    assert_eq!(names(&mut connection, OF_ACME).await, ["acme\x1ea", "acme\x1eb"]);
    assert_eq!(names(&mut connection, OF_B).await, ["b\x1ea"]);
    assert_eq!(names(&mut connection, PARTITIONS).await.len(), 3);

    redis.command(&["DEL", OF_ACME]).await.unwrap();
    for (name, is_vacant) in [("acme\x1ea", "1"), ("acme\x1eb", "0")] {
        let mut score = redis::cmd("ZSCORE");
        let noted: f64 =
            score.arg(PARTITIONS).arg(name).query_async(&mut connection).await.unwrap();
        let before = (noted as u64 + 1).to_string();
        let arguments = [name, &(noted as u64).to_string(), "0", is_vacant, &before];
        let keys = [PARTITIONS, ENDS, OF_ACME];
        run(&mut connection, &script::index::SCHEDULE, &keys, &arguments).await;
    }
    assert_eq!(names(&mut connection, OF_ACME).await, ["acme\x1eb"]);
    assert_eq!(names(&mut connection, PARTITIONS).await, ["acme\x1eb", "b\x1ea"]);
}

/// Each script of the index deletes keys of another type and continues.
#[tokio::test(flavor = "multi_thread")]
async fn h5_each_script_of_the_index_heals_it() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let mut connection = connect(&redis.url()).await.unwrap();
    let (both, partitions) = ([PARTITIONS, ENDS], [PARTITIONS]);
    let (own, others) = ([PARTITIONS, ENDS, PARTITIONS], [PARTITIONS, ENDS, OF_ACME]);
    let calls: [(&Script, &[&str], &[&str]); 5] = [
        (&script::index::DUE, &both, &["10"]),
        (&script::index::LATEST, &partitions, &["10"]),
        (&script::index::LIST, &partitions, &["10", "", ""]),
        (&script::index::SCHEDULE, &own, &["pool", "0", "0", "0", "0"]),
        (&script::index::SCHEDULE, &others, &["acme\x1epool", "0", "0", "0", "0"]),
    ];
    for (script, keys, arguments) in calls {
        for key in keys {
            redis.command(&["SET", key, "no zset"]).await.unwrap();
        }
        let reply = run(&mut connection, script, keys, arguments).await;
        assert_eq!(reply[..2], [redis::Value::Int(0), redis::Value::Int(0)], "{}", script.name);
    }
}

/// A lease ends in time although keys of another type replace the index and no call arrives.
#[tokio::test(flavor = "multi_thread")]
async fn h5_leases_end_although_the_index_is_broken_and_nobody_calls() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = server.client().await;
    while client.clone().admit_task(short("pool", "first")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    ends_in_time(&client, "pool", 1).await;
    let mut events = Events::watch(&client, "pool", None).await;
    for (round, key) in [ENDS, PARTITIONS].into_iter().enumerate() {
        client.clone().admit_task(short("pool", &format!("broken-{round}"))).await.unwrap();
        redis.command(&["SET", key, "no zset"]).await.unwrap();
        assert_eq!(events.next().await.kind(), Kind::Admitted);
        assert_eq!(events.next().await.kind(), Kind::Expired, "{key}");
        client.clone().list_pools(pb::ListPoolsRequest::default()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_a_failing_sweeper_logs_a_warning() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    redis.command(&["SET", "tollgate:{admission:broken}:leases", "no zset"]).await.unwrap();
    redis.command(&["ZADD", PARTITIONS, "1", "broken"]).await.unwrap();
    let mut command = tollgate(&["serve", "--listen", "127.0.0.1:0", "--engine", &redis.url()]);
    command.stderr(Stdio::piped());
    let mut server = Server::spawn(command).await;
    let log = BufReader::new(server.process.0.stderr.take().unwrap());
    let warned = tokio::task::spawn_blocking(move || {
        log.lines().map_while(Result::ok).find(|line| line.contains("the sweeper failed"))
    });
    let line = tokio::time::timeout(Duration::from_secs(20), warned).await.unwrap().unwrap();
    assert!(line.as_ref().is_some_and(|line| line.contains("WARN")), "{line:?}");
    // The sweeper continues with the other pools.
    let client = server.client().await;
    ends_in_time(&client, "pool", 1).await;
}
