//! `deploy/Dockerfile` and `deploy/compose.yaml`. No test builds the image: that needs a Docker
//! engine. `root.rs` runs the binary as the image does.

use std::process::Command;

use serde_json::Value;

use crate::{
    deploy::{path, queries::has_admin, succeed, text, tool},
    support::process::tollgate,
};

#[test]
fn the_dockerfile_has_no_finding() {
    let Some(hadolint) = tool("hadolint") else { return };
    succeed(Command::new(hadolint).arg("deploy/Dockerfile"));
}

#[test]
fn the_image_contains_what_cargo_needs() {
    let ignore = text("deploy/Dockerfile.dockerignore");
    let included: Vec<&str> = ignore.lines().filter_map(|line| line.strip_prefix('!')).collect();
    // Cargo reads the manifests of all targets and members, although it builds only one.
    for needed in ["Cargo.toml", "Cargo.lock", "build.rs", "src", "proto", "lua", "tests"] {
        assert!(included.contains(&needed), "{needed} is not in the context");
    }
    for name in &included {
        assert!(path(name).exists(), "{name} does not exist");
    }
    let manifest: toml::Table = text("Cargo.toml").parse().unwrap();
    for member in manifest["workspace"]["members"].as_array().unwrap() {
        let member = member.as_str().unwrap().trim_end_matches("/*");
        let is_included =
            included.iter().any(|name| member == *name || member.starts_with(&format!("{name}/")));
        assert!(is_included, "{member} is not in the context");
    }
}

/// The loader of `docker compose`, as a program: compose-go.
#[test]
fn the_compose_file_is_valid() {
    let Some(compose) = tool("compose-go") else { return };
    // The program resolves paths from its working folder, docker compose from the folder of the
    // file.
    let mut command = Command::new(compose);
    command.args(["-format", "json", "compose.yaml"]).current_dir(path("deploy"));
    let json = succeed(&mut command);
    let project: Value = serde_json::from_str(&json).unwrap();
    let services = project["services"].as_object().unwrap();
    assert_eq!(services.len(), 4);
    for (name, service) in services {
        // Published ports belong to this machine.
        for port in service["ports"].as_array().into_iter().flatten() {
            assert_eq!(port["host_ip"], "127.0.0.1", "{name}: {port}");
        }
        for volume in service["volumes"].as_array().into_iter().flatten() {
            if volume["type"] == "bind" {
                let source = volume["source"].as_str().unwrap();
                assert!(std::path::Path::new(source).exists(), "{name}: {source}");
            }
        }
    }
    assert_eq!(services["tollgate"]["read_only"], true);
    if has_admin() {
        succeed(&mut tollgate(&["check-config", "deploy/compose.toml"]));
    }
    let command = &services["redis"]["command"];
    assert!(command.to_string().contains("noeviction"), "{command}");
}
