//! A server with its console: callers, clients, its log, and a fleet that keeps it busy.

use std::{fs, process::Stdio, time::Duration};

use serde_json::Value;
use tollgate_client::pb::{
    self, admin_service_client::AdminServiceClient,
    admission_service_client::AdmissionServiceClient,
};
use tonic::{
    Request, Status,
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use crate::{
    browser::Browser,
    support::{
        access::Token,
        process::{OwnRedis, Process, Server, TempFolder, free_port, tollgate},
        requests::{admit, capacity, duration, patient},
    },
};

/// A channel that sends the token of a caller.
pub type Signed = InterceptedService<Channel, Bearer>;
pub type Admission = AdmissionServiceClient<Signed>;

/// Sends a token with each call.
#[derive(Clone)]
pub struct Bearer(String);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("authorization", self.0.parse().expect("ASCII"));
        Ok(request)
    }
}

/// Makes one test for each engine from `async fn name(engine: Engine)`.
macro_rules! on_each_engine {
    ($($name:ident),* $(,)?) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name($crate::console::Engine::Embedded).await
            })*
        }
        mod redis {
            $(#[tokio::test(flavor = "multi_thread")] async fn $name() {
                super::$name($crate::console::Engine::Redis).await
            })*
        }
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Embedded,
    Redis,
}

/// Two calls an hour, then refusals; the sixth call is a ban.
const POLICY: &str = "
[[policy]]
name = \"crawlers\"
limit = [{ name = \"calls\", max = 2, window = \"1h\", algorithm = \"FIXED_WINDOW\" }]
tier = [{ above = 5, action = \"BAN\", ban_durations = [\"1h\"] }]
";

/// A server process with two callers: an operator, who may do everything, and a reader.
pub struct Console {
    pub server: Server,
    pub operator: Token,
    pub reader: Token,
    pub redis: Option<OwnRedis>,
    admin: u16,
    channel: Channel,
    folder: TempFolder,
    fleets: Vec<Process>,
}

impl Console {
    /// Starts a server whose store is up.
    pub async fn start(engine: Engine) -> Console {
        Console::start_with(engine, "").await
    }

    /// Does the same, with more configuration.
    pub async fn start_with(engine: Engine, more: &str) -> Console {
        let redis = match engine {
            Engine::Embedded => None,
            Engine::Redis => {
                let mut redis = OwnRedis::prepare();
                redis.start().await;
                Some(redis)
            }
        };
        let (folder, admin) = (TempFolder::new(), free_port());
        fs::create_dir_all(folder.path()).unwrap();
        let (operator, reader) = (Token::new(), Token::new());
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("token"), &operator.text).unwrap();
        let text = configuration(&operator, Some(&reader)) + more;
        fs::write(path("tollgate.toml"), text).unwrap();
        let mut command = tollgate(&["serve"]);
        command.args(["--config", &path("tollgate.toml")]);
        command.args(["--admin", &format!("127.0.0.1:{admin}")]);
        command.args(redis.iter().flat_map(|redis| ["--engine".to_owned(), redis.url()]));
        command.stderr(Stdio::from(fs::File::create(path("log")).unwrap()));
        let server = Server::spawn_silent(command).await;
        let channel = Channel::from_shared(server.address()).unwrap().connect().await.unwrap();
        let console =
            Console { server, operator, reader, redis, admin, channel, folder, fleets: Vec::new() };
        console.until("the store is up", async || console.status().await.store == "up").await;
        console
    }

    /// Returns the address of a page.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.admin)
    }

    /// Returns the pools, leases and tasks, as the operator.
    pub fn admission(&self) -> Admission {
        AdmissionServiceClient::with_interceptor(self.channel.clone(), self.bearer())
    }

    fn bearer(&self) -> Bearer {
        Bearer(self.operator.bearer())
    }

    /// Returns the channel of the operator, for other services.
    pub fn signed(&self) -> Signed {
        InterceptedService::new(self.channel.clone(), self.bearer())
    }

    pub async fn status(&self) -> pb::GetStatusResponse {
        let mut admin = AdminServiceClient::new(self.signed());
        admin.get_status(patient(pb::GetStatusRequest {})).await.unwrap().into_inner()
    }

    pub async fn pool(&self, pool: &str) -> pb::Pool {
        let request = patient(pb::GetPoolRequest { pool: pool.to_owned() });
        self.admission().get_pool(request).await.unwrap().into_inner().pool.unwrap()
    }

    pub async fn leases(&self, pool: &str) -> Vec<pb::Lease> {
        let request = pb::ListLeasesRequest { pool: pool.to_owned(), ..Default::default() };
        self.admission().list_leases(patient(request)).await.unwrap().into_inner().leases
    }

    /// Admits a task with a lease of ten minutes.
    pub async fn admit(&self, pool: &str, device: &str, task: &str) -> pb::Lease {
        let request = pb::AdmitTaskRequest {
            lease_duration: Some(duration(Duration::from_secs(600))),
            ..admit(pool, device, task)
        };
        let answer = self.admission().admit_task(patient(request)).await.unwrap().into_inner();
        answer.lease.expect("a free slot")
    }

    pub async fn capacity(&self, pool: &str, slots: u32) {
        let request = patient(capacity(pool, slots));
        self.admission().configure_pool(request).await.unwrap();
    }

    /// Starts a fleet with these flags. It runs for at most ten minutes.
    pub fn fleet(&mut self, flags: &[&str]) {
        self.fleet_for("10m", flags);
    }

    /// Starts a fleet with these flags, which ends after this duration.
    pub fn fleet_for(&mut self, duration: &str, flags: &[&str]) {
        let (address, token) = (self.server.address(), self.folder.path().join("token"));
        let mut command = tollgate(&["fleet", "--server", &address, "--duration", duration]);
        command.arg("--token-file").arg(token).args(flags);
        let fleet = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.fleets.push(Process(fleet));
    }

    /// Signs in as the operator, and opens a page.
    pub async fn sign_in(&self, browser: &Browser, token: &Token, path: &str) {
        browser.open(&self.url(path)).await;
        browser.fill("#token", &token.text).await;
        browser.click("button").await;
        browser.find("nav[aria-label=Pages]").await;
    }

    /// Removes a caller from the configuration, and reloads it.
    pub fn remove_reader(&self) {
        self.write(&configuration(&self.operator, None));
        self.server.process.signal("-HUP");
    }

    /// Appends to the configuration, and does not reload it.
    pub fn configure(&self, more: &str) {
        self.write(&(configuration(&self.operator, Some(&self.reader)) + more));
    }

    fn write(&self, text: &str) {
        // In one step, because the server checks the file periodically.
        let path = |name: &str| self.folder.path().join(name);
        fs::write(path("next.toml"), text).unwrap();
        fs::rename(path("next.toml"), path("tollgate.toml")).unwrap();
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Waits until the log has an audit line with these values.
    pub async fn audited(&self, caller: &str, verb: &str, name: &str, result: &str) {
        let expected = [("caller", caller), ("verb", verb), ("name", name), ("result", result)];
        let is_logged = async || {
            let log = self.log();
            let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut audits = lines.filter(|line| line["target"] == "audit");
            audits.any(|line| expected.iter().all(|(key, value)| line[*key] == *value))
        };
        self.until(&format!("an audit line of {verb} {name}"), is_logged).await;
    }

    async fn until(&self, what: &str, holds: impl AsyncFn() -> bool) {
        for _ in 0..1200 {
            if holds().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("not within a minute: {what}");
    }
}

fn configuration(operator: &Token, reader: Option<&Token>) -> String {
    let caller = |name: &str, token: &Token, allow: &str| {
        let digest = &token.digest;
        format!("[[caller]]\nname = \"{name}\"\ntoken_sha256 = [\"{digest}\"]\nallow = [{allow}]\n")
    };
    let mut text = "log_format = \"json\"\nlog_level = \"warn\"\n".to_owned();
    text += &caller("operator", operator, "\"use\", \"read\", \"manage\"");
    // May read what concerns all namespaces, such as the counters of the server.
    text += "namespace = \"*\"\n";
    if let Some(reader) = reader {
        text += &caller("reader", reader, "\"read\"");
    }
    text + POLICY
}
