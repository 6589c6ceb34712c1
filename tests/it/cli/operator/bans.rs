//! `tollgate ban`, `unban`, `bans`, `key`, `sequence`, lists of names, and `--namespace`.

use super::{assert_says, ends, keys, objects, prints};
use crate::support::{
    access::Token,
    locks::acquire,
    process::{Server, TempFile, run},
    world::Locks,
};

const POLICY: &str = "[[policy]]\nname = \"login\"\nlimit = [{ max = 3, window = \"1m\" }]\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_banned_listed_and_unbanned() {
    let file = TempFile::new(POLICY);
    let server = Server::start(&["--config", file.path()]).await;
    let of_login = ["--policy", "login"];
    let named = ["ban", "ip:192.0.2.7", "--for", "1h", "--reason", "abuse", "--actor", "Änne"];
    let banned = prints(&server, &[&named[..], &of_login].concat()).await;
    assert!(banned.starts_with("ip:192.0.2.7: banned until 20"), "{banned}");
    assert!(banned.ends_with(", strike 1\n"), "{banned}");
    let (code, said, _) = ends(&server, &["rate", "ip:192.0.2.7", "--policy", "login"]).await;
    assert_eq!(code, Some(1));
    assert_says(&said, &["BAN", "abuse", "by Änne"]);

    let list = prints(&server, &["bans", "--policy", "login"]).await;
    assert_says(&list, &["KEY", "ENDS IN", "ip:192.0.2.7", "59m", "abuse", "Änne"]);
    assert_eq!(prints(&server, &["bans"]).await.lines().count(), 1, "none of other rules");
    let ban = objects(&server, &["bans", "--policy", "login"]).await.remove(0);
    assert_eq!(keys(&ban), ["key", "until", "reason", "strikes", "actor"]);

    let unban = [&["unban", "ip:192.0.2.7"][..], &of_login].concat();
    assert_says(&prints(&server, &unban).await, &["the ban is lifted"]);
    assert_says(&prints(&server, &unban).await, &["was not banned"]);
    assert_eq!(objects(&server, &unban).await[0].to_string(), r#"{"existed":false}"#);
    let (code, ..) = ends(&server, &["rate", "ip:192.0.2.7", "--policy", "login"]).await;
    assert_eq!(code, Some(0));

    let (code, _, stderr) = ends(&server, &["bans", "--policy", "logout"]).await;
    assert_eq!(code, Some(69));
    assert_says(&stderr, &["list the bans of `logout`", "NOT_FOUND", "configuration"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shown_without_a_call() {
    let file = TempFile::new(POLICY);
    let server = Server::start(&["--config", file.path()]).await;
    let get = ["key", "ip:192.0.2.7", "--policy", "login"];
    let unused = "ip:192.0.2.7: not banned, strikes 0\n  0/3 used, 3 left\n";
    assert_eq!(prints(&server, &get).await, unused);
    prints(&server, &["rate", "ip:192.0.2.7", "--policy", "login", "--count", "2"]).await;
    for _ in 0..2 {
        assert_says(&prints(&server, &get).await, &["\n  2/3 used, 1 left, reset in "]);
    }
    let ban = ["ban", "ip:192.0.2.7", "--policy", "login", "--for", "1h", "--reason", "abuse"];
    prints(&server, &ban).await;
    let said = prints(&server, &get).await;
    assert_says(&said, &["ip:192.0.2.7: banned until 20", ", strike 1, abuse\n  2/3 used"]);
    let key = objects(&server, &get).await.remove(0);
    assert_eq!(keys(&key), ["limits", "ban", "strikes"]);
    assert_eq!((&key["limits"][0]["count"], &key["strikes"]), (&"2".into(), &1.into()));
    let (code, _, stderr) = ends(&server, &["key", "k", "--policy", "logout"]).await;
    assert_eq!(code, Some(69));
    assert_says(&stderr, &["get the key `k`", "NOT_FOUND", "configuration"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_value_of_a_sequence_is_shown_without_allocating_one() {
    let server = Server::start(&[]).await;
    let get = ["sequence", "get", "order"];
    assert_eq!(prints(&server, &get).await, "order: no value has been issued\n");
    prints(&server, &["next", "order", "--count", "42"]).await;
    for _ in 0..2 {
        assert_says(&prints(&server, &get).await, &["order: last 42, issued 20"]);
    }
    let value = objects(&server, &get).await.remove(0);
    assert_eq!(value["last"], "42");
    let of_sequence = ["last", "updateTime", "serial", "serverValues", "serverScriptCalls"];
    assert_eq!(keys(&value), of_sequence);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_floor_moves_a_sequence_or_reports_that_it_did_not() {
    let server = Server::start(&[]).await;
    let set = ["sequence", "floor", "order", "42000"];
    assert_eq!(prints(&server, &set).await, "order: the next value is at least 42000\n");
    let answer = objects(&server, &set).await.remove(0);
    assert_eq!(answer, serde_json::json!({"applied": true, "last": "41999", "serial": ""}));
    let (code, said, _) = ends(&server, &["sequence", "floor", "order", "7"]).await;
    assert_eq!(code, Some(1));
    assert_eq!(said, "order: last 41999; the floor 7 is not above it, nothing changed\n");
    let wrong = run(&["sequence", "floor", "order", "9223372036854775808"]).await;
    assert_eq!(wrong.status.code(), Some(64));
}

#[tokio::test(flavor = "multi_thread")]
async fn locks_sequences_and_stock_are_listed_by_prefix() {
    let server = Server::start(&[]).await;
    for words in [&["lock", "list"][..], &["sequence", "list"], &["stock", "list"]] {
        assert_eq!(prints(&server, words).await.lines().count(), 1, "only headings");
    }
    let mut locks = Locks::connect(server.address()).await.unwrap();
    for name in ["a:1", "a:2", "list"] {
        locks.acquire_lock(acquire(name, "me")).await.unwrap();
        prints(&server, &["next", name, "--count", "3"]).await;
        prints(&server, &["stock", "set", name, "7"]).await;
    }
    assert_eq!(prints(&server, &["lock", "list"]).await.lines().count(), 4);
    let list = prints(&server, &["lock", "list", "--prefix", "a:1"]).await;
    assert_says(&list, &["LOCK  OWNER", "ENDS IN  WAITING", "a:1   me"]);
    let list = prints(&server, &["sequence", "list", "--prefix", "a:1"]).await;
    assert_says(&list, &["SEQUENCE  LAST  SERIAL  GIVEN OUT", "a:1          3  -       20"]);
    let list = prints(&server, &["stock", "list", "--prefix", "a:1"]).await;
    let expected =
        "SKU  ON HAND  AVAILABLE  RESERVED  SOLD\na:1        7          7         0     0\n";
    assert_eq!(list, expected);

    let lock = objects(&server, &["lock", "list", "--prefix", "a:2"]).await.remove(0);
    assert_eq!(keys(&lock), ["name", "lease", "waiters"]);
    let sequence = objects(&server, &["sequence", "list", "--prefix", "a:2"]).await.remove(0);
    assert_eq!(sequence["last"], "3");
    let stock = objects(&server, &["stock", "list", "--prefix", "a:"]).await;
    assert_eq!((stock.len(), &stock[0]["onHand"]), (2, &serde_json::json!("7")));

    // With an option before it, `list` is the name of a lock.
    let address = server.address();
    let output = run(&["lock", "--server", &address, "list", "--", "true"]).await;
    assert_eq!(output.status.code(), Some(1), "another owner holds it");
    let output = run(&["stock", "list", "--prefix", "a\u{7}"]).await;
    assert_eq!(output.status.code(), Some(64));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_of_several_namespaces_chooses_one() {
    let (token, secret) = (Token::new(), TempFile::new(""));
    std::fs::write(secret.path(), token.bearer().trim_start_matches("Bearer ")).unwrap();
    let file = TempFile::new(&format!(
        "[[caller]]\nname = \"ops\"\ntoken_sha256 = [\"{}\"]\nnamespace = \"*\"\n\
         allow = [\"use\", \"read\", \"manage\"]\n",
        token.digest
    ));
    let server = Server::start(&["--config", file.path()]).await;
    let in_acme = ["--token-file", secret.path(), "--namespace", "acme"];
    prints(&server, &[&["next", "order", "--count", "7"][..], &in_acme].concat()).await;
    let get = ["sequence", "get", "order"];
    assert_says(&prints(&server, &[&get[..], &in_acme].concat()).await, &["last 7"]);
    let elsewhere = prints(&server, &[&get[..], &["--token-file", secret.path()]].concat()).await;
    assert_eq!(elsewhere, "order: no value has been issued\n");
    let output = run(&["sequence", "get", "order", "--namespace", "a/b"]).await;
    assert_eq!(output.status.code(), Some(64));
}
