//! What an operator types, and the triggers of a reload.

use super::{Reloads, errors, mount, pool, printed};
use crate::support::{
    certificates::{Authority, Files, RELOADED},
    process::{Server, run},
    world::World,
};

/// Edits the file, reviews the difference, and applies it.
async fn an_edit_is_shown_by_a_dry_run_and_applied_by_a_reload(redis: bool) {
    let reloads = Reloads::start(redis, &pool("p", 3)).await;
    assert_eq!(reloads.capacity_of("p").await, 3);
    let before = reloads.status().await;
    reloads.write(&(pool("p", 5) + "retention = \"2h\"\n" + &pool("q", 7)));

    let shown = reloads.command(&["reload", "--dry-run"]).await;
    assert_eq!(shown.status.code(), Some(0), "{}", errors(&shown));
    let expected = "pool: \"p\" -> \"p\", \"q\"\npool[\"p\"].capacity: 3 -> 5\n\
                    pool[\"p\"].retention: not set -> \"2h\"\n\
                    pool[\"q\"].capacity: not set -> 7\n\
                    4 differences; nothing was changed (--dry-run)\n";
    let capacity = reloads.capacity_of("p").await;
    let after = reloads.status().await;
    // Unless the check of the contents came first.
    if !reloads.files().log().contains(RELOADED) {
        assert_eq!(printed(&shown), expected);
        assert_eq!(capacity, 3, "the dry run changed something");
        assert_eq!(configuration(&before), configuration(&after));
    }
    reloads.reload().await;
    assert_eq!(reloads.capacity_of("p").await, 5);
    assert_eq!(reloads.capacity_of("q").await, 7);
    assert!(reloads.reload().await.starts_with("no difference; the configuration "));
    assert_ne!(configuration(&before), configuration(&reloads.status().await));
}

/// Returns the line of the status about the configuration.
fn configuration(status: &str) -> &str {
    status.lines().find(|line| line.starts_with("configuration")).unwrap()
}

mod embedded {
    #[tokio::test(flavor = "multi_thread")]
    async fn an_edit_is_shown_by_a_dry_run_and_applied_by_a_reload() {
        super::an_edit_is_shown_by_a_dry_run_and_applied_by_a_reload(false).await;
    }
}

mod redis {
    #[tokio::test(flavor = "multi_thread")]
    async fn an_edit_is_shown_by_a_dry_run_and_applied_by_a_reload() {
        super::an_edit_is_shown_by_a_dry_run_and_applied_by_a_reload(true).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_names_file_line_and_key_and_the_old_settings_stay() {
    let reloads = Reloads::start(false, &pool("p", 3)).await;
    let good = pool("p", 3);
    for (broken, expected) in [
        (format!("{}[[pool]\n", pool("p", 4)), "line 4"),
        (pool("p", 4) + &pool("q", 2_000_000), "line 6, column 12"),
        (pool("p", 4) + &pool("[", 4), "pool[1].match: not a glob"),
        (pool("p", 4) + "speed = 1\n", "unknown field `speed`"),
        (pool("p", 4) + "[[policy]]\nname = \"x\"\n", "policy[0].limit"),
        (pool("p", 4) + "[tls]\ncert = \"/nowhere\"\n", "tls.key: expected the private key"),
    ] {
        reloads.write(&broken);
        let output = reloads.command(&["reload"]).await;
        assert_eq!(output.status.code(), Some(78), "{broken}: {}", errors(&output));
        let path = reloads.files().text("tollgate.toml");
        for part in [&*path, expected, "keeps its configuration"] {
            assert!(errors(&output).contains(part), "no `{part}` in {}", errors(&output));
        }
        assert_eq!(reloads.capacity_of("p").await, 3);
        let status = reloads.status().await;
        assert!(status.contains("last reload    failed since"), "{status}");
        assert!(status.contains(&path), "{status}");
    }
    reloads.write(&(good + &pool("[", 4)));
    let output = reloads.command(&["reload"]).await;
    assert!(errors(&output).contains("(line 5)"), "{}", errors(&output));
    reloads.write(&pool("p", 6));
    reloads.reload().await;
    assert_eq!(reloads.capacity_of("p").await, 6);
    assert!(!reloads.status().await.contains("last reload"));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_say_what_to_do_where_nothing_can_be_reloaded() {
    let server = Server::start(&[]).await;
    let address = server.address();
    let output = run(&["reload", "--server", &address]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("restart it with --config FILE"), "{}", errors(&output));
    let status = printed(&run(&["status", "--server", &address]).await);
    for line in
        ["engine         embedded, memory", "readiness      ready", "configuration  no file"]
    {
        assert!(status.contains(line), "{status}");
    }
    assert!(!status.contains("servers "), "{status}");
    drop(server);
    for command in ["reload", "status"] {
        let output = run(&[command, "--server", &address]).await;
        assert_eq!(output.status.code(), Some(69), "{command}");
        assert!(errors(&output).contains("start a server with `tollgate serve`"));
    }
}

/// As Kubernetes updates a ConfigMap: the file is a symlink through a folder that is itself a
/// symlink. Only the latter is replaced, and no signal is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_swapped_symlink_is_noticed() {
    let files = Files::new(&Authority::new("unused").server());
    mount(&files, "2026_1", &pool("p", 3));
    let path = files.text("mount/tollgate.toml");
    let server = files.serve(&["--config", &path]).await;
    let world = World::at(server.server.address()).await;
    for (version, capacity) in [("2026_2", 4), ("2026_3", 5)] {
        let times = server.files.log().matches(RELOADED).count() + 1;
        mount(&server.files, version, &pool("p", capacity));
        server.files.logged(RELOADED, times).await;
        assert_eq!(world.pool("p").await.usage.unwrap().capacity, capacity);
    }
    // A version that is broken, and one in which the file is missing for a moment.
    mount(&server.files, "2026_4", "[[pool]");
    server.files.logged("was not reloaded", 1).await;
    assert_eq!(world.pool("p").await.usage.unwrap().capacity, 5);
}

/// An export needs only the engine of the configuration, and no certificate.
#[tokio::test(flavor = "multi_thread")]
async fn an_export_does_not_read_the_certificates_of_the_server() {
    let files = Files::new(&Authority::new("ours").expired());
    let (config, missing) = (files.configure(""), files.text("missing"));
    let output = run(&["export", "--config", &config, "--data-dir", &missing]).await;
    // The data directory does not exist.
    assert_eq!(output.status.code(), Some(66), "{}", errors(&output));
}
