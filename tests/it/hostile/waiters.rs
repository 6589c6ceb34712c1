//! Waiting calls: slots that end together (H14), a server that shuts down (H15) and the limit on
//! waiting calls (H26), for pools and locks, on both engines.

mod ending;
mod full;
mod kept;
mod lapse;

use std::time::Duration;

use tokio::{task::JoinHandle, time::timeout};
use tollgate_client::pb;
use tonic::{Request, Status};

use crate::support::{
    locks::{Keeper, acquire, waiting},
    process::{OwnRedis, Server, TempFile},
    world::{Client, admit, micros, seconds},
};

const PATIENCE: Duration = Duration::from_secs(30);

/// A server with its own engine or Redis, and clients of it.
struct Site {
    server: Server,
    client: Client,
    locks: Keeper,
}

/// The kind of slot that a call asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Pool,
    Lock,
}

/// The grant time and the expire time of a lease, in µs of the engine's clock.
#[derive(Debug, Clone, Copy)]
struct Granted {
    from: u64,
    until: u64,
}

type Call = JoinHandle<Result<Option<Granted>, Status>>;

impl Site {
    async fn on(engine: &str, config: &str) -> Site {
        let config = TempFile::new(config);
        let server = Server::start(&["--engine", engine, "--config", config.path()]).await;
        let (client, locks) = (server.client().await, Keeper::to(&server).await);
        Site { server, client, locks }
    }

    /// Returns a server on the embedded engine, or on its own Redis.
    async fn one(redis: bool) -> (Option<OwnRedis>, Site) {
        Site::with(redis, "").await
    }

    /// Does the same with a configuration.
    async fn with(redis: bool, config: &str) -> (Option<OwnRedis>, Site) {
        if !redis {
            return (None, Site::on("embedded", config).await);
        }
        let mut redis = OwnRedis::prepare();
        redis.start().await;
        let site = Site::on(&redis.url(), config).await;
        (Some(redis), site)
    }

    /// Asks for the pool or lock `name`, and waits up to `wait` seconds. Returns `None` if refused.
    fn ask(&self, kind: Kind, name: &str, who: &str, wait: f64, lease: f64) -> Call {
        let (name, who) = (name.to_owned(), who.to_owned());
        let (mut client, mut locks) = (self.client.clone(), self.locks.0.clone());
        tokio::spawn(async move {
            let (from, until) = match kind {
                Kind::Pool => {
                    let request = pb::AdmitTaskRequest {
                        max_wait: Some(seconds(wait)),
                        lease_duration: Some(seconds(lease)),
                        ..admit(&name, &who, "t")
                    };
                    let mut request = Request::new(request);
                    request.set_timeout(Duration::from_secs(90));
                    match client.admit_task(request).await?.into_inner().lease {
                        Some(lease) => (lease.grant_time, lease.expire_time),
                        None => return Ok(None),
                    }
                }
                Kind::Lock => {
                    let lease_duration = Some(seconds(lease));
                    let asked = waiting(wait, acquire(&name, &who));
                    let asked = pb::AcquireLockRequest { lease_duration, ..asked };
                    let mut request = Request::new(asked);
                    request.set_timeout(Duration::from_secs(90));
                    match locks.acquire_lock(request).await?.into_inner().lease {
                        Some(lease) => (lease.grant_time, lease.expire_time),
                        None => return Ok(None),
                    }
                }
            };
            Ok(Some(Granted { from: micros(from), until: micros(until) }))
        })
    }

    /// Acquires a lease that must be granted immediately.
    async fn hold(&self, kind: Kind, name: &str, who: &str, lease: f64) -> Granted {
        granted(self.ask(kind, name, who, 0.0, lease)).await
    }

    async fn give_back(&self, kind: Kind, name: &str, who: &str) {
        match kind {
            Kind::Pool => {
                let done = crate::support::world::complete(name, who, "t");
                self.client.clone().complete_task(done).await.unwrap();
            }
            Kind::Lock => {
                assert!(self.locks.released(crate::support::locks::release(name, who)).await)
            }
        }
    }

    /// Returns the number of waiters in the queue.
    async fn waiters(&self, kind: Kind, name: &str) -> u32 {
        match kind {
            Kind::Pool => {
                let request = pb::GetPoolRequest { pool: name.into() };
                let pool = self.client.clone().get_pool(request).await.unwrap().into_inner().pool;
                pool.unwrap().waiters
            }
            Kind::Lock => self.locks.get(name).await.waiters,
        }
    }

    /// Waits until the queue has exactly `count` waiters.
    async fn wait_for_waiters(&self, kind: Kind, name: &str, count: u32) {
        let come = async {
            while self.waiters(kind, name).await != count {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        timeout(PATIENCE, come).await.expect("the queue never had this number of waiters");
    }

    async fn set_capacity(&self, name: &str, capacity: u32) {
        let request = crate::support::world::capacity(name, capacity);
        self.client.clone().configure_pool(request).await.unwrap();
    }
}

async fn answered(call: Call) -> Result<Option<Granted>, Status> {
    timeout(PATIENCE, call).await.expect("the call got no answer in time").unwrap()
}

async fn granted(call: Call) -> Granted {
    answered(call).await.expect("the call failed").expect("a lease")
}
