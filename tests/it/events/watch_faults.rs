//! Streams of events: servers that shut down, an unreachable Redis, watchers that do not read, too
//! many watchers. Events are written to Redis in the format of the scripts.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_client::pb;
use tollgate_core::time::monotonic;
use tonic::{Code, Status, transport::Channel};
use tonic_types::StatusExt;

use crate::{
    engine::round_trips::calls,
    events::{watch::Events, watch_rates},
    support::{
        process::{OwnRedis, Server, TempFile},
        requests::assert_at_limit,
        world::{Client, Rates},
    },
};

/// Watchers of one connection, below `limits.connection_streams`.
const CONNECTION_WATCHERS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(60);
const KEY: &str = "tollgate:{admission:p}:events";
/// The number before the first event.
const BASE: u64 = 1_700_000_000_000_000;

/// Appends events with these numbers, which are also their fencing tokens.
async fn append(redis: &OwnRedis, numbers: std::ops::RangeInclusive<u64>) {
    let base = BASE.to_string();
    if *numbers.start() == 1 {
        redis.command(&["RPUSH", KEY, &base]).await.unwrap();
    }
    let events: Vec<String> =
        numbers.map(|number| format!("2 {number} 0 0 60 {BASE} d\x1ft{number}")).collect();
    for some in events.chunks(1000) {
        let command = ["RPUSH", KEY].into_iter().chain(some.iter().map(|event| &**event));
        redis.command(&command.collect::<Vec<_>>()).await.unwrap();
    }
}

/// Returns the fencing tokens of the next `number` events.
async fn tokens(events: &mut Events, number: u64) -> Vec<u64> {
    let mut tokens = Vec::new();
    for _ in 0..number {
        tokens.push(events.next().await.fencing_token);
    }
    tokens
}

async fn watch(client: &Client, after: Option<&str>) -> Result<(), Status> {
    let request = pb::WatchPoolRequest { pool: "p".into(), after: after.map(str::to_owned) };
    client.clone().watch_pool(request).await.map(drop)
}

/// Returns a server and a client, after the server has answered.
async fn serve(redis: &OwnRedis, config: &str) -> (Server, Client) {
    let config = TempFile::new(config);
    let server = Server::start(&["--engine", &redis.url(), "--config", config.path()]).await;
    let client = server.client().await;
    up(&client).await;
    (server, client)
}

async fn up(client: &Client) {
    let answered = async {
        while watch(client, None).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, answered).await.expect("Redis is usable");
}

fn reason(status: &Status) -> String {
    status.get_error_details().error_info().expect("ErrorInfo in the details").reason.clone()
}

fn retry(status: &Status) -> Duration {
    let details = status.get_error_details();
    details.retry_info().expect("RetryInfo in the details").retry_delay.expect("a delay")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_watchers_cost_redis_as_much_as_one() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    // A sweep would count as well.
    redis.hold_sweeper().await;
    let (server, mut client) = serve(&redis, "").await;
    let mut watchers = Vec::new();
    for number in 1..=1000 {
        if number % CONNECTION_WATCHERS == 0 {
            client = server.client().await;
        }
        watchers.push(Events::watch(&client, "p", None).await);
    }
    redis.command(&["CONFIG", "RESETSTAT"]).await.unwrap();
    let start = monotonic();
    append(&redis, 1..=100).await;
    for events in &mut watchers {
        assert_eq!(tokens(events, 100).await, (1..=100).collect::<Vec<_>>());
    }
    let counted = calls(&redis).await;
    // One read each 100 ms, one that was in flight, and one more.
    let most = start.elapsed().as_millis() as u64 / 100 + 2;
    let reads = counted.get("evalsha").copied().unwrap_or_default();
    assert!((1..=most).contains(&reads), "{reads} reads, at most {most}: {counted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_does_not_read_is_ended_and_others_get_all_events() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (server, client) = serve(&redis, "").await;
    // A connection with a small receive window.
    let endpoint = Channel::from_shared(server.address()).unwrap();
    let narrow = endpoint.initial_stream_window_size(65_535).connect().await.unwrap();
    let mut slow = Events::watch(&Client::new(narrow), "p", None).await;
    let mut fast = Events::watch(&client, "p", None).await;
    for chunk in 0..30 {
        let (first, last) = (1000 * chunk + 1, 1000 * chunk + 1000);
        append(&redis, first..=last).await;
        assert_eq!(tokens(&mut fast, 1000).await, (first..=last).collect::<Vec<_>>());
    }
    // Events that were sent before the stream was full arrive without a gap.
    let mut seen = (0, String::new());
    let cut = loop {
        match slow.try_next().await {
            Ok(event) => {
                assert_eq!(event.fencing_token, seen.0 + 1);
                seen = (event.fencing_token, event.cursor);
            }
            Err(status) => break status,
        }
    };
    assert_eq!(cut.code(), Code::ResourceExhausted, "{cut:?}");
    assert_eq!(reason(&cut), "WATCHER_TOO_SLOW");
    assert!(retry(&cut) > Duration::ZERO && cut.message().contains("after"), "{cut:?}");
    // A watch after its last cursor continues.
    let mut resumed = Events::watch(&client, "p", Some(&seen.1)).await;
    assert_eq!(tokens(&mut resumed, 2000).await, (seen.0 + 1..=seen.0 + 2000).collect::<Vec<_>>());
    append(&redis, 30_001..=30_001).await;
    assert_eq!(tokens(&mut fast, 1).await, [30_001]);
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_continue_after_an_outage_of_redis() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (_server, client) = serve(&redis, "").await;
    let mut live = Events::watch(&client, "p", None).await;
    append(&redis, 1..=10).await;
    assert_eq!(tokens(&mut live, 10).await, (1..=10).collect::<Vec<_>>());

    redis.kill();
    let refused = async {
        loop {
            match watch(&client, None).await {
                // The call that detects the failure cannot know whether it was executed.
                Err(status) if status.code() == Code::Unavailable => break status,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let refused = timeout(PATIENCE, refused).await.unwrap();
    assert!(retry(&refused) > Duration::ZERO);
    redis.start().await;
    append(&redis, 11..=20).await;
    assert_eq!(tokens(&mut live, 10).await, (11..=20).collect::<Vec<_>>());

    // Redis without its history.
    redis.kill();
    redis.start_with(&["--appendonly", "no"]).await;
    up(&client).await;
    append(&redis, 1..=5).await;
    assert_eq!(live.next().await.kind(), pb::PoolEventKind::Gap);
    let mut seen = 0;
    while seen < 5 {
        // The server may have read the new history before it was complete.
        seen = live.next().await.fencing_token.max(seen);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_server_ends_its_streams_first() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let config = "drain_timeout = \"1h\"\n\
                  [[policy]]\nname = \"p\"\nlimit = [{ max = 1, window = \"1m\" }]\n";
    let (mut server, client) = serve(&redis, config).await;
    let mut streams = Vec::new();
    for after in [None, Some("0"), Some("1")] {
        streams.push(Events::watch(&client, "p", after).await);
    }
    let mut other = Events::watch(&client, "another", None).await;
    let rates = Rates::connect(server.address()).await.unwrap();
    let mut rates = watch_rates::Events::watch(&rates, "p", None).await;
    server.process.signal("-TERM");
    let mut ends = vec![rates.try_next().await.unwrap_err()];
    for stream in streams.iter_mut().chain([&mut other]) {
        ends.push(stream.end().await);
    }
    for end in ends {
        assert_eq!(end.code(), Code::Unavailable, "{end:?}");
        assert_eq!(reason(&end), "SERVER_ENDING");
        assert!(retry(&end) > Duration::ZERO);
    }
    assert_eq!(server.process.end(PATIENCE).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_history_ends_the_streams_of_its_pool_only() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (_server, client) = serve(&redis, "").await;
    let mut live = Events::watch(&client, "p", None).await;
    let mut other = Events::watch(&client, "another", None).await;
    redis.command(&["RPUSH", KEY, "no number"]).await.unwrap();
    assert_eq!(live.end().await.code(), Code::Internal);
    assert_eq!(watch(&client, Some("0")).await.unwrap_err().code(), Code::Internal);
    redis.command(&["DEL", KEY]).await.unwrap();
    append(&redis, 1..=1).await;
    let mut again = Events::watch(&client, "p", Some("0")).await;
    assert_eq!(tokens(&mut again, 1).await, [1]);
    // An invalid event among valid ones.
    redis.command(&["RPUSH", KEY, "99 1 0 0  1 d\x1ft"]).await.unwrap();
    assert_eq!(again.end().await.code(), Code::Internal);
    let key = "tollgate:{admission:another}:events";
    redis.command(&["RPUSH", key, "5", "10 0 0 0 7 5 "]).await.unwrap();
    let configured = other.next().await;
    assert_eq!((configured.kind(), configured.capacity), (pb::PoolEventKind::Configured, Some(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn h26_watchers_above_the_limit_are_refused() {
    let config = TempFile::new("[limits]\nwatchers = 10\n");
    let server = Server::start(&["--config", config.path()]).await;
    let clients = [server.client().await, server.client().await];
    let mut watchers = Vec::new();
    for number in 0..10 {
        watchers.push(Events::watch(&clients[number % 2], "p", None).await);
    }
    let client = server.client().await;
    assert_at_limit(&watch(&client, None).await.unwrap_err(), "TOO_MANY_WATCHERS");
    // After a watcher has left, another one is accepted.
    watchers.pop();
    up(&client).await;
}
