//! H1: the Redis time of a call.
//!
//! SLOWLOG measures wall time, and on a busy machine a script may wait for a core. So calls are
//! measured in two other ways. Some tests average the processor time of Redis over similar calls.
//! Others repeat a call: a slow script call appears in SLOWLOG at each repeat, one that had to wait
//! for a core does not.

use std::{collections::BTreeMap, time::Duration};

use futures_util::{StreamExt, stream};
use pb::{EnqueueStatus, TaskState};
use tokio::time::sleep;
use tollgate_client::pb;

use super::bystander::Bystander;
use crate::support::{
    process::{OwnRedis, Server, TempFile, done},
    queue::{batch, listing},
    world::{Client, admit},
};

/// Bound on the wall time of one script call.
const CALL_MAX: Duration = Duration::from_millis(5);
/// Deadline of a call; long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Repeats of a call until none of its scripts had to wait for a core.
const TRIES: usize = 40;

/// Starts a Redis without persistence: the cost of a call must not include disk writes.
pub(super) async fn redis_in_memory() -> OwnRedis {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no", "--slowlog-log-slower-than", "5000"]).await;
    redis.command(&["CONFIG", "SET", "slowlog-max-len", "1024"]).await.unwrap();
    redis
}

/// Returns a client of a server, after the server has reached its store.
pub(super) async fn client_of(server: &Server) -> Client {
    let mut client = server.client().await;
    while client.get_pool(pb::GetPoolRequest { pool: "none".into() }).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    client
}

/// Returns a request with a deadline of [`PATIENCE`].
pub(super) fn patient<T>(message: T) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(PATIENCE);
    request
}

/// Returns a task with a payload of `bytes` bytes.
pub(super) fn large(device: &str, task: &str, bytes: usize) -> pb::QueuedTask {
    pb::QueuedTask {
        device_id: device.into(),
        task_id: task.into(),
        payload: "p".repeat(bytes).into(),
        expire_time: None,
    }
}

/// Queues `tasks` tasks with payloads of `bytes` bytes each.
async fn fill(client: &mut Client, pool: &str, tasks: usize, bytes: usize) {
    let tasks: Vec<_> = (0..tasks).map(|task| large(&format!("d{task:04}"), "t", bytes)).collect();
    for tasks in tasks.chunks(((3 << 20) / (bytes + 64)).min(1000)) {
        let request = patient(batch(pool, tasks.to_vec()));
        let results = client.enqueue_tasks(request).await.unwrap();
        let results = results.into_inner().results;
        assert!(results.iter().all(|result| result.status() == EnqueueStatus::Enqueued));
    }
}

/// Returns a section of INFO, by field.
async fn info(redis: &OwnRedis, section: &str) -> BTreeMap<String, String> {
    let text = redis.info(section).await;
    let fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Returns the number of script calls since the start of Redis.
async fn script_calls(redis: &OwnRedis) -> u64 {
    let stats = info(redis, "commandstats").await;
    let Some(calls) = stats.get("cmdstat_evalsha") else { return 0 };
    calls.strip_prefix("calls=").unwrap().split(',').next().unwrap().parse().unwrap()
}

/// Processor time that Redis has used since its start, for everything it does.
async fn processor_time(redis: &OwnRedis) -> Duration {
    let used = info(redis, "cpu").await;
    let seconds = |name: &str| used[name].parse::<f64>().unwrap();
    Duration::from_secs_f64(seconds("used_cpu_user") + seconds("used_cpu_sys"))
}

/// Runs `calls`. Returns the number of script calls, and the processor time per script call.
async fn script_costs(redis: &OwnRedis, calls: impl Future<Output = ()>) -> (u64, Duration) {
    let (before, time) = (script_calls(redis).await, processor_time(redis).await);
    calls.await;
    let number = script_calls(redis).await - before;
    assert!(number > 0, "no script was called");
    (number, (processor_time(redis).await - time) / number as u32)
}

/// Returns the script calls in SLOWLOG, by their arguments, and the wall time of each in µs.
async fn slow_scripts(redis: &OwnRedis) -> BTreeMap<String, u64> {
    let log = redis.command(&["SLOWLOG", "GET", "1024"]).await.unwrap();
    let redis::Value::Array(entries) = log else { panic!("{log:?}") };
    let scripts = entries.into_iter().filter_map(|entry| {
        let redis::Value::Array(parts) = entry else { panic!("{entry:?}") };
        let took: u64 = redis::from_redis_value(parts[2].clone()).unwrap();
        let redis::Value::Array(words) = &parts[3] else { panic!("{parts:?}") };
        let name: String = redis::from_redis_value(words[0].clone()).unwrap();
        (name.to_uppercase() == "EVALSHA").then(|| (format!("{words:?}"), took))
    });
    scripts.collect()
}

/// Repeats a call until none of its script calls took longer than 5 ms each time. Panics after
/// [`TRIES`] repeats.
async fn is_quick(redis: &OwnRedis, what: &str, mut call: impl AsyncFnMut(usize)) {
    let mut always = BTreeMap::new();
    for round in 0..TRIES {
        redis.command(&["SLOWLOG", "RESET"]).await.unwrap();
        call(round).await;
        let mut slow = slow_scripts(redis).await;
        slow.retain(|script, _| round == 0 || always.contains_key(script));
        if slow.is_empty() {
            return;
        }
        always = slow;
    }
    panic!("{what}: slow in each of {TRIES} repeats, in µs: {always:?}");
}

/// Makes 64 concurrent listings of 1,000 tasks each, as a hostile caller does.
async fn list_at_once(client: &Client, pool: &str) {
    let pages = (0..64).map(|_| {
        let mut client = client.clone();
        let request =
            pb::ListTasksRequest { page_size: Some(1000), ..listing(pool, TaskState::Unspecified) };
        async move { client.list_tasks(patient(request)).await.unwrap().into_inner() }
    });
    let pages: Vec<_> = stream::iter(pages).buffer_unordered(64).collect().await;
    for page in pages {
        assert_eq!(page.tasks.len(), 1000);
        assert_ne!(page.next_page_token, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h1_listings_of_large_tasks_delay_no_other_call() {
    let redis = redis_in_memory().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = client_of(&server).await;
    fill(&mut client, "large", 1020, 65_000).await;
    list_at_once(&client, "large").await;
    let bystander = Bystander::start(&server.address()).await;
    let (calls, each) = script_costs(&redis, list_at_once(&client, "large")).await;
    bystander.finish().await;
    assert!(each < CALL_MAX, "{calls} script calls of {each:?} each");
    // A listing shows no payloads: its scripts must not read them either.
    let mut one = client.clone();
    let page =
        pb::ListTasksRequest { page_size: Some(1000), ..listing("large", TaskState::Unspecified) };
    is_quick(&redis, "ListTasks", async |_| {
        let page = one.list_tasks(patient(page.clone())).await.unwrap().into_inner();
        assert_eq!(page.tasks.len(), 1000);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h1_listings_of_large_tasks_delay_no_other_call_embedded() {
    let server = Server::start(&[]).await;
    let mut client = client_of(&server).await;
    fill(&mut client, "large", 1020, 65_000).await;
    let bystander = Bystander::start(&server.address()).await;
    for _ in 0..4 {
        list_at_once(&client, "large").await;
    }
    bystander.finish().await;
}

/// A large payload is stored apart from the listed fields. Payloads of all sizes are dispatched
/// whole.
#[tokio::test(flavor = "multi_thread")]
async fn h1_payloads_of_all_sizes_are_dispatched() {
    let redis = redis_in_memory().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = client_of(&server).await;
    let sizes = [0, 1, 511, 512, 513, 4096, 65_536];
    for bytes in sizes {
        let tasks = vec![large("d", &format!("t{bytes}"), bytes)];
        client.enqueue_tasks(batch("p", tasks)).await.unwrap();
    }
    for bytes in sizes {
        let first = client.admit_task(admit("p", "d", "")).await.unwrap().into_inner();
        let again = client.admit_task(admit("p", "d", "")).await.unwrap().into_inner();
        let [first, again] = [first, again].map(|answer| answer.task.unwrap());
        assert_eq!((&*first.task_id, first.payload.len()), (&*format!("t{bytes}"), bytes));
        assert_eq!(first, again);
        client
            .complete_task(crate::support::world::complete("p", "d", &first.task_id))
            .await
            .unwrap();
    }
    let left = redis.command(&["HLEN", "tollgate:{admission:p}:queued"]).await.unwrap();
    assert_eq!(left, redis::Value::Int(0), "the hash of queued tasks is empty");
}

/// The largest other calls: a full page of leases, 64 views of a pool, batches of queued tasks.
#[tokio::test(flavor = "multi_thread")]
async fn h1_no_call_holds_redis_for_long() {
    let redis = redis_in_memory().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = client_of(&server).await;
    let name = |number: usize| format!("{number:0>250}");
    let mut first = client.clone();
    let configured = pb::ConfigurePoolRequest {
        pool: "leases".into(),
        capacity: Some(10_000),
        ..Default::default()
    };
    first.configure_pool(configured).await.unwrap();
    let admitted = (0..1100).map(|number| {
        let mut client = client.clone();
        let request = admit("leases", &name(number), &name(number));
        async move { client.admit_task(patient(request)).await.unwrap() }
    });
    stream::iter(admitted).buffer_unordered(64).for_each(|_| async {}).await;

    let mut one = client.clone();
    is_quick(&redis, "ListLeases", async |_| {
        let request = pb::ListLeasesRequest {
            pool: "leases".into(),
            page_size: Some(1000),
            page_token: String::new(),
        };
        assert_eq!(
            one.list_leases(patient(request)).await.unwrap().into_inner().leases.len(),
            1000
        );
    })
    .await;

    // 64 concurrent views of a pool take several script calls.
    let views = async || {
        let views = (0..64).map(|_| {
            let (mut client, request) =
                (client.clone(), pb::GetPoolRequest { pool: "leases".into() });
            async move { client.get_pool(patient(request)).await.unwrap() }
        });
        stream::iter(views).buffer_unordered(64).for_each(|_| async {}).await;
    };
    let (calls, each) = script_costs(&redis, views()).await;
    assert!(calls >= 20, "{calls} script calls");
    assert!(each < CALL_MAX, "GetPool: {calls} script calls of {each:?} each");
    is_quick(&redis, "GetPool", async |_| {
        let request = pb::GetPoolRequest { pool: "leases".into() };
        one.get_pool(patient(request)).await.unwrap();
    })
    .await;

    // A batch of 1,000 tasks, and a batch of 60 large tasks.
    for (tasks, bytes) in [(1000, 3000), (60, 65_000)] {
        let mut client = client.clone();
        let tasks = (0..tasks).map(|task| large(&name(task), &name(bytes), bytes)).collect();
        let queued = async move {
            client.enqueue_tasks(patient(batch("queued", tasks))).await.unwrap();
        };
        let (calls, each) = script_costs(&redis, queued).await;
        assert!(each < CALL_MAX, "EnqueueTasks: {calls} script calls of {each:?} each");
    }
}

/// An export reads large payloads in small pages, while a server continues to serve calls.
#[tokio::test(flavor = "multi_thread")]
async fn h1_exports_and_imports_delay_no_other_call() {
    let (redis, target) = (redis_in_memory().await, redis_in_memory().await);
    let server = Server::start(&["--engine", &redis.url()]).await;
    let mut client = client_of(&server).await;
    fill(&mut client, "large", 500, 65_000).await;
    fill(&mut client, "small", 3000, 500).await;
    let archive = TempFile::new("");
    let bystander = Bystander::start(&server.address()).await;
    let export = async || {
        let moved = ["export", "--engine", &redis.url(), "--output", archive.path()];
        assert_eq!(done(&moved).await, "");
    };
    is_quick(&redis, "export", async |_| export().await).await;
    bystander.finish().await;
    let (calls, each) = script_costs(&redis, export()).await;
    assert!(each < CALL_MAX, "export: {calls} script calls of {each:?} each");
    let import = async || {
        let moved = ["import", "--engine", &target.url(), "--replace", archive.path()];
        assert!(done(&moved).await.starts_with("imported and counted: "));
    };
    is_quick(&target, "import", async |_| import().await).await;
    let (calls, each) = script_costs(&target, import()).await;
    assert!(each < CALL_MAX, "import: {calls} script calls of {each:?} each");
}
