//! A Redis that has lost its data: recognition, what calls answer, and the operator's ways out.

mod farms;
mod load;
mod operator;

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tonic::Status;

use crate::support::{
    access::reason,
    process::{OwnRedis, Server, run},
    sequences::{next, try_next},
    world::Sequences,
};

const PATIENCE: Duration = Duration::from_secs(60);

/// How Redis loses its data.
#[derive(Debug, Clone, Copy)]
pub enum Wipe {
    /// FLUSHALL: connections stay open.
    Flush,
    /// DEL of each key of the server.
    Delete,
    /// A restart with an empty directory.
    Restart,
}

impl Wipe {
    pub async fn apply(self, redis: &mut OwnRedis) {
        match self {
            Wipe::Flush => drop(redis.command(&["FLUSHALL"]).await.unwrap()),
            Wipe::Delete => {
                let delete = "return redis.call('DEL', unpack(redis.call('KEYS', 'tollgate:*')))";
                redis.command(&["EVAL", delete, "0"]).await.unwrap();
            }
            Wipe::Restart => redis.restart_empty().await,
        }
    }
}

pub async fn sequences(server: &Server) -> Sequences {
    server.client().await;
    Sequences::connect(server.address()).await.unwrap()
}

pub fn is_lost(status: &Status) -> bool {
    reason(status).1 == "STORE_LOST"
}

/// Asks until the answer is a value. Panics if it is STORE_LOST.
pub async fn value(client: &Sequences, name: &str) -> u64 {
    let answered = async {
        loop {
            match try_next(client, next(name)).await {
                Ok(given) => return given.first,
                Err(status) => assert!(!is_lost(&status), "{name}: {status:?}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, answered).await.expect("the server gives out a value")
}

/// Asks until the answer is STORE_LOST. Panics if a value is given out.
pub async fn refused(client: &Sequences, name: &str) {
    let answered = async {
        loop {
            match try_next(client, next(name)).await {
                Ok(given) => panic!("{name}: {given:?}"),
                Err(status) if is_lost(&status) => return,
                Err(_) => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    timeout(PATIENCE, answered).await.expect("the server refuses");
}

/// Runs `tollgate store` against a server. Returns its exit code and standard output.
pub async fn store(server: &Server, words: &[&str]) -> (Option<i32>, String) {
    let address = server.address();
    let output = run(&[&["store"], words, &["--server", &address]].concat()).await;
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// Waits until the status of the store says `text`.
pub async fn says(server: &Server, text: &str) {
    let said = async {
        while !store(server, &["status"]).await.1.contains(text) {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, said).await.unwrap_or_else(|_| panic!("the status does not say {text}"));
}
