//! Overview, system and reload.

use super::{ALL, ConsoleServer, READ, caller};
use crate::support::{access::Token, process::Server, world::admit};

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_shows_its_differences_first() {
    let server = ConsoleServer::start("[[pool]]\nmatch = \"ar:*\"\ncapacity = 5\n").await;
    let system = server.get("/system", "").await.body;
    assert!(system.contains("<code>pool[&#34;ar:*&#34;].capacity</code>"), "{system}");
    assert!(
        server.get("/reload", "").await.body.contains("The files match the configuration in use")
    );
    let files = &server.inner.files;
    // A change that only ReloadConfig applies immediately.
    let change = |capacity: &str| {
        let text =
            format!("log_format = \"json\"\n[[pool]]\nmatch = \"ar:*\"\ncapacity = {capacity}\n");
        files.write("tollgate.toml", &text);
    };
    change("many");
    let broken = server.get("/reload", "").await;
    assert!(broken.status == 200 && broken.body.contains("cannot be used"), "{broken:?}");
    assert!(!broken.body.contains("Reload now"));
    change("7");
    server.get("/reload", "").await;
    let message = server.act("/reload", "action=reload").await;
    assert!(message.contains("Applied 1 differences") || message.contains("no differences"));
    let system = server.get("/system", "").await.body;
    assert!(system.contains("<td><code>7</code></td>"), "{system}");
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_hidden_and_limits_are_shown() {
    let (admin, reader, tenant) = (Token::new(), Token::new(), Token::new());
    let config = [
        caller("admin", &admin, ALL, "namespace = \"*\""),
        caller("reader", &reader, READ, "namespace = \"*\""),
        caller("tenant", &tenant, ALL, "namespace = \"acme\""),
        "[[namespace]]\nmatch = \"acme\"\nin_flight_max = 50\n".to_owned(),
    ]
    .concat();
    let server = ConsoleServer::start(&config).await;
    let mut client = server.client().await;
    let mut call = tonic::Request::new(admit("p", "d", "t"));
    call.metadata_mut().insert("authorization", tenant.bearer().parse().unwrap());
    client.admit_task(call).await.unwrap();

    let cookie = server.sign_in(&admin).await;
    let system = server.get("/system", &cookie).await.body;
    for secret in [&admin, &reader, &tenant] {
        assert!(!system.contains(&secret.digest) && !system.contains(&secret.text), "{system}");
    }
    assert!(system.contains("<th scope=\"row\">acme</th><td>in_flight_max</td>"), "{system}");
    assert!(system.contains("<td class=\"number\">50</td>") && system.contains("/reload"));
    let reader = server.sign_in(&reader).await;
    let system = server.get("/system", &reader).await;
    assert!(system.status == 200 && !system.body.contains("/reload"), "{system:?}");
    assert_eq!(server.get("/reload", &reader).await.status, 403);
    let refused = server.post("/reload", &reader, "action=reload").await;
    assert_eq!(refused.status, 403, "{refused:?}");
    let tenant = server.sign_in(&tenant).await;
    assert_eq!(server.get("/system", &tenant).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_overview_compares_the_servers_with_replicas() {
    const WRONG: &str = "<b>Wrong <code>replicas</code>.</b>";
    let server = ConsoleServer::on_redis("replicas = 2\n").await;
    let url = server.redis.as_ref().unwrap().url();
    let counted = async |servers: u32| {
        let fact = format!("<dt>Servers on this Redis</dt><dd>{servers}</dd>");
        let shown = server.until(&fact, "/", "", |reply| reply.body.contains(&fact)).await.body;
        assert!(shown.contains("<dt>Configured <code>replicas</code></dt><dd>2</dd>"), "{shown}");
        shown
    };
    let alone = counted(1).await;
    assert!(alone.contains(WRONG) && alone.contains("are too small"), "{alone}");
    let _second = Server::start(&["--engine", &url]).await;
    let both = counted(2).await;
    assert!(!both.contains(WRONG), "{both}");
    let _third = Server::start(&["--engine", &url]).await;
    let three = counted(3).await;
    assert!(three.contains(WRONG) && three.contains("are too large"), "{three}");
    let embedded = ConsoleServer::start("").await.get("/", "").await.body;
    assert!(!embedded.contains("Servers on this Redis"), "{embedded}");
}
