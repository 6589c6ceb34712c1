//! The commands on real files and in real time: running leases survive the moves.

use std::{fs, path::Path, time::Duration};

use tollgate_client::pb;

use crate::{
    durable::restarts::{POLICIES, end, start},
    support::{
        process::{OwnRedis, Server, TempFile, TempFolder, done, run},
        queue::{batch, queued},
        rates::under,
        sequences::next,
        stocks::{Shop, reserve},
        world::{Undated, World, capacity},
    },
};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_moves_to_redis_and_back_with_its_leases() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (folder, files) = (TempFolder::new(), TempFolder::new());
    let (back, config) = (TempFolder::new(), TempFile::new(POLICIES));
    fs::create_dir_all(files.path()).unwrap();
    let archive = files.path().join("moved.jsonl").to_str().unwrap().to_owned();

    let (server, world) = start(&folder, &config, "always").await;
    world.configure(capacity("p", 2)).await;
    let lease = world.admit("p", "camera-1", "a").await.lease.unwrap();
    world.admit("p", "camera-2", "a").await;
    world.complete("p", "camera-2", "a").await;
    let tasks = vec![queued("camera-3", "t1")];
    world.client.clone().enqueue_tasks(batch("p", tasks)).await.unwrap();
    for _ in 0..4 {
        world.rates.clone().check_rate(under("crawler", "reads")).await.unwrap();
    }
    let serial = world.sequences.clone().next_sequence(next("order")).await.unwrap().into_inner();
    let shop = Shop::from_world(world).await;
    shop.set("tv", 10).await;
    shop.reserve(reserve("tv", "o1", 3)).await;

    let taken = run(&["export", "--data-dir", folder.text(), "--output", &archive]).await;
    assert_eq!(taken.status.code(), Some(69), "the directory is in use");
    assert!(String::from_utf8_lossy(&taken.stderr).contains("stop that first"));
    end(server, "-TERM").await;

    done(&["export", "--data-dir", folder.text(), "--output", &archive]).await;
    let said = done(&["import", "--engine", &redis.url(), &archive]).await;
    assert!(said.starts_with("imported and counted: ") && said.contains("task 3"), "{said}");
    let engine = redis.url();
    let server = Server::start(&["--engine", &engine, "--config", config.path()]).await;
    moved(&server, &lease, serial.last, 1).await;
    end(server, "-TERM").await;

    let again = run(&["import", "--engine", &redis.url(), &archive]).await;
    assert_eq!(again.status.code(), Some(73), "the target is not empty");
    // Exports to standard output, as for a pipe.
    let text = done(&["export", "--engine", &redis.url()]).await;
    fs::write(&archive, text).unwrap();
    done(&["import", "--data-dir", back.text(), &archive]).await;
    let (server, _world) = start(&back, &config, "always").await;
    moved(&server, &lease, serial.last, 2).await;
}

/// Returns the clients of a server that has reached its Redis; it listens before that.
async fn reached(server: &Server) -> World {
    let world = World::at(server.address()).await;
    while world.client.clone().list_pools(pb::ListPoolsRequest::default()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world
}

/// Checks the state after each move.
async fn moved(server: &Server, lease: &pb::Lease, last: u64, moves: u64) {
    let world = reached(server).await;
    let again = world.admit("p", "camera-1", "a").await;
    assert!(again.replayed);
    assert_eq!(again.lease.undated(), Some(lease.undated()), "the same token, the same end");
    let done = world.complete("p", "camera-2", "a").await;
    assert_eq!(done.verdict(), pb::CompleteVerdict::AlreadyCompleted);
    let dispatched = world.admit("p", "camera-3", "").await.lease.unwrap();
    assert_eq!(dispatched.task_id, "t1");
    assert!(dispatched.fencing_token > lease.fencing_token);
    let full = world.admit("p", "camera-4", "a").await;
    assert_eq!(full.decision(), pb::AdmitDecision::Full);
    let pools = world.client.clone().list_pools(pb::ListPoolsRequest::default()).await.unwrap();
    assert_eq!(pools.into_inner().pools.len(), 1);
    let banned = world.rates.clone().check_rate(under("crawler", "reads")).await.unwrap();
    assert!(banned.into_inner().ban.is_some());
    let bans = pb::ListBansRequest { policy: "reads".into(), ..Default::default() };
    let bans = world.rates.clone().list_bans(bans).await.unwrap().into_inner().bans;
    assert_eq!(bans.len(), 1, "the ban is not listed");
    let serial = world.sequences.clone().next_sequence(next("order")).await.unwrap().into_inner();
    assert_eq!(serial.last, last + moves);
    let shop = Shop::from_world(world).await;
    assert!(shop.reserve(reserve("tv", "o1", 3)).await.replayed);
    assert_eq!(shop.get("tv").await, [10, 7, 3, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_exported_kind_is_documented() {
    let document =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/archive.md"))
            .unwrap();
    let sample = document.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let (folder, files) = (TempFolder::new(), TempFolder::new());
    fs::create_dir_all(files.path()).unwrap();
    let [sampled, out] = ["sample.jsonl", "out.jsonl"].map(|name| files.path().join(name));
    fs::write(&sampled, sample).unwrap();
    let [sampled, out] = [sampled.to_str().unwrap(), out.to_str().unwrap()];
    done(&["import", "--data-dir", folder.text(), sampled]).await;
    done(&["export", "--data-dir", folder.text(), "--output", out]).await;
    let body = |text: &str| {
        let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(body(&fs::read_to_string(out).unwrap()), body(sample), "line by line");
    for kind in body(sample).iter().map(|line| line.split('"').nth(3).unwrap().to_owned()) {
        assert!(document.contains(&format!("| `{kind}` |")), "{kind} is not described");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_source_is_named() {
    let missing = run(&["export", "--data-dir", "/nowhere/at/all"]).await;
    assert_eq!(missing.status.code(), Some(66));
    let unnamed = run(&["export"]).await;
    assert_eq!(unnamed.status.code(), Some(78));
    assert!(String::from_utf8_lossy(&unnamed.stderr).contains("--data-dir"));
    let silent = run(&["export", "--engine", "redis://127.0.0.1:1"]).await;
    assert_eq!(silent.status.code(), Some(69));
    let absent = run(&["import", "--data-dir", TempFolder::new().text(), "/nowhere"]).await;
    assert_eq!(absent.status.code(), Some(66));
    assert!(String::from_utf8_lossy(&absent.stderr).contains("/nowhere: "));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redis_that_refuses_writes_is_exported() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let server = Server::start(&["--engine", &redis.url()]).await;
    reached(&server).await.admit("p", "camera-1", "a").await;
    end(server, "-TERM").await;
    redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await.unwrap();
    let lines = done(&["export", "--engine", &redis.url()]).await;
    assert!(lines.contains("camera-1"), "{lines}");
}

/// Number of leases in the test of a large export.
const MANY: u64 = 100_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_thousand_leases_are_moved_and_counted() {
    let mut redis = OwnRedis::prepare();
    redis.start().await;
    let (folder, files) = (TempFolder::new(), TempFolder::new());
    fs::create_dir_all(files.path()).unwrap();
    let [first, second] = ["1.jsonl", "2.jsonl"].map(|name| files.path().join(name));
    let mut text = String::from(
        "{\"kind\":\"archive\",\"version\":1,\"tollgate\":\"0\",\"source\":\"redis\",\"time\":1}\n",
    );
    text += "{\"kind\":\"pool\",\"pool\":\"p\",\"last_token\":100000,\"capacity\":100000}\n";
    for token in 1..=MANY {
        let (device, end) = (token % 1000, 4_102_444_800_000_000 + token);
        text += &format!(
            "{{\"kind\":\"task\",\"pool\":\"p\",\"device\":\"d{device}\",\"task\":\"t{token}\",\
             \"state\":\"leased\",\"token\":{token},\"grant\":1,\"expire\":{end},\
             \"slot_end\":{end},\"forget\":{end},\"told\":true,\"listed\":true}}\n"
        );
    }
    text += "{\"kind\":\"end\",\"lines\":100001,\"counts\":{\"pool\":1,\"task\":100000}}\n";
    fs::write(&first, &text).unwrap();
    let [first, second] = [first.to_str().unwrap(), second.to_str().unwrap()];
    let url = redis.url();
    let said = done(&["import", "--data-dir", folder.text(), first]).await;
    assert!(said.contains("pool 1, task 100,000"), "{said}");
    done(&["export", "--data-dir", folder.text(), "--output", second]).await;
    let said = done(&["import", "--engine", &url, second]).await;
    assert!(said.contains("pool 1, task 100,000"), "{said}");
    done(&["export", "--engine", &url, "--output", second]).await;
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().skip(1).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert!(sorted(&fs::read_to_string(second).unwrap()) == sorted(&text), "every line");
    let server = Server::start(&["--engine", &url]).await;
    let world = World::at(server.address()).await;
    while world.client.clone().list_pools(pb::ListPoolsRequest::default()).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.in_use("p").await, 100_000);
    let full = world.admit("p", "one more", "t").await;
    assert_eq!(full.decision(), pb::AdmitDecision::Full);
}

#[tokio::test(flavor = "multi_thread")]
async fn j18_an_export_overwrites_no_file_through_a_symlink() {
    let (folder, other) = (TempFolder::new(), TempFolder::new());
    drop(Server::start(&["--data-dir", folder.text()]).await);
    fs::create_dir_all(other.path()).unwrap();
    let (output, victim) = (other.path().join("export.jsonl"), other.path().join("victim"));
    let part = other.path().join("export.jsonl.part");
    fs::write(&victim, "precious").unwrap();
    for target in [&victim, &other.path().join("missing")] {
        std::os::unix::fs::symlink(target, &part).unwrap();
        let ended =
            run(&["export", "--data-dir", folder.text(), "--output", output.to_str().unwrap()])
                .await;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(74), "{said}");
        assert!(said.contains(part.to_str().unwrap()) && said.contains("it exists"), "{said}");
        assert!(!output.exists() && fs::symlink_metadata(&part).unwrap().is_symlink());
        fs::remove_file(&part).unwrap();
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!other.path().join("missing").exists());
    done(&["export", "--data-dir", folder.text(), "--output", output.to_str().unwrap()]).await;
    assert!(output.exists() && !part.exists());
}
