//! The sweeper: H5 (millions of pool names) and H22 (many leases that end together).

mod index;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use pb::PoolEventKind as Kind;
use redis::aio::MultiplexedConnection;
use tokio::{
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tollgate_client::pb;
use tollgate_core::{
    admission::{AdmitTask, ReadEvents, Settings, SweepPool},
    collections::After,
    names::Name,
    time::{Clock, Millis, monotonic},
};
use tollgate_engine::{
    Engine,
    embedded::{Disk, Durability, Embedded},
};

use super::{
    bystander::Bystander,
    memory::{BUDGET, resident},
};
use crate::{
    events::watch::Events,
    support::{
        nodes::Nodes,
        process::{OwnRedis, Server, TempFolder, connect},
        requests::{capacity, duration, patient},
        world::{Client, START, Time, admit, embedded_engine, redis_engine, redis_engine_at, up},
    },
};

/// Number of leases that end together.
const CROWD: usize = 10_000;
/// The machine may stall for a while.
const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(10);
/// The default length of a lease, plus one second.
const LEASE: Duration = Duration::from_secs(301);
/// The clock stops at this time, two seconds after the end of the leases. Work that is scheduled
/// for later does not begin, so each lease must end within two seconds.
const IN_TIME: Duration = Duration::from_secs(1);
/// The same limit after Redis was silent.
const AFTER_SILENCE: Duration = Duration::from_secs(8);
const PARTITIONS: &str = "tollgate:{index:admission}:partitions";
const ENDS: &str = "tollgate:{index:admission}:ends";
const NAMES: u64 = 3_000_000;

fn settings(capacity: u32) -> Settings {
    Settings { capacity, history: 200_000, ..Settings::default() }
}

fn name(text: &str) -> Name {
    Name::parse(text.to_owned().into()).unwrap()
}

fn maintain(engine: &Arc<Engine>) -> JoinHandle<()> {
    let engine = engine.clone();
    tokio::spawn(async move {
        let sweep = engine.sweep(|pool| SweepPool { pool, settings: settings(1) });
        tokio::join!(engine.maintain(), sweep);
    })
}

/// Admits `tasks` tasks while the clock stands still.
async fn admit_all(
    engine: &Engine,
    pool: impl Fn(usize) -> String,
    tasks: usize,
    lease: Option<Duration>,
) {
    for first in (0..tasks).step_by(1000) {
        let task = |number: usize| AdmitTask {
            pool: name(&pool(number)),
            device: name(&format!("device-{number}")),
            task: Some(name("task")),
            lease_duration: lease.map(|lease| Millis(lease.as_millis() as u64)),
            settings: settings(tasks as u32),
            waiting: None,
        };
        let decisions: Vec<AdmitTask> = (first..tasks.min(first + 1000)).map(task).collect();
        let answers = engine.store_all(&decisions, monotonic() + PATIENCE).await.unwrap();
        assert!(answers.iter().all(|answer| answer.as_ref().unwrap().is_granted()));
    }
}

/// Returns the number of a pool's last event. The read itself ends no lease.
async fn last_event(engine: &Engine, pool: &str) -> u64 {
    let read = ReadEvents { pool: name(pool), after: After { number: None, limit: 1 } };
    engine.store(&read, monotonic() + PATIENCE).await.unwrap().last
}

/// Steps the time beyond all leases, and waits until the pool has `tasks` further events.
async fn outlive(engine: &Engine, time: &Time, pool: &str, tasks: usize) {
    let before = last_event(engine, pool).await;
    time.advance(LEASE.as_micros() as u64).await;
    let begin = monotonic();
    reach(engine, time, pool, before + tasks as u64, IN_TIME).await;
    eprintln!("{tasks} leases: the last event after {:?}", begin.elapsed());
}

/// Advances the clock by `left` in small steps, and waits until the pool has event number `event`.
async fn reach(engine: &Engine, time: &Time, pool: &str, event: u64, mut left: Duration) {
    let begin = monotonic();
    while last_event(engine, pool).await < event {
        assert!(begin.elapsed() < PATIENCE, "{pool}: event {event} does not arrive");
        sleep(STEP).await;
        if left > Duration::ZERO {
            time.advance(STEP.as_micros() as u64).await;
            left -= STEP;
        }
    }
}

/// Many leases end at the same moment while no calls arrive. The sweeper must end them in time.
async fn end_a_crowd(engine: Arc<Engine>, time: Time, tasks: usize) {
    admit_all(&engine, |_| "crowd".to_owned(), tasks, None).await;
    let maintenance = maintain(&engine);
    outlive(&engine, &time, "crowd", tasks).await;
    maintenance.abort();
}

async fn end_a_crowd_on_disk(durability: Durability) {
    let (folder, now) = (TempFolder::new(), Arc::new(AtomicU64::new(START)));
    let disk = Disk::directory(folder.path()).unwrap();
    let engine = Embedded::open(Clock::Stepped(now.clone()), disk, durability).unwrap();
    end_a_crowd(Arc::new(Engine::Embedded(engine)), Time::Embedded(now), CROWD).await;
}

/// The speed of a sweep does not depend on the disk, which syncs nothing here.
#[tokio::test(flavor = "multi_thread")]
async fn h22_a_sweep_of_many_leases_does_not_wait_for_the_disk() {
    const TASKS: usize = 1000;
    let (folder, now) = (TempFolder::new(), Arc::new(AtomicU64::new(START)));
    let disk = Disk::directory(folder.path()).unwrap();
    let clock = Clock::Stepped(now.clone());
    let (engine, mut writer) =
        Embedded::open_unwritten(clock, disk, Durability::Always, 1).unwrap();
    let (engine, is_admitted) =
        (Arc::new(Engine::Embedded(engine)), Arc::new(AtomicBool::new(false)));
    let stop = is_admitted.clone();
    let writing = tokio::task::spawn_blocking(move || {
        while !stop.load(Ordering::SeqCst) {
            writer.write();
        }
        writer
    });
    let leases = Duration::from_secs(1);
    admit_all(&engine, |_| "crowd".to_owned(), TASKS, Some(leases)).await;
    is_admitted.store(true, Ordering::SeqCst);
    let _writer = writing.await.unwrap();
    let Engine::Embedded(embedded) = &*engine else { unreachable!() };
    let read = ReadEvents { pool: name("crowd"), after: After { number: None, limit: 1 } };
    let before = embedded.run(&read).unwrap().last;
    let maintenance = maintain(&engine);
    now.fetch_add(leases.as_micros() as u64, Ordering::SeqCst);
    let begin = monotonic();
    while embedded.run(&read).unwrap().last < before + TASKS as u64 {
        assert!(begin.elapsed() < PATIENCE, "the sweep waits for the disk");
        sleep(Duration::from_millis(10)).await;
    }
    maintenance.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn h22_many_leases_end_in_time_with_durability_always() {
    end_a_crowd_on_disk(Durability::Always).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h22_many_leases_end_in_time_with_durability_interval() {
    end_a_crowd_on_disk(Durability::Interval).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h22_many_leases_end_in_time_in_memory() {
    let (engine, time) = embedded_engine();
    end_a_crowd(engine, time, CROWD).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h22_many_leases_end_in_time_on_redis() {
    let (engine, time) = redis_engine().await;
    let begin = engine.clone();
    let beside = tokio::spawn(async move { begin.maintain().await });
    up(engine.state()).await;
    beside.abort();
    let _ = beside.await;
    end_a_crowd(engine, time, CROWD).await;
}

/// A step of the sweep fails because Redis is silent for longer than the sweeper waits. The sweeper
/// must return to the pool in time.
#[tokio::test(flavor = "multi_thread")]
async fn h22_many_leases_end_in_time_after_a_silence_of_redis() {
    // More leases than the sweeper ends within `PATIENCE` if each pass takes only one step.
    const TASKS: usize = 2 * CROWD;
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let (engine, time) = redis_engine_at(&redis.url(), Nodes::at(&redis.url()).await).await;
    let maintenance = maintain(&engine);
    up(engine.state()).await;
    admit_all(&engine, |_| "crowd".to_owned(), TASKS, None).await;
    let before = last_event(&engine, "crowd").await;
    time.advance(LEASE.as_micros() as u64).await;
    reach(&engine, &time, "crowd", before + 1, IN_TIME).await;
    redis.signal("-STOP");
    sleep(Duration::from_secs(3)).await;
    redis.signal("-CONT");
    up(engine.state()).await;
    reach(&engine, &time, "crowd", before + TASKS as u64, AFTER_SILENCE).await;
    maintenance.abort();
}

/// The leases of one caller end together; another caller does not notice.
#[tokio::test(flavor = "multi_thread")]
async fn h22_leases_that_end_together_delay_no_other_caller() {
    const TASKS: usize = 4000;
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    for engine in ["embedded", &redis.url()] {
        let server = Server::start(&["--engine", engine]).await;
        let client = server.client().await;
        while client.clone().configure_pool(capacity("crowd", TASKS as u32)).await.is_err() {
            sleep(Duration::from_millis(20)).await;
        }
        let bystander = Bystander::start(&server.address()).await;
        let mut events = Events::watch(&client, "crowd", None).await;
        let mut tasks = JoinSet::new();
        for number in 0..TASKS {
            let mut client = client.clone();
            let lease_duration = Some(duration(Duration::from_secs(3)));
            let task = admit("crowd", &format!("device-{number}"), "task");
            let task = pb::AdmitTaskRequest { lease_duration, ..task };
            tasks.spawn(async move { client.admit_task(patient(task)).await.unwrap() });
        }
        tasks.join_all().await;
        let mut ended = 0;
        while ended < TASKS {
            ended += usize::from(events.next().await.kind() == Kind::Expired);
        }
        bystander.finish().await;
    }
}

/// Many pools with one lease each: the sweeper ends each lease in time.
#[tokio::test(flavor = "multi_thread")]
async fn h5_many_pools_of_one_process_end_in_time() {
    const POOLS: usize = 30_000;
    let (engine, time) = embedded_engine();
    admit_all(&engine, |number| format!("pool-{number}"), POOLS, None).await;
    let maintenance = maintain(&engine);
    outlive(&engine, &time, "pool-0", 1).await;
    for number in (0..POOLS).step_by(1000) {
        let (pool, begin) = (format!("pool-{number}"), monotonic());
        let read = ReadEvents { pool: name(&pool), after: After { number: Some(0), limit: 10 } };
        while engine.store(&read, monotonic() + PATIENCE).await.unwrap().events.len() < 2 {
            assert!(begin.elapsed() < PATIENCE, "{pool}");
            sleep(Duration::from_millis(10)).await;
        }
    }
    maintenance.abort();
}

/// Adds vacant pool names to the index, as if each had been used ten days ago.
async fn fill(redis: &OwnRedis, names: u64) {
    const FILL: &str = "local args = {}
        for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
          args[#args + 1] = ARGV[3] + i
          args[#args + 1] = string.format('name-%07d', i)
          if #args == 4000 then
            redis.call('ZADD', KEYS[1], unpack(args))
            args = {}
          end
        end
        if #args > 0 then redis.call('ZADD', KEYS[1], unpack(args)) end";
    let mut connection = connect(&redis.url()).await.unwrap();
    let days_ago = Clock::system().now().0 - 10 * 86_400_000_000;
    for first in (0..names).step_by(10_000) {
        let fill = redis::Script::new(FILL);
        let mut fill = fill.key(PARTITIONS);
        fill.arg(first).arg((first + 10_000).min(names) - 1).arg(days_ago);
        let _: () = fill.invoke_async(&mut connection).await.unwrap();
    }
}

async fn indexed(connection: &mut MultiplexedConnection) -> u64 {
    redis::cmd("ZCARD").arg(PARTITIONS).query_async(connection).await.unwrap()
}

/// Returns time that Redis has spent in scripts so far, and its memory in bytes.
async fn spent(connection: &mut MultiplexedConnection) -> (Duration, u64) {
    let info: String = redis::cmd("INFO").arg("everything").query_async(connection).await.unwrap();
    let field = |start: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default();
        line.split(',').next().unwrap_or_default().parse::<u64>().unwrap_or_default()
    };
    let calls = info.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
    let micros = calls.and_then(|line| line.split("usec=").nth(1)?.split(',').next()?.parse().ok());
    (Duration::from_micros(micros.unwrap_or(0)), field("used_memory:"))
}

/// Returns a task with a lease of 200 ms, which nobody renews.
fn short(pool: &str, task: &str) -> pb::AdmitTaskRequest {
    let lease = prost_types::Duration { seconds: 0, nanos: 200_000_000 };
    pb::AdmitTaskRequest { lease_duration: Some(lease), ..admit(pool, "device", task) }
}

/// Admits tasks to a pool one after the other. Each EXPIRED event must arrive in time.
async fn ends_in_time(client: &Client, pool: &str, rounds: usize) {
    let mut events = Events::watch(client, pool, None).await;
    for round in 0..rounds {
        client.clone().admit_task(short(pool, &format!("{round}"))).await.unwrap();
        assert_eq!(events.next().await.kind(), Kind::Admitted);
        let begin = monotonic();
        assert_eq!(events.next().await.kind(), Kind::Expired);
        eprintln!("{pool}: EXPIRED after {:?}", begin.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h5_three_million_names_are_swept_page_by_page() {
    let mut redis = OwnRedis::prepare();
    redis.start_with(&["--appendonly", "no"]).await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    let client = server.client().await;
    let mut connection = connect(&redis.url()).await.unwrap();
    while client.clone().admit_task(short("before", "first")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    let idle = resident(&server);
    let begin = monotonic();
    fill(&redis, NAMES).await;
    let memory = spent(&mut connection).await.1;
    eprintln!("{NAMES} names in {:?}, {} MiB of Redis", begin.elapsed(), memory >> 20);

    let (names, script_time) = (indexed(&mut connection).await, spent(&mut connection).await.0);
    let begin = monotonic();
    let listed = client.clone().list_pools(pb::ListPoolsRequest::default()).await.unwrap();
    assert!(!listed.get_ref().next_page_token.is_empty());
    while indexed(&mut connection).await + 1000 > names {
        assert!(begin.elapsed() < Duration::from_secs(30), "the sweeper removes no names");
        sleep(Duration::from_millis(100)).await;
    }
    sleep(Duration::from_secs(2)).await;
    let took = spent(&mut connection).await.0 - script_time;
    let share = took.as_secs_f64() / begin.elapsed().as_secs_f64();
    let left = names - indexed(&mut connection).await;
    eprintln!("{left} names left in {:?}, {:.1} % of Redis's time", begin.elapsed(), share * 100.0);
    assert!(share < 0.10, "the sweeper takes {share} of Redis's time");

    let bystander = Bystander::start(&server.address()).await;
    ends_in_time(&client, "before", 3).await;
    ends_in_time(&client, "after", 3).await;
    let other = Server::start(&["--engine", &redis.url()]).await;
    let client = other.client().await;
    while client.clone().admit_task(short("up", "task")).await.is_err() {
        sleep(Duration::from_millis(20)).await;
    }
    bystander.finish().await;
    let memory = resident(&server);
    assert!(memory < idle + BUDGET, "{memory} bytes, idle {idle}");
    drop(server);
    ends_in_time(&client, "before", 2).await;
}
