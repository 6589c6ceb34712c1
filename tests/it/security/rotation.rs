//! Tokens and key sets change while calls run.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tonic::{Code, Status, transport::Channel};

use super::callers::{entry, start};
use crate::support::{
    access::{Call, Issuer, Token, calls, jwks, reason},
    certificates::{Authority, Files, RELOADED, TlsServer},
};

/// Reloads the callers by SIGHUP; waits until it is done.
pub async fn reload(server: &TlsServer) {
    let times = server.files.log().matches(RELOADED).count() + 1;
    server.server.process.signal("-HUP");
    server.files.logged(RELOADED, times).await;
}

async fn channel(server: &TlsServer) -> Channel {
    Channel::from_shared(server.server.address()).unwrap().connect().await.unwrap()
}

/// Returns a call that every caller of these tests may make.
fn next() -> Call {
    calls("n").into_iter().find(|call| call.method == "NextSequence").unwrap()
}

pub async fn call(channel: &Channel, bearer: &str) -> Result<Vec<u8>, Status> {
    next().make(channel, &[("authorization", bearer)]).await
}

/// Clients on several connections that call until they are stopped. `bearer` is the current token.
struct Load {
    bearer: Arc<arc_swap::ArcSwap<String>>,
    stop: Arc<AtomicBool>,
    made: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    async fn start(server: &TlsServer, bearer: String) -> Load {
        let bearer = Arc::new(arc_swap::ArcSwap::from_pointee(bearer));
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (channel, bearer) = (channel(server).await, bearer.clone());
            let (stop, made) = (stop.clone(), made.clone());
            tasks.push(tokio::spawn(async move {
                while !stop.load(Ordering::SeqCst) {
                    let current = bearer.load_full();
                    call(&channel, &current).await.expect("no call fails during a rotation");
                    made.fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        Load { bearer, stop, made, tasks }
    }

    /// Waits until 100 further calls were made.
    async fn proceed(&self) {
        let enough = self.made.load(Ordering::SeqCst) + 100;
        while self.made.load(Ordering::SeqCst) < enough {
            assert!(self.tasks.iter().all(|task| !task.is_finished()));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Replaces the token, and waits until all connections use the new one.
    async fn use_token(&self, bearer: String) {
        self.bearer.store(Arc::new(bearer));
        self.proceed().await;
    }

    async fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_rotates_under_load_and_is_rejected_immediately() {
    let (old, new) = (Token::new(), Token::new());
    let server = start(&entry("one", &old)).await;
    let load = Load::start(&server, old.bearer()).await;
    load.proceed().await;
    let channel = channel(&server).await;
    call(&channel, &old.bearer()).await.unwrap();

    let both = entry("one", &old).replace("\"]\nallow", &format!("\", \"{}\"]\nallow", new.digest));
    server.files.write("tollgate.toml", &both);
    reload(&server).await;
    load.use_token(new.bearer()).await;
    server.files.write("tollgate.toml", &entry("one", &new));
    reload(&server).await;
    load.proceed().await;
    // A connection that used the old token before is refused, too.
    let refused = call(&channel, &old.bearer()).await.unwrap_err();
    assert_eq!(reason(&refused).1, "TOKEN_UNKNOWN");

    // After a broken file the callers stay as they are.
    for (broken, why) in [
        ("[[caller]", "unclosed array table"),
        ("", "no [[caller]] is left"),
        (&*(entry("one", &new) + &entry("two", &new)), "has the same digest"),
    ] {
        server.files.write("tollgate.toml", broken);
        server.server.process.signal("-HUP");
        server.files.logged(why, 1).await;
        load.proceed().await;
        let refused = call(&channel, &old.bearer()).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unauthenticated);
    }
    assert!(
        server.files.log().contains("the configuration was not reloaded"),
        "{}",
        server.files.log()
    );
    load.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_set_rotates_under_load_without_a_signal() {
    let (old, new) = (Issuer::new("old"), Issuer::new("new"));
    let files = Files::new(&Authority::new("unused").server());
    files.write("jwks.json", &jwks(&[&old]));
    let config = "[jwt]\nissuer = \"https://issuer.example\"\naudience = \"tollgate\"\n\
                  jwks = \"DIR/jwks.json\"\nalgorithms = [\"EdDSA\"]\n";
    files.write("tollgate.toml", &config.replace("DIR/", &files.text("")));
    let path = files.text("tollgate.toml");
    let server = files.serve(&["--config", &path]).await;
    let mut claims = Issuer::claims("svc", 600);
    claims["tollgate"] = serde_json::json!([":use"]);
    let load = Load::start(&server, old.bearer(&claims)).await;
    load.proceed().await;
    server.files.write("jwks.json", &jwks(&[&old, &new]));
    server.files.logged(RELOADED, 1).await;
    load.use_token(new.bearer(&claims)).await;
    server.files.write("jwks.json", &jwks(&[&new]));
    server.files.logged(RELOADED, 2).await;
    load.proceed().await;
    let refused = call(&channel(&server).await, &old.bearer(&claims)).await.unwrap_err();
    assert_eq!(reason(&refused).1, "JWT_KEY_UNKNOWN");
    server.files.write("jwks.json", "{}");
    server.files.logged("not a JSON key set", 1).await;
    load.proceed().await;
    load.end().await;
}

/// Changed limits of namespaces apply without a restart; a broken file changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_namespaces_are_reloaded() {
    let token = Token::new();
    let limit = |most: &str| format!("[[namespace]]\nmatch = \"*\"\nnames_max = {most}\n");
    let (callers, bearer) = (entry("one", &token), token.bearer());
    let server = start(&format!("{callers}{}", limit("1"))).await;
    let channel = channel(&server).await;
    let next = async |name: &str| {
        let calls = calls(name);
        let call = calls.iter().find(|call| call.method == "NextSequence").unwrap();
        call.make(&channel, &[("authorization", &*bearer)]).await
    };
    next("one").await.unwrap();
    assert_eq!(reason(&next("two").await.unwrap_err()).1, "NAMESPACE_LIMIT");
    server.files.write("tollgate.toml", &format!("{callers}{}", limit("0")));
    server.server.process.signal("-HUP");
    server.files.logged("was not reloaded", 1).await;
    assert_eq!(reason(&next("two").await.unwrap_err()).1, "NAMESPACE_LIMIT");
    server.files.write("tollgate.toml", &format!("{callers}{}", limit("2")));
    reload(&server).await;
    next("two").await.unwrap();
    assert_eq!(reason(&next("three").await.unwrap_err()).1, "NAMESPACE_LIMIT");
}
