//! Files that are not a configuration: pipes, endless files, and files of other programs.

use std::{os::unix::fs::symlink, process::Command};

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::{PATIENCE, Reloads, errors, pool};
use crate::support::{
    certificates::{Authority, Files},
    process::{free_port, run},
    world::World,
};

fn fifo(files: &Files, name: &str) {
    mknodat(CWD, files.path(name), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn j12_files_without_an_end_are_refused_and_the_server_serves() {
    let reloads = Reloads::start(false, &pool("p", 3)).await;
    let files = reloads.files();
    fifo(files, "fifo");
    std::fs::create_dir(files.path("rules")).unwrap();
    fifo(files, "rules/a.yaml");
    let (cert, pipe) = (files.text("tls.crt"), files.text("fifo"));
    let jwt = |jwks: &str| {
        format!(
            "[jwt]\nissuer = \"x\"\naudience = \"y\"\nalgorithms = [\"EdDSA\"]\n\
             jwks = \"{jwks}\"\n"
        )
    };
    for (sections, key) in [
        (format!("[envoy]\nconfig = {:?}\n", files.text("rules")), "a.yaml"),
        (format!("[tls]\ncert = {cert:?}\nkey = {pipe:?}\n"), "tls.key"),
        (jwt(&pipe), "jwt.jwks"),
        (jwt("/dev/zero"), "jwt.jwks"),
    ] {
        reloads.write(&(pool("p", 4) + &sections));
        let output = reloads.command(&["reload"]).await;
        assert_eq!(output.status.code(), Some(78), "{key}: {}", errors(&output));
        let said = errors(&output);
        assert!(said.contains(key) && said.contains("expected a regular file"), "{said}");
        assert_eq!(reloads.capacity_of("p").await, 3);
    }
    std::fs::remove_file(files.path("tollgate.toml")).unwrap();
    fifo(files, "tollgate.toml");
    let output = reloads.command(&["reload"]).await;
    assert!(errors(&output).contains("expected a regular file"), "{}", errors(&output));
    std::fs::remove_file(files.path("tollgate.toml")).unwrap();
    reloads.write(&pool("p", 5));
    reloads.reload().await;
    assert_eq!(reloads.capacity_of("p").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn j12_a_key_set_that_does_not_answer_delays_no_page_and_no_shutdown() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = listener.local_addr().unwrap();
    let files = Files::new(&Authority::new("unused").server());
    files.write("tollgate.toml", &pool("p", 3));
    let (path, port) = (files.text("tollgate.toml"), free_port());
    let admin = format!("127.0.0.1:{port}");
    let mut server = files.serve(&["--config", &path, "--admin", &admin]).await;
    let caller = "[[caller]]\nname = \"c\"\nallow = [\"use\"]\n\
                  jwt = { claim = \"sub\", value = \"x\" }\n";
    let jwt = format!(
        "[jwt]\nissuer = \"x\"\naudience = \"y\"\nalgorithms = [\"EdDSA\"]\n\
         jwks = \"https://{silent}/keys\"\n"
    );
    server.files.write("tollgate.toml", &(pool("p", 4) + &jwt + caller));
    let address = server.server.address();
    // The reload waits for the key set.
    let reload = tokio::spawn(async move { run(&["reload", "--server", &address]).await });
    let accepted = async {
        loop {
            for path in ["/system", "/livez"] {
                let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
                let (status, text) = crate::admin::exchange(port, request.as_bytes()).await;
                assert_eq!(status, 200, "{path}: {text}");
            }
            World::at(server.server.address()).await.pool("p").await;
            if reload.is_finished() {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, accepted).await.expect("pages and connections are served");
    let output = reload.await.unwrap();
    assert_eq!(output.status.code(), Some(78), "{}", errors(&output));
    // Another fetch is in progress while the server shuts down.
    server.server.process.signal("-HUP");
    server.server.process.signal("-TERM");
    assert_eq!(server.server.process.end(PATIENCE).await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn j18_an_error_quotes_nothing_of_a_file_that_is_not_a_configuration() {
    let reloads = Reloads::start(false, &pool("p", 3)).await;
    let files = reloads.files();
    for secret in ["root:geheim:1:0\n", "other = \"geheim\"\n", "{\"k\": \"geheim\"}\n"] {
        files.write("secret", secret);
        std::fs::remove_file(files.path("tollgate.toml")).unwrap();
        symlink(files.path("secret"), files.path("tollgate.toml")).unwrap();
        let output = reloads.command(&["reload"]).await;
        assert_eq!(output.status.code(), Some(78), "{}", errors(&output));
        let said = errors(&output);
        assert!(said.contains("line 1, column "), "{said}");
        let shown = format!("{said}{}{}", files.log(), reloads.status().await);
        assert!(!shown.contains("geheim"), "{shown}");
    }
    let file = files.text("secret");
    let output =
        Command::new(env!("CARGO_BIN_EXE_tollgate")).args(["check-config", &file]).output();
    let said = String::from_utf8_lossy(&output.unwrap().stderr).into_owned();
    assert!(!said.contains("geheim"), "{said}");
}
