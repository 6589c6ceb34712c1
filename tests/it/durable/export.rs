//! `tollgate export` and `tollgate import` between all engines: the moved state is equal, record by
//! record, and later decisions have equal outcomes.

mod before;
mod command;
pub mod history;
mod lived;
mod pages;
mod refusals;
pub mod sides;

use std::{fs, path::Path};

use futures_util::future::join_all;
use tollgate::cli::transfer;
use tollgate_core::names::Namespace;
use tollgate_engine::export::Store;

use crate::support::process::TempFolder;
use history::History;
use sides::{Side, stepped};

/// Number of decisions before the first move, and after each move.
const BEFORE: usize = 2500;
const AFTER: usize = 300;

/// The kinds of lines, without the first and the last.
const KINDS: [&str; 12] = [
    "pool",
    "task",
    "rate",
    "rate_replay",
    "sequence",
    "sequence_replay",
    "lock",
    "stock",
    "hold",
    "order",
    "buyer",
    "stock_replay",
];

/// Returns the sorted lines of an export without its first and its last line. Lines that have
/// lapsed at `now` are left out.
async fn archived(store: &mut Store, folder: &TempFolder, now: u64) -> Vec<String> {
    let file = folder.path().join("compared.jsonl");
    transfer::export(store, Some(&file)).await.unwrap();
    lines(&file, now)
}

fn lines(file: &Path, now: u64) -> Vec<String> {
    let text = fs::read_to_string(file).unwrap();
    let mut lines: Vec<String> = text.lines().filter_map(|line| unlapsed(line, now)).collect();
    lines.sort();
    lines
}

fn unlapsed(line: &str, now: u64) -> Option<String> {
    let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
    let lives = |of: &serde_json::Value| of["forget"].as_u64().is_none_or(|forget| forget > now);
    match value["kind"].as_str().unwrap() {
        "archive" | "end" => return None,
        "rate" => {
            // A rate without live counters and without a ban counts as lapsed.
            let counters = value["counters"].as_array().cloned().unwrap_or_default();
            let mut counters: Vec<_> = counters.into_iter().filter(lives).collect();
            counters.sort_by_key(|counter| counter.to_string());
            let ban = value["ban"].take();
            let ban = if lives(&ban) { ban } else { serde_json::Value::Null };
            if counters.is_empty() && ban.is_null() {
                return None;
            }
            (value["counters"], value["ban"]) = (counters.into(), ban);
        }
        _ if !lives(&value) => return None,
        _ => {}
    }
    value.sort_all_objects();
    Some(value.to_string())
}

fn kept_in(folder: &TempFolder, now: u64) -> Store {
    Store::directory(folder.path()).unwrap().on_clock(stepped(now))
}

/// Compares the exports of two stores. Returns their lines.
async fn same(one: &mut Store, other: &mut Store, folder: &TempFolder, now: u64) -> Vec<String> {
    let one = archived(one, folder, now).await;
    let other = archived(other, folder, now).await;
    let less = |one: &[String], other: &[String]| {
        one.iter().filter(|line| !other.contains(line)).cloned().collect::<Vec<_>>()
    };
    assert_eq!(less(&one, &other), less(&other, &one), "lines of one export only");
    assert_eq!(one, other);
    one
}

#[tokio::test(flavor = "multi_thread")]
async fn moved_state_is_equal_and_decides_equally() {
    let seeds = [1, rand::random()];
    println!("seeds {seeds:?}");
    // Both at the same time: they wait for the clocks of their data directories.
    join_all(seeds.map(moved)).await;
}

/// Moves state from Redis to embedded, from embedded to Redis, and from embedded to embedded.
async fn moved(seed: u64) {
    let folders = [TempFolder::new(), TempFolder::new(), TempFolder::new()];
    let scratch = &folders[2];
    fs::create_dir_all(scratch.path()).unwrap();
    let archive = scratch.path().join("moved.jsonl");
    let acme = Namespace::parse(b"acme").unwrap();
    let mut history = History::new(seed).within(&[Namespace::DEFAULT, acme]);

    let redis = Side::redis(history.now).await;
    history.play(&[&redis], BEFORE, seed).await;
    transfer::export(&mut redis.store().await, Some(&archive)).await.unwrap();
    let mut directory = kept_in(&folders[0], history.now);
    transfer::import(&mut directory, &archive, false).await.unwrap();
    let kinds = same(&mut redis.store().await, &mut directory, scratch, history.now).await;
    for kind in KINDS {
        let tag = format!("\"kind\":\"{kind}\"");
        assert!(kinds.iter().any(|line| line.contains(&tag)), "seed {seed}: no {kind}");
        let tags = [&tag, "\"namespace\":\"acme\""];
        let is_of_acme = |line: &String| tags.iter().all(|tag| line.contains(tag));
        assert!(kinds.iter().any(is_of_acme), "seed {seed}: no {kind} of acme");
    }
    drop(directory);
    // The clock of a restarted engine begins after every stored instant.
    history.now += 1000;
    let embedded = Side::embedded(&folders[0], history.now).await;
    history.play(&[&redis, &embedded], AFTER, seed).await;
    embedded.close().await;

    let mut directory = kept_in(&folders[0], history.now);
    same(&mut redis.store().await, &mut directory, scratch, history.now).await;
    transfer::export(&mut directory, Some(&archive)).await.unwrap();
    drop(directory);
    let second = Side::redis(history.now).await;
    transfer::import(&mut second.store().await, &archive, false).await.unwrap();
    second.all_that_lapses_has_a_ttl().await;
    let mut copy = kept_in(&folders[1], history.now);
    transfer::import(&mut copy, &archive, false).await.unwrap();
    same(&mut second.store().await, &mut copy, scratch, history.now).await;
    drop(copy);
    history.now += 1000;
    let (embedded, copy) = (
        Side::embedded(&folders[0], history.now).await,
        Side::embedded(&folders[1], history.now).await,
    );
    history.play(&[&redis, &second, &embedded, &copy], AFTER, seed).await;
    copy.close().await;
    embedded.close().await;
}
