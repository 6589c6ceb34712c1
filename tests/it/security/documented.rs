//! The commands of `docs/security.md`.

use std::{fs, path::Path, process::Command};

use crate::support::{
    certificates::{Authority, Files},
    process::Server,
};

/// Returns the contents of all code blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

/// Runs a block of commands in a folder, with `tollgate` on the path. Returns the output.
async fn play(block: &str, folder: &Path, server: Option<&str>) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-ec", block]).current_dir(folder).env("PATH", path);
    command.envs(server.map(|url| ("TOLLGATE_SERVER", url)));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{block}{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_walkthrough_works() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("skipped: no openssl");
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md");
    let page = fs::read_to_string(page).unwrap();
    let commands = blocks(&page, "sh");
    let (callers, makers): (Vec<String>, Vec<String>) =
        commands.into_iter().partition(|block| block.contains("https://localhost:50051"));
    let (open, makers): (Vec<String>, Vec<String>) =
        makers.into_iter().partition(|block| block == "tollgate next order\n");
    assert_eq!((open.len(), makers.len(), callers.len()), (1, 5, 3));

    // The commands of the page replace the certificates that the test created.
    let files = Files::new(&Authority::new("unused").server());
    let folder = files.path("");
    let laptop = Server::start(&[]).await;
    assert_eq!(play(&open[0], &folder, Some(&laptop.address())).await, "1\n");
    for maker in makers {
        play(&maker, &folder, None).await;
    }
    let secret = fs::read_to_string(files.path("operator.secret")).unwrap();
    let digest = secret.lines().find_map(|line| line.strip_prefix("token_sha256: ")).unwrap();
    let toml = blocks(&page, "toml").concat().replace("/etc/tollgate/", &files.text(""));
    let toml = toml.replace("<the digest in operator.secret>", digest);
    files.write("tollgate.toml", &toml);
    let config = files.text("tollgate.toml");
    let server = files.serve(&["--config", &config]).await;
    let port = server.server.port.to_string();
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(play(&caller.replace("50051", &port), &folder, None).await);
    }
    assert_eq!((&*answers[0], &*answers[2]), ("1\n", "1\n"));
}
