//! WatchPool: a watcher receives every change of a pool, and can resume after any event, on both
//! engines.

use std::time::Duration;

use futures_util::future::join_all;
use pb::PoolEventKind;
use tokio::time::timeout;
use tollgate_client::{Connection, Watch, Watched, pb};
use tonic::{Code, Streaming};
use tonic_types::StatusExt;

use crate::support::{
    rates::configured,
    world::{self, START, World, capacity, micros},
};

const PATIENCE: Duration = Duration::from_secs(60);

on_both_engines! {
    an_event_has_the_fields_of_its_change,
    a_watch_from_now_on_gets_every_later_event,
    a_watch_resumes_after_any_cursor,
    a_gap_event_comes_before_the_stored_events,
    a_thousand_watchers_get_every_event,
    an_invalid_cursor_is_refused,
    a_watch_gets_events_of_its_pool_only,
}

/// A stream of a pool's events.
pub struct Events(Streaming<pb::WatchPoolResponse>);

impl Events {
    pub async fn watch(client: &world::Client, pool: &str, after: Option<&str>) -> Events {
        let request = pb::WatchPoolRequest { pool: pool.into(), after: after.map(str::to_owned) };
        Events(client.clone().watch_pool(request).await.unwrap().into_inner())
    }

    /// Returns the next event.
    pub async fn next(&mut self) -> pb::PoolEvent {
        self.try_next().await.expect("the stream ended")
    }

    /// Returns the next event, or the status that ends the stream.
    pub async fn try_next(&mut self) -> Result<pb::PoolEvent, tonic::Status> {
        timeout(PATIENCE, self.wait()).await.expect("no event arrived in time")
    }

    /// Like [`Events::try_next`], without a time limit.
    pub async fn wait(&mut self) -> Result<pb::PoolEvent, tonic::Status> {
        Ok(self.0.message().await?.expect("the stream ended without a status").event.unwrap())
    }

    /// Returns the status that ends the stream, after any number of events.
    pub async fn end(&mut self) -> tonic::Status {
        loop {
            if let Err(status) = self.try_next().await {
                return status;
            }
        }
    }

    /// Returns the next `number` admissions, each as its task and cursor. Other events are skipped.
    async fn admissions(&mut self, number: usize) -> Vec<(String, String)> {
        let mut admissions = Vec::new();
        while admissions.len() < number {
            let event = self.next().await;
            assert_ne!(event.kind(), PoolEventKind::Gap);
            if event.kind() == PoolEventKind::Admitted {
                admissions.push((event.task_id, event.cursor));
            }
        }
        admissions
    }
}

/// Admits tasks. Returns their ids.
async fn admit(world: &World, pool: &str, tasks: std::ops::Range<usize>) -> Vec<String> {
    let tasks: Vec<String> = tasks.map(|task| format!("t{task}")).collect();
    for task in &tasks {
        assert!(world.admit(pool, "d", task).await.lease.is_some());
    }
    tasks
}

fn tasks(admissions: &[(String, String)]) -> Vec<String> {
    admissions.iter().map(|(task, _)| task.clone()).collect()
}

async fn an_event_has_the_fields_of_its_change(world: World) {
    let mut events = Events::watch(&world.client, "p", None).await;
    world.advance(Duration::from_secs(1)).await;
    let lease = world.admit("p", "d", "t").await.lease.unwrap();
    let event = events.next().await;
    assert_eq!(event.kind(), PoolEventKind::Admitted);
    assert_eq!((&*event.device_id, &*event.task_id), ("d", "t"));
    assert_eq!((event.fencing_token, event.attempt), (lease.fencing_token, 0));
    assert_eq!((event.outcome(), event.capacity), (pb::Outcome::Unspecified, Some(60)));
    assert_eq!(micros(event.event_time), START + 1_000_000);

    // The same event from the client library.
    let connection = Connection::open(&world.address).await.unwrap();
    let mut watch =
        Watch::<pb::PoolEvent>::open(connection.clone(), "p", Some("0".to_owned())).await.unwrap();
    let Ok(Watched::Event(first)) = watch.next().await else { panic!("no event") };
    assert_eq!(first, event);
    let refused = Watch::<pb::PoolEvent>::open(connection, "", None).await.unwrap_err();
    assert_eq!(refused.code, "INVALID_ARGUMENT");
}

async fn a_watch_from_now_on_gets_every_later_event(world: World) {
    world.configure(capacity("p", 1_000_000)).await;
    let mut watchers = Vec::new();
    for round in 0..20 {
        admit(&world, "p", 10 * round..10 * round + 3).await;
        // After the answer a watcher receives every later event.
        watchers.push((round, Events::watch(&world.client, "p", None).await));
        admit(&world, "p", 10 * round + 3..10 * round + 5).await;
    }
    let expected = |from: usize| (from..20).flat_map(move |round| 10 * round..10 * round + 5);
    for (round, mut events) in watchers {
        let expected: Vec<String> =
            expected(round).skip(3).map(|task| format!("t{task}")).collect();
        assert_eq!(tasks(&events.admissions(expected.len()).await), expected);
    }
}

async fn a_watch_resumes_after_any_cursor(world: World) {
    world.configure(capacity("p", 1_000_000)).await;
    let mut live = Events::watch(&world.client, "p", None).await;
    let expected = admit(&world, "p", 0..300).await;
    let told = live.admissions(300).await;
    assert_eq!(tasks(&told), expected);
    for at in [0, 1, 128, 200, 298] {
        let mut resumed = Events::watch(&world.client, "p", Some(&told[at].1)).await;
        assert_eq!(resumed.admissions(299 - at).await, told[at + 1..], "after {at}");
    }
    drop(live);
    let mut all = Events::watch(&world.client, "p", Some("0")).await;
    assert_eq!(all.admissions(300).await, told);
    let mut last = Events::watch(&world.client, "p", Some(&told[299].1)).await;
    let next = admit(&world, "p", 300..301).await;
    assert_eq!(tasks(&last.admissions(1).await), next);
    assert_eq!(tasks(&all.admissions(1).await), next);
}

async fn a_gap_event_comes_before_the_stored_events(world: World) {
    let rules = configured("[[pool]]\nmatch = \"*\"\ncapacity = 100000\nhistory = 100\n");
    let world = World::with_rules(world.is_redis(), rules).await;
    let mut live = Events::watch(&world.client, "p", None).await;
    admit(&world, "p", 0..1).await;
    let old = live.admissions(1).await.remove(0).1;
    drop(live);
    let expected = admit(&world, "p", 1..301).await;
    let mut late = Events::watch(&world.client, "p", Some(&old)).await;
    let gap = late.next().await;
    assert_eq!(gap.kind(), PoolEventKind::Gap);
    assert!(gap.event_time.is_none() && gap.device_id.is_empty());
    let first = late.next().await;
    let skipped = expected.iter().position(|task| *task == first.task_id).unwrap();
    assert!(skipped > 0 && expected.len() - skipped >= 100, "{skipped} are lost");
    let left = expected.len() - skipped - 1;
    assert_eq!(tasks(&late.admissions(left).await), expected[skipped + 1..]);
    // A watch after the cursor of the gap begins without a gap.
    let mut resumed = Events::watch(&world.client, "p", Some(&gap.cursor)).await;
    assert_eq!(resumed.next().await, first);
    let future = format!("{}9", gap.cursor);
    let mut unknown = Events::watch(&world.client, "p", Some(&future[1..])).await;
    assert_eq!(unknown.next().await, gap);
}

async fn a_thousand_watchers_get_every_event(world: World) {
    let mut watchers = Vec::new();
    // A few at a time: each watch must begin within a second, on a busy machine too.
    for _ in 0..20 {
        let client = world.connect().await;
        let subscribe = (0..50).map(|_| Events::watch(&client, "p", None));
        watchers.extend(join_all(subscribe).await);
    }
    let expected = admit(&world, "p", 0..50).await;
    let read = watchers.into_iter().map(async |mut events| tasks(&events.admissions(50).await));
    for told in join_all(read).await {
        assert_eq!(told, expected);
    }
}

async fn an_invalid_cursor_is_refused(world: World) {
    for after in ["", "x", "-1", "+1", " 1", "1.0", "0x1", "12345678901234567", "9é"] {
        let request = pb::WatchPoolRequest { pool: String::new(), after: Some(after.to_owned()) };
        let refused = world.client.clone().watch_pool(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{after:?}");
        let details = refused.get_error_details();
        let fields = details.bad_request().unwrap().field_violations.iter();
        assert_eq!(fields.map(|bad| &*bad.field).collect::<Vec<_>>(), ["pool", "after"]);
    }
}

async fn a_watch_gets_events_of_its_pool_only(world: World) {
    let names = ["p", "p}", "p%7D", "*", "p:events"];
    let mut watchers = Vec::new();
    for pool in names {
        watchers.push(Events::watch(&world.client, pool, None).await);
    }
    for (number, pool) in names.iter().enumerate() {
        admit(&world, pool, number..number + 1).await;
    }
    for (number, events) in watchers.iter_mut().enumerate() {
        assert_eq!(tasks(&events.admissions(1).await), [format!("t{number}")]);
    }
    for pool in names {
        admit(&world, pool, 7..8).await;
    }
    for events in &mut watchers {
        assert_eq!(tasks(&events.admissions(1).await), ["t7"]);
    }
}
