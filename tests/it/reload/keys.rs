//! Keys that need a restart, and keys that flags replace.

use super::{Reloads, errors, pool, printed};

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_needs_a_restart_refuses_the_whole_reload_by_name() {
    let reloads = Reloads::with(false, "workers = 2\n", &pool("p", 3), &[]).await;
    for (top, sections, key, old, new) in [
        ("workers = 3\n", "", "workers", "2", "3"),
        (
            "engine = \"redis://user:geheim@127.0.0.1:1\"\n",
            "",
            "engine",
            "\"embedded\"",
            "redis://…@127.0.0.1:1",
        ),
        ("data_dir = \"/nowhere\"\n", "", "data_dir", "not set", "/nowhere"),
        ("memory_max = \"64MiB\"\n", "", "memory_max", "not set", "64MiB"),
        ("log_format = \"json\"\n", "", "log_format", "text", "json"),
        ("connections_max = 7\n", "", "connections_max", "16384", "7"),
        ("drain_timeout = \"1s\"\n", "", "drain_timeout", "10s", "1s"),
        ("replicas = 2\n", "", "replicas", "not set", "2"),
        ("", "[redis]\nkey_prefix = \"x\"\n", "redis.key_prefix", "not set", "x"),
        (
            "",
            "[redis]\nsentinel_password = \"geheim\"\n",
            "redis.sentinel_password",
            "not set",
            "…",
        ),
        ("", "[[namespace]]\nmatch = \"*\"\nleases_max = 5\n", "leases_max", "not set", "5"),
    ] {
        let top = if key == "workers" { top.to_owned() } else { format!("workers = 2\n{top}") };
        reloads.write_with(&top, &(pool("p", 9) + sections));
        for arguments in [&["reload", "--dry-run"][..], &["reload"]] {
            let output = reloads.command(arguments).await;
            let said = errors(&output);
            assert_eq!(output.status.code(), Some(1), "{key}: {said}");
            for part in [key, old, new, "restart the server"] {
                assert!(said.contains(part), "{key}: no `{part}` in {said}");
            }
            assert!(!said.contains("geheim"), "{said}");
            // The other keys of the file do not apply, either.
            assert!(!said.contains("capacity"), "{said}");
            assert_eq!(reloads.capacity_of("p").await, 3);
        }
    }
    assert!(!reloads.files().log().contains("geheim"), "{}", reloads.files().log());
    reloads.write_with("workers = 2\n", &pool("p", 9));
    assert!(reloads.reload().await.contains("capacity: 3 -> 9"));
    assert_eq!(reloads.capacity_of("p").await, 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_cannot_be_switched_on_by_a_reload() {
    let reloads = Reloads::start(false, &pool("p", 3)).await;
    let (cert, key) = (reloads.files().text("tls.crt"), reloads.files().text("tls.key"));
    reloads.write(&format!("{}[tls]\ncert = {cert:?}\nkey = {key:?}\n", pool("p", 4)));
    let output = reloads.command(&["reload"]).await;
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("tls: old = off, new = on"), "{}", errors(&output));
    assert_eq!(reloads.capacity_of("p").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_continue_to_win_over_the_file() {
    let flags = ["--log-level", "warn", "--memory-max", "1GiB"];
    let reloads = Reloads::with(false, "", &pool("p", 3), &flags).await;
    // The listener comes from a flag, too.
    let top = "listen = \"127.0.0.1:1\"\nlog_level = \"debug\"\nmemory_max = \"64MiB\"\n";
    reloads.write_with(top, &pool("p", 3));
    let shown = reloads.command(&["reload", "--dry-run"]).await;
    assert!(printed(&shown).starts_with("no difference"), "{}{}", printed(&shown), errors(&shown));
    reloads.reload().await;
    assert!(!reloads.files().log().contains("DEBUG"));
}
