//! A primary and its replica, of a test's own, and a server that can be led from one to
//! the other.

use crate::{
    farm::eventually,
    process::{OwnRedis, Server, TempFile, connect},
    wire::Wire,
    world::{Client, admit},
};

pub struct Pair {
    primary: OwnRedis,
    pub replica: OwnRedis,
    /// From the replica to its primary, and from servers to who leads.
    between: Wire,
    wire: Wire,
    config: TempFile,
    _server: Server,
    pub client: Client,
}

impl Pair {
    /// With this configuration; the replica has all.
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

    /// Another server beside the first.
    pub async fn another(&self) -> Server {
        serve(&self.wire, &self.config).await
    }

    async fn answers(&self) {
        let probe = admit("probe", "probe", "probe");
        let mut client = self.client.clone();
        eventually("the server has its store", async || {
            client.clone().admit_task(probe.clone()).await.is_ok()
        })
        .await;
        client.admit_task(probe.clone()).await.unwrap();
    }

    /// Waits until the replica has all that the primary has.
    pub async fn in_step(&self) {
        eventually("the replica is in step", async || confirms(&self.primary).await).await;
    }

    /// Breaks every connection to the primary.
    pub async fn break_connections(&self) {
        self.primary.command(&["CLIENT", "KILL", "TYPE", "normal"]).await.unwrap();
    }

    /// From now on the replica gets nothing.
    pub fn part(&self) {
        self.between.cut();
    }

    /// The primary is gone, and its replica leads.
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

/// Whether a replica has what is written now.
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
