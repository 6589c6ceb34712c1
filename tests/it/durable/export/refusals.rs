//! Refused imports and exports, which write nothing.

use std::{fs, path::PathBuf};

use tollgate::cli::transfer;
use tollgate_engine::{
    export::{Failure, Store},
    redis::{RedisOptions, unfinished_import},
};

use crate::support::process::{OwnRedis, TempFolder};

const FIRST: &str =
    r#"{"kind":"archive","version":1,"tollgate":"0.1.0","source":"redis","time":1767225600000000}"#;
const ORDER: &str = r#"{"kind":"sequence","sequence":"order","last":7,"time":1767225600000000}"#;
const END: &str = r#"{"kind":"end","lines":1,"counts":{"sequence":1}}"#;

fn file(folder: &TempFolder, lines: &[&str]) -> PathBuf {
    fs::create_dir_all(folder.path()).unwrap();
    let path = folder.path().join("archive.jsonl");
    fs::write(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    path
}

/// Returns the error of an import into a new directory.
async fn refusal(lines: &[&str]) -> String {
    let (files, folder) = (TempFolder::new(), TempFolder::new());
    let path = file(&files, lines);
    let mut store = Store::directory(folder.path()).unwrap();
    let failure = transfer::import(&mut store, &path, false).await.unwrap_err();
    // Nothing was written: a complete file is accepted afterwards.
    let path = file(&files, &[FIRST, ORDER, END]);
    transfer::import(&mut store, &path, false).await.unwrap();
    failure.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_incomplete_export_is_refused() {
    for (lines, says) in [
        (&[][..], "not an export"),
        (&[ORDER, END], "not an export"),
        (&[FIRST], "cut off after line 1"),
        (&[FIRST, ORDER], "cut off after line 2"),
        (&[&FIRST.replace(":1,", ":9,"), ORDER, END], "version 9"),
        (&[FIRST, END], "line 2: the counts are wrong"),
        (&[FIRST, ORDER, ORDER, END], "line 4: the counts are wrong"),
        (&[FIRST, ORDER, END, ORDER], "line 4: data after the last line"),
        (&[FIRST, "{", END], "line 2: column"),
        (&[FIRST, r#"{"kind":"dream"}"#, END], "line 2: column"),
        (&[FIRST, &ORDER.replace("last", "least"), END], "unknown field `least`"),
        (&[FIRST, &ORDER.replace("order", ""), END], "line 2: sequence is required"),
        (&[FIRST, &ORDER.replace(":7,", ":9223372036854775808,"), END], "last is 92233"),
    ] {
        let said = refusal(lines).await;
        assert!(said.contains(says), "{lines:?}: {said}");
    }
    // Files that are cut at every byte.
    let (files, folder) = (TempFolder::new(), TempFolder::new());
    let path = file(&files, &[FIRST, ORDER, END]);
    let whole = fs::read(&path).unwrap();
    // Opened once: a process that another test starts may hold the lock for a moment, too.
    let mut store = Store::directory(folder.path()).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let imported = transfer::import(&mut store, &path, false).await;
        assert!(matches!(imported, Err(Failure::Unfit(_))), "{length} bytes: {imported:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_with_state_is_refused_without_replace() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let options = RedisOptions::new(&redis.url());
    let (files, folder) = (TempFolder::new(), TempFolder::new());
    let path = file(&files, &[FIRST, ORDER, END]);
    for mut store in
        [Store::directory(folder.path()).unwrap(), Store::redis(&options).await.unwrap()]
    {
        transfer::import(&mut store, &path, false).await.unwrap();
        let again = transfer::import(&mut store, &path, false).await;
        assert!(matches!(again, Err(Failure::Occupied(_))), "{again:?}");
        let other = ORDER.replace("order", "other");
        let path = file(&files, &[FIRST, &other, END]);
        transfer::import(&mut store, &path, true).await.unwrap();
        let out = files.path().join("out.jsonl");
        transfer::export(&mut store, Some(&out)).await.unwrap();
        let text = fs::read_to_string(&out).unwrap();
        assert!(text.contains(&other) && !text.contains("\"order\""), "{text}");
        file(&files, &[FIRST, ORDER, END]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_server_starts_on_an_unfinished_import() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let options = RedisOptions::new(&redis.url());
    assert_eq!(unfinished_import(&options).await, None);
    // The key that a killed import leaves behind.
    redis.command(&["SET", "tollgate:import", "1"]).await.unwrap();
    let why = unfinished_import(&options).await.expect("the unfinished import was not reported");
    assert!(why.contains("--replace"), "{why}");
    let mut command = crate::support::process::tollgate(&["serve", "--engine", &redis.url()]);
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert_eq!(output.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&output.stderr).contains("tollgate import"));

    let files = TempFolder::new();
    let path = file(&files, &[FIRST, ORDER, END]);
    let mut store = Store::redis(&options).await.unwrap();
    let refused = transfer::import(&mut store, &path, false).await;
    assert!(matches!(refused, Err(Failure::Occupied(_))), "{refused:?}");
    transfer::import(&mut store, &path, true).await.unwrap();
    assert_eq!(unfinished_import(&options).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_state_is_not_exported() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let files = TempFolder::new();
    fs::create_dir_all(files.path()).unwrap();
    let out = files.path().join("out.jsonl");
    for (key, value, says) in [
        ("tollgate:{lock:nightly}:lock", "x", "{lock:nightly}"),
        ("tollgate:{admission:p}:token", "7 9 ab:cd 1 4503599627370000 1", "after a failover"),
        ("tollgate:{admission:p}:queued", "x", "{admission:p}"),
        ("tollgate:{admission:p}:task:a\x1fb", "L", "{admission:p}"),
    ] {
        redis.command(&["FLUSHALL"]).await.unwrap();
        redis.command(&["SET", key, value]).await.unwrap();
        let mut store = Store::redis(&RedisOptions::new(&redis.url())).await.unwrap();
        let failure = transfer::export(&mut store, Some(&out)).await.unwrap_err().to_string();
        assert!(failure.contains(says), "{key}: {failure}");
        assert_eq!(fs::read_dir(files.path()).unwrap().count(), 0, "a failed export leaves a file");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_a_lost_primary_may_have_given_out_are_skipped() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let counter = "tollgate:{sequence:order}:counter";
    let (last, reserved) = (["last", "7", "time", "1"], ["reserved", "50", "epoch", "ab"]);
    let command = [&["HSET", counter][..], &last, &reserved].concat();
    redis.command(&command).await.unwrap();
    let files = TempFolder::new();
    fs::create_dir_all(files.path()).unwrap();
    let out = files.path().join("out.jsonl");
    let mut store = Store::redis(&RedisOptions::new(&redis.url())).await.unwrap();
    transfer::export(&mut store, Some(&out)).await.unwrap();
    assert!(fs::read_to_string(&out).unwrap().contains("\"last\":50"));
    let info = redis.command(&["INFO", "replication"]).await.unwrap();
    let info: String = redis::from_redis_value(info).unwrap();
    let epoch = info.lines().find_map(|line| line.strip_prefix("master_replid:")).unwrap();
    redis.command(&["HSET", counter, "epoch", epoch.trim()]).await.unwrap();
    transfer::export(&mut store, Some(&out)).await.unwrap();
    assert!(
        fs::read_to_string(&out).unwrap().contains("\"last\":7"),
        "values were skipped for the same primary"
    );
}
