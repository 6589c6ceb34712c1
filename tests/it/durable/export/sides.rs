//! An engine on a stepped clock, and its store.

use std::{
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tollgate_core::time::Clock;
use tollgate_engine::{
    Engine,
    embedded::{Disk, Durability, Embedded},
    export::Store,
    redis::{Redis, RedisOptions},
};

use crate::support::{
    nodes::Nodes,
    process::TempFolder,
    world::{STEPPED, Time, redis_url, up},
};

pub struct Side {
    pub engine: Arc<Engine>,
    time: Time,
    options: Option<RedisOptions>,
    maintain: Option<tokio::task::AbortHandle>,
}

impl Side {
    pub async fn redis(now: u64) -> Side {
        Side::redis_with(now, "").await
    }

    /// Returns an engine on a Redis that has these keys. Each line of `keys` is a JSON array: a
    /// command that writes, a key without its prefix, and arguments. The characters of the strings
    /// are bytes.
    pub async fn redis_with(now: u64, keys: &str) -> Side {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let prefix = format!("export-{}-{number}", process::id());
        let clock = Arc::new(AtomicU64::new(now));
        let nodes = Nodes::connect().await;
        for line in keys.lines() {
            nodes.run(&command(line, &prefix)).await;
        }
        let time = Time::Redis { prefix: prefix.clone(), now: clock.clone(), nodes };
        time.write(now).await;
        let options = RedisOptions {
            clock: Some(STEPPED.to_owned()),
            key_prefix: prefix,
            ..RedisOptions::new(&redis_url())
        };
        let redis = Redis::new(&options).unwrap().with_clock(Clock::Stepped(clock));
        let engine = Arc::new(Engine::Redis(redis));
        let run = engine.clone();
        let maintain = tokio::spawn(async move { run.maintain().await }).abort_handle();
        up(engine.state()).await;
        Side { engine, time, options: Some(options), maintain: Some(maintain) }
    }

    pub async fn embedded(folder: &TempFolder, now: u64) -> Side {
        let clock = Arc::new(AtomicU64::new(now));
        let disk = Disk::directory(folder.path()).unwrap();
        let source = Clock::Stepped(clock.clone());
        let engine = Embedded::open(source, disk, Durability::Interval).unwrap();
        let time = Time::Embedded(clock);
        let side = Side {
            engine: Arc::new(Engine::Embedded(engine)),
            time,
            options: None,
            maintain: None,
        };
        side.set(now).await;
        side
    }

    /// Returns an embedded engine without a data directory.
    pub fn in_memory(now: u64) -> Side {
        let clock = Arc::new(AtomicU64::new(now));
        let engine = Embedded::new(Clock::Stepped(clock.clone()));
        let (engine, time) = (Arc::new(Engine::Embedded(engine)), Time::Embedded(clock));
        Side { engine, time, options: None, maintain: None }
    }

    /// Returns the store of an engine on Redis. Panics on the embedded engine.
    pub async fn store(&self) -> Store {
        let store = Store::redis(self.options.as_ref().expect("it is on Redis")).await.unwrap();
        store.on_clock(stepped(self.time.now()))
    }

    /// Deletes a key of a Redis.
    pub async fn remove(&self, key: &str) {
        self.time.tamper(&["DEL", &format!("{{}}:{key}")]).await.unwrap();
    }

    /// Sets the clock. The clock of a data directory follows after its mark is written.
    pub async fn set(&self, now: u64) {
        self.time.advance(now - self.time.now()).await;
        if let Engine::Embedded(engine) = &*self.engine {
            let reached = async {
                while engine.now().0 < now {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), reached)
                .await
                .expect("the clock of the directory never reached the set time");
            assert_eq!(engine.now().0, now);
        }
    }

    /// Closes the engine in an orderly way.
    pub async fn close(self) {
        let engine = self.engine.clone();
        tokio::task::spawn_blocking(move || engine.close()).await.unwrap();
    }

    pub async fn all_that_lapses_has_a_ttl(&self) {
        let permanent = [
            ":settings",
            ":queued",
            ":backlog",
            ":due",
            ":counter",
            ":stock",
            ":holds",
            ":buyers",
            ":partitions",
            ":partitions:acme",
            ":kept",
        ];
        for key in self.time.keys().await {
            let ttl = self.time.tamper(&["PTTL", &format!("{{}}:{key}")]).await.unwrap();
            let permanent = permanent.iter().any(|part| key.ends_with(part));
            assert_eq!(matches!(ttl, redis::Value::Int(-1)), permanent, "{key} {ttl:?}");
        }
    }
}

/// Returns the command of a line, see [`Side::redis_with`].
fn command(line: &str, prefix: &str) -> redis::Cmd {
    let words: Vec<String> = serde_json::from_str(line).unwrap();
    let bytes = |word: &str| word.chars().map(|byte| u8::try_from(byte).unwrap()).collect();
    let [name, key, arguments @ ..] = &words[..] else { panic!("no key: {line}") };
    let mut command = redis::cmd(name);
    command.arg([format!("{prefix}:").into_bytes(), bytes(key)].concat());
    for argument in arguments {
        command.arg::<Vec<u8>>(bytes(argument));
    }
    command
}

pub fn stepped(now: u64) -> Clock {
    Clock::Stepped(Arc::new(AtomicU64::new(now)))
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Some(maintain) = &self.maintain {
            maintain.abort();
        }
    }
}
