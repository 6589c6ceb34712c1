//! Files that earlier versions wrote, `fixtures/`: a data directory, an export of it, and the keys
//! of a Redis. Every version must load them.
//!
//! They contain the state after the history of [`lived`]. The test plays the same history on a
//! fresh engine. Later decisions must have equal outcomes on all engines.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use flate2::read::GzDecoder;
use tollgate::cli::transfer;
use tollgate_core::names::Namespace;

use super::{
    kept_in,
    lived::{BEGIN, END, Within, answered, lived},
    sides::Side,
};
use crate::support::process::TempFolder;

/// The files that a version wrote.
struct Version {
    number: u8,
    namespaces: Vec<Within>,
}

impl Version {
    /// Returns the first version. It had one namespace.
    fn first() -> Version {
        Version { number: 1, namespaces: vec![Within(Namespace::DEFAULT)] }
    }

    /// Returns the last version whose program was one crate.
    fn second() -> Version {
        let acme = Namespace::parse(b"acme").unwrap();
        Version { number: 2, namespaces: vec![Within(Namespace::DEFAULT), Within(acme)] }
    }

    fn file(&self, ending: &str) -> PathBuf {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/durable/export/fixtures");
        folder.join(format!("version-{}.{ending}", self.number))
    }

    fn export(&self) -> PathBuf {
        self.file("jsonl")
    }

    /// Writes the data directory.
    fn write_directory(&self, folder: &TempFolder) {
        fs::create_dir_all(folder.path()).unwrap();
        let mut written = GzDecoder::new(File::open(self.file("redb.gz")).unwrap());
        let mut copy = File::create(folder.path().join("tollgate.redb")).unwrap();
        io::copy(&mut written, &mut copy).unwrap();
    }

    /// Every kind of line is in the export, in each namespace.
    fn has_every_kind_of_line(&self) {
        let text = fs::read_to_string(self.export()).unwrap();
        for kind in super::KINDS {
            let kind = format!("\"kind\":\"{kind}\"");
            assert!(text.contains(&kind), "no {kind}");
            let is_of_acme = |line: &str| line.contains(&kind) && line.contains("\"acme\"");
            assert!(
                self.namespaces.len() == 1 || text.lines().any(is_of_acme),
                "no {kind} of acme"
            );
        }
    }

    /// The lines of the export and the entries of the directory are two forms of one state.
    async fn exports_as_before(&self) {
        let (folder, files) = (TempFolder::new(), TempFolder::new());
        let copy = files.path().join("copy.jsonl");
        fs::create_dir_all(files.path()).unwrap();
        self.write_directory(&folder);
        transfer::export(&mut kept_in(&folder, END), Some(&copy)).await.unwrap();
        let lines = |path: &Path| {
            let text = fs::read_to_string(path).unwrap();
            text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(lines(&copy), lines(&self.export()));
    }

    /// Engines that load the files answer as one that has lived the history. `more` are further
    /// engines that have loaded the state.
    async fn is_loaded_and_answered(&self, more: &[&Side]) {
        let folders = [TempFolder::new(), TempFolder::new(), TempFolder::new()];
        let [fresh, written, imported] = &folders;
        let fresh = Side::embedded(fresh, BEGIN).await;
        lived(&[&fresh], &self.namespaces).await;

        self.write_directory(written);
        let export = self.export();
        transfer::import(&mut kept_in(imported, END), &export, false).await.unwrap();
        let redis = Side::redis(END).await;
        transfer::import(&mut redis.store().await, &export, false).await.unwrap();

        let begin = END + 1_000_000;
        let written = Side::embedded(written, begin).await;
        let imported = Side::embedded(imported, begin).await;
        let sides = [&[&fresh, &written, &imported, &redis], more].concat();
        for side in &sides {
            side.set(END + 2_000_000).await;
        }
        for of in &self.namespaces {
            answered(&sides, of).await;
        }
        fresh.close().await;
        written.close().await;
        imported.close().await;
    }
}

#[test]
fn the_exports_of_earlier_versions_have_every_kind_of_line() {
    Version::first().has_every_kind_of_line();
    Version::second().has_every_kind_of_line();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directories_of_earlier_versions_are_exported_as_before() {
    Version::first().exports_as_before().await;
    Version::second().exports_as_before().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_the_first_version_are_loaded_and_answered() {
    Version::first().is_loaded_and_answered(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_and_keys_of_the_second_version_are_loaded_and_answered() {
    let version = Version::second();
    let keys = fs::read_to_string(version.file("keys.jsonl")).unwrap();
    let redis = Side::redis_with(END, &keys).await;
    version.is_loaded_and_answered(&[&redis]).await;
}
