//! Exit codes and messages of a server that cannot use its data directory, or can no longer write
//! to it.

use std::{
    fs,
    io::Read,
    os::unix::fs::FileExt,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::{
    durable::restarts::{POLICIES, end, serial, start},
    support::{
        process::{Process, Server, TempFile, TempFolder, tollgate},
        sequences::next,
        world::World,
    },
};

const PAGE: usize = 4096;

/// Starts a server that must refuse the directory. Returns the exit code and standard error.
async fn refused(folder: &TempFolder) -> (Option<i32>, String) {
    let mut command = tollgate(&["serve", "--listen", "127.0.0.1:0", "--data-dir", folder.text()]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut process = Process(child);
    let code = process.end(Duration::from_secs(30)).await;
    (code, said(&mut process))
}

fn said(process: &mut Process) -> String {
    let mut text = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_server_on_a_directory_is_refused() {
    let folder = TempFolder::new();
    let _server = Server::start(&["--data-dir", folder.text()]).await;
    let (code, said) = refused(&folder).await;
    assert_eq!(code, Some(69));
    assert!(said.contains("another server uses") && said.contains(folder.text()), "{said}");
}

/// Returns the data directory of a killed server, and the database file in it.
async fn left_behind() -> (TempFolder, std::path::PathBuf) {
    let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
    let (server, world) = start(&folder, &config, "always").await;
    for number in 0..200 {
        serial(&world, next(&format!("order-{number}"))).await;
    }
    end(server, "-KILL").await;
    let file = folder.path().join("tollgate.redb");
    (folder, file)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_torn_tail_is_cut_off_and_logged() {
    let (folder, file) = left_behind().await;
    // The file was extended for a write that never happened.
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend([0; 4096]);
    fs::write(&file, bytes).unwrap();
    let mut command = tollgate(&["serve", "--listen", "127.0.0.1:0", "--data-dir", folder.text()]);
    command.stderr(Stdio::piped());
    let mut server = Server::spawn(command).await;
    let world = World::at(server.address()).await;
    for number in 0..200 {
        assert_eq!(serial(&world, next(&format!("order-{number}"))).await.last, 2);
    }
    server.process.signal("-KILL");
    let said = said(&mut server.process);
    assert!(said.contains("was cut off"), "{said}");
}

/// Returns the log of a server that was killed under `interval`, which its next start needs: a file
/// that is not empty, and its bytes.
async fn log_left_behind() -> (TempFolder, std::path::PathBuf, Vec<u8>) {
    let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
    let (server, world) = start(&folder, &config, "interval").await;
    for number in 0..200 {
        serial(&world, next(&format!("order-{}", number % 10))).await;
    }
    end(server, "-KILL").await;
    let files = ["tollgate.log.0", "tollgate.log.1"].map(|name| folder.path().join(name));
    let full = files.into_iter().find(|file| fs::metadata(file).unwrap().len() > 0).unwrap();
    let bytes = fs::read(&full).unwrap();
    (folder, full, bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_a_torn_tail_of_the_log_is_cut_off() {
    // The beginning of a record, with a part of its header or of its payload.
    for length in [1, 39, 41] {
        let (folder, file, mut bytes) = log_left_behind().await;
        let torn = bytes[..length].to_vec();
        bytes.extend(torn);
        fs::write(&file, bytes).unwrap();
        let server = Server::start(&["--data-dir", folder.text()]).await;
        let world = World::at(server.address()).await;
        for number in 0..10 {
            let value = serial(&world, next(&format!("order-{number}"))).await;
            assert_eq!(value.last, 21, "{length}");
        }
    }
}

/// A byte of the last record is damage: that record was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn j1_a_damaged_log_is_refused() {
    for from_end in [1, 45] {
        let (folder, file, mut bytes) = log_left_behind().await;
        let at = bytes.len() - from_end;
        bytes[at] ^= 1;
        fs::write(&file, bytes).unwrap();
        let (code, said) = refused(&folder).await;
        assert_eq!(code, Some(65), "{from_end}: {said}");
        assert!(said.contains("the log beside") && said.contains(folder.text()), "{said}");
        assert!(said.contains("Restore the directory from a backup"), "{said}");
    }
}

/// Damage in the last write is not a torn write: that write was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn damage_of_an_acknowledged_write_is_refused() {
    let (folder, config) = (TempFolder::new(), TempFile::new(POLICIES));
    let file = folder.path().join("tollgate.redb");
    let (server, world) = start(&folder, &config, "always").await;
    for number in 0..200 {
        serial(&world, next(&format!("order-{number}"))).await;
    }
    let before = fs::read(&file).unwrap();
    serial(&world, next("order-77")).await;
    end(server, "-KILL").await;
    let mut bytes = fs::read(&file).unwrap();
    for at in (PAGE..bytes.len()).step_by(PAGE) {
        let is_written = before.get(at..at + PAGE) != Some(&bytes[at..at + PAGE]);
        let page = &mut bytes[at..at + PAGE];
        if let Some(key) = page.windows(8).position(|bytes| bytes == b"order-77")
            && is_written
        {
            page[key] = b'0';
        }
    }
    fs::write(&file, bytes).unwrap();
    let (code, said) = refused(&folder).await;
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("Restore the directory from a backup"), "{said}");
}

/// A large file is read while another thread decodes its entries. The unreadable entry is still
/// named.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_entry_of_a_large_file_is_named() {
    let (folder, file) = left_behind().await;
    let entries = redb::TableDefinition::<&[u8], &[u8]>::new("entries");
    let database = redb::Database::open(&file).unwrap();
    let write = database.begin_write().unwrap();
    {
        let mut entries = write.open_table(entries).unwrap();
        let value = [0; 4000];
        for number in 0..3000u16 {
            let [high, low] = number.to_be_bytes();
            entries.insert(&[200, 0, 2, high, low][..], &value[..]).unwrap();
        }
    }
    write.commit().unwrap();
    drop(database);
    assert!(fs::metadata(&file).unwrap().len() > 8 << 20);
    let (code, said) = refused(&folder).await;
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains(r"the entry \xc8\x00\x02\x00\x00 cannot be read"), "{said}");
    assert!(said.contains("unknown kind 200"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_is_named_and_the_server_exits() {
    let (folder, file) = left_behind().await;
    let sound = fs::read(&file).unwrap();
    // Free pages contain the key, too.
    let keys = sound.windows(8).enumerate().filter(|(_, bytes)| bytes == b"order-77");
    let keys: Vec<u64> = keys.map(|(at, _)| at as u64).collect();
    assert!(!keys.is_empty());
    let damages: [(&str, &dyn Fn()); 4] = [
        ("an entry", &|| {
            let file = fs::OpenOptions::new().write(true).open(&file).unwrap();
            keys.iter().for_each(|key| {
                file.write_at(b"0rder", *key).unwrap();
            });
        }),
        ("the head", &|| {
            let file = fs::OpenOptions::new().write(true).open(&file).unwrap();
            file.write_at(&[0xff; 64], 0).unwrap();
        }),
        ("half of the file cut off", &|| {
            let file = fs::OpenOptions::new().write(true).open(&file).unwrap();
            file.set_len(sound.len() as u64 / 2).unwrap();
        }),
        ("another file format", &|| fs::write(&file, "something entirely different").unwrap()),
    ];
    for (what, damage) in damages {
        fs::write(&file, &sound).unwrap();
        damage();
        let (code, said) = refused(&folder).await;
        assert_eq!(code, Some(65), "{what}: {said}");
        assert!(said.contains(folder.text()), "{what}: {said}");
        assert!(said.contains("Restore the directory from a backup"), "{what}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s8_calls_are_unavailable_while_the_disk_is_full() {
    unavailable_while_the_disk_is_full("always").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn j1_calls_are_unavailable_while_the_log_cannot_grow() {
    unavailable_while_the_disk_is_full("interval").await;
}

/// A limit on the file size of the process simulates a full disk.
async fn unavailable_while_the_disk_is_full(durability: &str) {
    let folder = TempFolder::new();
    // The limit applies to the log, too.
    let log = TempFile::new("");
    let serve = format!(
        "trap '' XFSZ; exec {} serve --listen 127.0.0.1:0 --durability {durability} --data-dir {} 2>{}",
        env!("CARGO_BIN_EXE_tollgate"),
        folder.text(),
        log.path()
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &serve]);
    let server = Server::spawn(shell).await;
    let world = World::at(server.address()).await;
    let pid = Pid::from_raw(server.process.0.id() as i32);
    let length = |most| {
        let limit = Rlimit { current: most, maximum: None };
        prlimit(pid, Resource::Fsize, limit).unwrap();
    };
    let mut given = serial(&world, next("order")).await.last;
    length(Some(0));
    let refused = loop {
        match world.sequences.clone().next_sequence(next("order")).await {
            Ok(value) => given = value.into_inner().last,
            Err(status) if status.code() == tonic::Code::Unavailable => break status,
            // The call was in flight when the disk became full: its result is unknown.
            Err(status) => assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status}"),
        }
    };
    assert!(refused.message().contains("data directory"), "{refused}");
    length(None);
    let value = loop {
        match world.sequences.clone().next_sequence(next("order")).await {
            Ok(value) => break value.into_inner().last,
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    assert!(value > given, "{value} after {given}");
}

#[test]
fn wrong_settings_of_a_data_directory_are_named() {
    let text = |arguments: &[&str]| {
        let output = tollgate(&[&["serve"], arguments].concat()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, why) = text(&["--durability", "always"]);
    assert!(code == Some(78) && why.contains("data_dir"), "{why}");
    let (code, why) = text(&["--engine", "redis://127.0.0.1:1", "--data-dir", "/tmp/x"]);
    assert!(code == Some(78) && why.contains("only to the embedded engine"), "{why}");
    let (code, why) = text(&["--data-dir", "/dev/null/x"]);
    assert!(code == Some(74) && why.contains("/dev/null/x"), "{why}");
}
