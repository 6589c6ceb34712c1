//! A primary with one replica, and a server that can be redirected from one to the other.

use crate::support::{
    farm::eventually,
    process::{OwnRedis, Server, TempFile, connect},
    wire::Wire,
    world::{Client, admit},
};

pub struct Pair {
    primary: OwnRedis,
    pub replica: OwnRedis,
    /// `between` connects the replica to the primary, `wire` connects servers to the current
    /// primary.
    between: Wire,
    wire: Wire,
    config: TempFile,
    _server: Server,
    pub client: Client,
}

impl Pair {
    /// Starts a pair and a server with this configuration. The replica is up to date.
    pub async fn start(config: &str) -> Pair {
        let (mut primary, mut replica) = (OwnRedis::prepare(), OwnRedis::prepare());
        primary.start().await;
        replica.start().await;
        let (between, wire) = (Wire::to(primary.port).await, Wire::to(primary.port).await);
        let port = between.port.to_string();
        replica.command(&["REPLICAOF", "127.0.0.1", &port]).await.unwrap();
        eventually("the replica is in step", async || confirms(&primary).await).await;
        let config = TempFile::new(config);
        let server = serve(&wire, &config).await;
        let client = server.client().await;
        let probed = Pair { primary, replica, between, wire, config, _server: server, client };
        probed.answers().await;
        probed
    }

    /// Starts another server with the same configuration.
    pub async fn another(&self) -> Server {
        serve(&self.wire, &self.config).await
    }

    /// Waits until the server has reached its store.
    async fn answers(&self) {
        let probe = admit("probe", "probe", "probe");
        let mut client = self.client.clone();
        eventually("the server has reached its store", async || {
            client.clone().admit_task(probe.clone()).await.is_ok()
        })
        .await;
        client.admit_task(probe.clone()).await.unwrap();
    }

    /// Waits until the replica has all writes of the primary.
    pub async fn in_step(&self) {
        eventually("the replica is in step", async || confirms(&self.primary).await).await;
    }

    /// Breaks every connection to the primary.
    pub async fn break_connections(&self) {
        self.primary.command(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    }

    /// Cuts the replica off: from now on it receives nothing.
    pub fn part(&self) {
        self.between.cut();
    }

    /// Kills the primary, promotes the replica, and redirects the server to it.
    pub async fn fail_over(&mut self) {
        self.primary.kill();
        self.replica.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
        self.wire.lead_to(self.replica.port);
        self.answers().await;
    }
}

async fn serve(wire: &Wire, config: &TempFile) -> Server {
    let url = format!("redis://127.0.0.1:{}", wire.port);
    Server::start(&["--engine", &url, "--config", config.path()]).await
}

/// Whether the replica acknowledges a new write.
async fn confirms(primary: &OwnRedis) -> bool {
    let mut connection = connect(&primary.url()).await.unwrap();
    redis::pipe()
        .cmd("SET")
        .arg("step")
        .arg("step")
        .ignore()
        .cmd("WAIT")
        .arg(1)
        .arg(500)
        .query_async(&mut connection)
        .await
        .is_ok_and(|(have,): (u32,)| have == 1)
}
