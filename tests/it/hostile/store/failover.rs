//! H21: failovers that lose writes, to a new primary whose clock is behind.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{task::JoinHandle, time::sleep};
use tollgate_core::{script, time::monotonic};
use tollgate_engine::{
    Engine,
    redis::{Redis, RedisOptions},
};

use crate::support::{
    farm::eventually,
    locks::{acquire, leased, release},
    process::OwnRedis,
    rates::configured,
    wire::Wire,
    world::{World, admit, embedded_engine},
};

/// Leases are short, so that a hold is over long before the clocks agree.
const ADMIT: &str = "[[pool]]\nmatch = \"*\"\ncapacity = 100000\nlease_duration = \"500ms\"\n";

/// Lua code that sets `fencing_lead` to 0 in AdmitTask and AcquireLock and their plain forms. It is
/// added to the start of every script, and recognizes these by the number of their keys and
/// arguments.
fn naive() -> String {
    let (lock, pool) = (&script::lock::ACQUIRE, &script::admission::ADMIT);
    let (shared_keys, shared_argv) = pool.shared().expect("its items share a pool");
    let (_, row_argv) = script::admission::ADMIT_PLAIN.shared().expect("its items share a pool");
    format!(
        "
local is_lock = string.find(KEYS[1] or '', ':lock$')
  and (#ARGV == 2 or #ARGV * {} == #KEYS * {} + {0})
local is_pool = string.find(KEYS[1] or '', ':settings$')
  and (#ARGV == {} or (#ARGV - {}) * {} == (#KEYS - {}) * {})
if is_lock or is_pool then
  ARGV[#ARGV] = '0'
end",
        lock.keys,
        lock.argv,
        // One row of the plain form: the shared arguments, the items, and `fencing_lead`.
        row_argv + 2,
        // The number of items, the shared arguments, key and text of the marker of the store, and
        // `fencing_lead`.
        1 + shared_argv + 3,
        pool.keys - shared_keys,
        shared_keys,
        pool.argv - shared_argv,
    )
}

/// A primary, and its replica with a clock that is behind. Servers connect through `wire`, which
/// leads to one of them.
struct Pair {
    primary: OwnRedis,
    replica: OwnRedis,
    between: Wire,
    wire: Wire,
    config: String,
    behind: u64,
    /// Whether tokens come from the clock alone. The check must then find decreasing tokens.
    is_naive: bool,
}

/// A token, and the start and the end of the call that returned it.
#[derive(Debug, Clone, Copy)]
struct Given {
    asked: Instant,
    given: Instant,
    token: u64,
}

impl Pair {
    async fn start(behind: Duration, config: &str) -> Pair {
        let (mut primary, mut replica) = (OwnRedis::prepare(), OwnRedis::prepare());
        tokio::join!(primary.start(), replica.start());
        let (between, wire) = (Wire::to(primary.port).await, Wire::to(primary.port).await);
        let port = between.port.to_string();
        replica.command(&["REPLICAOF", "127.0.0.1", &port]).await.unwrap();
        let (config, behind) = (config.to_owned(), behind.as_micros() as u64);
        let pair = Pair { primary, replica, between, wire, config, behind, is_naive: false };
        pair.in_step().await;
        pair
    }

    /// Waits until the replica has all writes of the primary.
    async fn in_step(&self) {
        let mark = rand::random::<u32>().to_string();
        self.primary.command(&["SET", "step", &mark]).await.unwrap();
        eventually("the replica is up to date", async || {
            let has = self.replica.command(&["GET", "step"]).await;
            has.is_ok_and(|value| value == redis::Value::BulkString(mark.clone().into_bytes()))
        })
        .await;
    }

    /// Returns a server in this process. Its scripts see the clock of the replica behind by
    /// `behind`.
    async fn server(&self) -> World {
        let clock = format!(
            "local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if string.match(redis.call('INFO', 'server'), 'tcp_port:(%d+)') == '{}' then
  now = now - {}
end",
            self.replica.port, self.behind
        );
        let clock = if self.is_naive { clock + &naive() } else { clock };
        let url = format!("redis://127.0.0.1:{}", self.wire.port);
        let options = RedisOptions { clock: Some(clock), workers: 2, ..RedisOptions::new(&url) };
        let engine = Arc::new(Engine::Redis(Redis::new(&options).unwrap()));
        World::on(engine, embedded_engine().1, configured(&self.config)).await
    }

    /// Kills the primary and promotes the replica. Writes that the replica lacks are lost.
    async fn fail_over(&mut self) {
        self.primary.kill();
        self.replica.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        self.wire.lead_to(self.replica.port);
    }
}

/// Callers that repeatedly ask for tokens of one pool or lock, and the returned tokens.
#[derive(Default)]
struct Callers {
    stop: Arc<AtomicBool>,
    given: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<Vec<Given>>>,
}

impl Callers {
    fn add<F>(&mut self, ask: impl Fn(u64) -> F + Send + 'static)
    where
        F: Future<Output = Option<u64>> + Send,
    {
        let (stop, count) = (self.stop.clone(), self.given.clone());
        self.tasks.push(tokio::spawn(async move {
            let mut all = Vec::new();
            for number in 0.. {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let asked = monotonic();
                if let Some(token) = ask(number).await {
                    all.push(Given { asked, given: monotonic(), token });
                    count.fetch_add(1, Ordering::SeqCst);
                }
                sleep(Duration::from_millis(2)).await;
            }
            all
        }));
    }

    /// Waits until `count` further tokens were returned.
    async fn give(&self, count: u64) {
        let until = self.given.load(Ordering::SeqCst) + count;
        eventually("tokens are given", async || self.given.load(Ordering::SeqCst) >= until).await;
    }

    /// Ends the callers. Fails unless each call that began after the end of another call has a
    /// higher token.
    async fn end(self) -> Result<(), String> {
        self.stop.store(true, Ordering::SeqCst);
        let mut all = Vec::new();
        for task in self.tasks {
            all.extend(task.await.unwrap());
        }
        let mut ended = all.clone();
        ended.sort_by_key(|one| one.given);
        all.sort_by_key(|one| one.asked);
        let (mut highest, mut next) = (None::<Given>, ended.into_iter().peekable());
        for one in all {
            while let Some(before) = next.next_if(|before| before.given < one.asked) {
                highest = highest.filter(|high| high.token > before.token).or(Some(before));
            }
            if let Some(before) = highest.filter(|before| before.token >= one.token) {
                return Err(format!("{:?} later: {before:?}, {one:?}", one.asked - before.given));
            }
        }
        Ok(())
    }
}

/// Adds a caller of a server for slots of a pool, and one for a lock.
fn call(pool: &mut Callers, lock: &mut Callers, server: &'static str, world: &World) {
    let client = world.client.clone();
    pool.add(move |number| {
        let mut client = client.clone();
        async move {
            let request = admit("p", &format!("{server}{number}"), "t");
            let answer = client.admit_task(request).await.ok()?.into_inner();
            answer.lease.map(|lease| lease.fencing_token)
        }
    });
    let locks = world.locks.clone();
    lock.add(move |number| {
        let mut locks = locks.clone();
        async move {
            let owner = format!("{server}{number}");
            let request = leased(0.2, acquire("l", &owner));
            let answer = locks.acquire_lock(request).await.ok()?.into_inner();
            let token = answer.lease?.fencing_token;
            let _ = locks.release_lock(release("l", &owner)).await;
            Some(token)
        }
    });
}

/// Two servers return tokens that the replica does not receive. The replica is promoted, and both
/// servers continue. Then a third server starts, which knows no earlier token. Returns the results
/// for a pool and for a lock.
async fn played(mut pair: Pair) -> [Result<(), String>; 2] {
    let (first, second) = (pair.server().await, pair.server().await);
    pair.in_step().await;
    pair.between.cut();
    let (mut pool, mut lock) = (Callers::default(), Callers::default());
    call(&mut pool, &mut lock, "first", &first);
    call(&mut pool, &mut lock, "second", &second);
    tokio::join!(pool.give(50), lock.give(50));
    pair.fail_over().await;
    tokio::join!(pool.give(50), lock.give(50));
    let third = pair.server().await;
    call(&mut pool, &mut lock, "third", &third);
    tokio::join!(pool.give(50), lock.give(50));
    tokio::join!(pool.end(), lock.end()).into()
}

async fn tokens_never_fall(behind: Duration, config: &str) {
    let played = played(Pair::start(behind, config).await).await;
    assert_eq!(played, [Ok(()), Ok(())]);
}

const BEHIND: Duration = Duration::from_secs(4);
/// Longer than any failover takes, so tokens from the clock alone certainly decrease.
const FAR_BEHIND: Duration = Duration::from_secs(600);

#[tokio::test(flavor = "multi_thread")]
async fn h21_tokens_never_fall_after_a_failover_to_a_clock_that_is_behind() {
    tokens_never_fall(BEHIND, ADMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h21_tokens_never_fall_if_the_clock_is_behind_by_more_than_the_failover_takes() {
    tokens_never_fall(FAR_BEHIND, ADMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h21_tokens_never_fall_in_pools_on_hold() {
    tokens_never_fall(BEHIND, &format!("{ADMIT}after_failover = \"hold\"\n")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h21_tokens_never_fall_if_the_clock_is_behind_by_less_than_a_call_takes() {
    tokens_never_fall(Duration::from_millis(2), ADMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h21_the_check_notices_tokens_that_fall() {
    let pair = Pair { is_naive: true, ..Pair::start(FAR_BEHIND, ADMIT).await };
    let played = played(pair).await;
    assert!(played.iter().all(Result::is_err), "{played:?}");
}
