//! A closed connection.

use std::time::Duration;

use tokio::time::timeout;
use tollgate_client::{Admission, Error, Locking, Options, PoolEvent, Watch};

use crate::support::{Proxy, Server, eventually};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn closing_ends_waits_calls_and_watches() {
    let server = Server::start().await;
    let observer = server.connection().await;
    let (pool, proxy) = (observer.pool("p"), Proxy::start(&server.address).await);
    pool.configure(Some(1), None).await.unwrap();
    let holder = pool.admit("holder", "task").await.unwrap();
    let connection = server.connection().await;

    let wait = connection.pool("p").admit("waiter", "task").wait(MINUTE * 10);
    let wait = tokio::spawn(async move { wait.await.map(drop) });
    let mut watch = Watch::<PoolEvent>::open(connection.clone(), "p", None).await.unwrap();
    let watch = tokio::spawn(async move {
        loop {
            watch.next().await?;
        }
    });
    let hanging = Options::new([&proxy.address]).deadline(MINUTE * 10);
    let hanging = hanging.open().await.unwrap();
    let clone = hanging.clone();
    proxy.swallow(true);
    let call = tokio::spawn(async move { clone.take("numbers", 1, 1, None, None).await.map(drop) });
    eventually("the call waits", async || pool.state().await.unwrap().waiters == 1).await;

    connection.close();
    hanging.close();
    for running in [wait, watch, call] {
        let ended = timeout(MINUTE, running).await.expect("closing ends it").unwrap();
        let error: Error = ended.unwrap_err();
        assert_eq!(error.code, "CANCELLED", "{error}");
    }
    eventually("nobody waits", async || pool.state().await.unwrap().waiters == 0).await;
    let later = connection.take("numbers", 1, 1, None, None).await.unwrap_err();
    assert_eq!(later.code, "CANCELLED", "{later}");
    drop(holder);
}

#[tokio::test]
async fn closing_stops_keepers_and_the_loss_is_reported() {
    let server = Server::start().await;
    let (observer, connection) = (server.connection().await, server.connection().await);
    let lease = Duration::from_secs(1);
    let admission = connection.pool("p").admit("camera", "task").lease(lease).await.unwrap();
    let Admission::Admitted(permit) = admission else { panic!("{admission:?}") };
    let Locking::Acquired(guard) = connection.lock("l").lease(lease).await.unwrap() else {
        panic!("not acquired")
    };
    connection.close();
    timeout(MINUTE, permit.lost()).await.expect("the permit is lost");
    timeout(MINUTE, guard.lost()).await.expect("the lock is lost");
    let pool = observer.pool("p");
    eventually("the lease ends", async || pool.usage().await.unwrap().in_use == 0).await;
}
