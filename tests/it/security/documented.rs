//! The commands of `docs/security.md`.

use std::{fs, path::Path, process::Command};

use crate::support::{
    certificates::{Authority, Files},
    process::tollgate,
};

/// The lines of all blocks of a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_documented_certificates_work() {
    if Command::new("openssl").arg("version").output().is_err() {
        println!("skipped: no openssl");
        return;
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/security.md");
    let page = fs::read_to_string(page).unwrap();
    let commands = blocks(&page, "sh");
    let (makers, callers): (Vec<String>, Vec<String>) =
        commands.into_iter().partition(|command| command.starts_with("openssl "));
    assert_eq!((makers.len(), callers.len()), (3, 1));

    // Certificates of the page replace those of the test.
    let files = Files::new(&Authority::new("unused").server());
    let folder = files.path("");
    for maker in makers {
        let output = Command::new("sh").args(["-ec", &maker]).current_dir(&folder).output();
        let output = output.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{maker}{errors}");
    }
    let toml = blocks(&page, "toml").concat().replace("/etc/tollgate/", &files.text(""));
    files.write("tollgate.toml", &toml);
    let config = files.text("tollgate.toml");
    let server = files.serve(&["--config", &config]).await;

    let call = callers[0].replace("50051", &server.server.port.to_string()).replace("\\\n", " ");
    let arguments: Vec<&str> = call.split_whitespace().skip(1).collect();
    let mut command = tollgate(&arguments);
    command.current_dir(server.files.path(""));
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{call}{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n");
}
