//! `tollgate health`: its output and its exit codes.

use std::{net::TcpListener, time::Duration};

use crate::support::process::{OwnRedis, Server, free_port, run};

/// Runs the command. Returns its exit code, standard output and standard error.
async fn health(server: &str, flags: &[&str]) -> (Option<i32>, String, String) {
    let output = run(&[&["health", "--server", server], flags].concat()).await;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_and_each_of_its_services_are_serving() {
    let server = Server::start(&[]).await;
    let address = server.address();
    for service in ["", "tollgate.v1.AdmissionService", "tollgate.v1.StockService"] {
        let (code, stdout, stderr) = health(&address, &["--service", service]).await;
        assert_eq!((code, &*stdout, &*stderr), (Some(0), "SERVING\n", ""), "{service}");
    }
    let (code, stdout, stderr) = health(&address, &["--service", "tollgate.v1.Nothing"]).await;
    assert_eq!((code, &*stdout), (Some(69), ""));
    for part in ["NOT_FOUND", "tollgate.v1.Nothing", "tollgate.v1.LockService"] {
        assert!(stderr.contains(part), "{part:?} is not in {stderr:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_redis_is_not_serving() {
    let redis = OwnRedis::prepare();
    let server = Server::start(&["--engine", &redis.url()]).await;
    let (code, stdout, stderr) = health(&server.address(), &[]).await;
    assert_eq!((code, &*stdout, &*stderr), (Some(1), "NOT_SERVING\n", ""));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_an_answer_the_command_ends_within_its_timeout() {
    let (code, stdout, stderr) = health(&format!("127.0.0.1:{}", free_port()), &[]).await;
    assert_eq!((code, &*stdout), (Some(69), ""), "{stderr}");
    assert!(stderr.contains("UNAVAILABLE") && stderr.contains("--server"), "{stderr}");

    // A peer that accepts connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let asked = async { health(&address, &["--timeout", "200ms"]).await };
    let asked = tokio::time::timeout(Duration::from_secs(20), asked).await;
    let (code, stdout, stderr) = asked.expect("the command ends by itself");
    assert_eq!((code, &*stdout), (Some(69), ""), "{stderr}");
    for part in ["no answer within 200ms", &address] {
        assert!(stderr.contains(part), "{part:?} is not in {stderr:?}");
    }
}
