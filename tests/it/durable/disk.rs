//! Simulated disks: power loss, a full disk, failed syncs, and the recovery from each.

use std::{
    collections::BTreeMap,
    io, mem,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use redb::StorageBackend;
use tollgate_core::{
    error::Error,
    names::Name,
    sequence::{Allocation, GetSequence, NextSequence, Sequence},
    time::{Clock, monotonic},
};
use tollgate_engine::{
    Engine, StoreState,
    embedded::{Disk, Durability, Embedded},
};

const SECTOR: usize = 512;

/// The synced bytes, the writes since the last sync, and the bytes that reads return.
#[derive(Debug, Default)]
struct Platter {
    synced: Vec<u8>,
    /// Sectors by number, and new lengths, in the order of the writes.
    unsynced: Vec<Write>,
    seen: Vec<u8>,
}

#[derive(Debug, Clone)]
enum Write {
    Sector(usize, Vec<u8>),
    Length(usize),
}

/// A simulated disk that can lose power, be full or fail a sync.
#[derive(Debug, Clone, Default)]
struct Made {
    platter: Arc<Mutex<Platter>>,
    is_full: Arc<AtomicBool>,
    /// Number of syncs until one fails; 0 for no failure.
    failing_sync: Arc<AtomicU32>,
}

fn put(bytes: &mut Vec<u8>, write: &Write) {
    match write {
        Write::Sector(at, sector) => {
            let end = (at * SECTOR + sector.len()).min(bytes.len());
            let start = (at * SECTOR).min(end);
            bytes[start..end].copy_from_slice(&sector[..end - start]);
        }
        Write::Length(length) => bytes.resize(*length, 0),
    }
}

impl Made {
    fn room(&self) -> io::Result<()> {
        if self.is_full.load(Ordering::SeqCst) {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        } else {
            Ok(())
        }
    }

    fn disk(&self) -> Disk {
        let made = self.clone();
        Disk::custom(Path::new("made-up"), move |builder| builder.create_with_backend(made.clone()))
    }

    /// Returns the disk after a power loss: it has a random part of the unsynced sectors.
    fn after_power_loss(&self, random: &mut ChaCha8Rng) -> Made {
        let platter = self.platter.lock().unwrap();
        let mut left = platter.synced.clone();
        let share = random.random_range(0.0..=1.0);
        for write in &platter.unsynced {
            if matches!(write, Write::Length(_)) || random.random_bool(share) {
                put(&mut left, write);
            }
        }
        let platter = Platter { synced: left.clone(), seen: left, unsynced: Vec::new() };
        Made { platter: Arc::new(Mutex::new(platter)), ..Made::default() }
    }
}

impl StorageBackend for Made {
    fn len(&self) -> io::Result<u64> {
        Ok(self.platter.lock().unwrap().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.platter.lock().unwrap();
        let from = platter.seen.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut platter = self.platter.lock().unwrap();
        if length as usize > platter.seen.len() {
            self.room()?;
        }
        platter.seen.resize(length as usize, 0);
        platter.unsynced.push(Write::Length(length as usize));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = self.platter.lock().unwrap();
        let unsynced = mem::take(&mut platter.unsynced);
        let left = self.failing_sync.load(Ordering::SeqCst);
        self.failing_sync.store(left.saturating_sub(1), Ordering::SeqCst);
        if left == 1 {
            // As on Linux: reads return these writes, but they are not on the disk, and no later
            // sync writes them.
            return Err(io::Error::other("the sync has failed"));
        }
        unsynced.iter().for_each(|write| put(&mut platter.synced, write));
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.room()?;
        let mut platter = self.platter.lock().unwrap();
        let (start, end) = (offset as usize, offset as usize + data.len());
        platter.seen[start..end].copy_from_slice(data);
        // All sectors that the write touches, with their new content.
        let mut sectors = BTreeMap::new();
        for at in start / SECTOR..end.div_ceil(SECTOR) {
            let end = (at * SECTOR + SECTOR).min(platter.seen.len());
            sectors.insert(at, platter.seen[at * SECTOR..end].to_vec());
        }
        platter.unsynced.extend(sectors.into_iter().map(|(at, bytes)| Write::Sector(at, bytes)));
        Ok(())
    }
}

fn name(text: &str) -> Name {
    Name::parse(bytes::Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

fn open(made: &Made) -> Arc<Engine> {
    let engine = Embedded::open(Clock::system(), made.disk(), Durability::Always).unwrap();
    Arc::new(Engine::Embedded(engine))
}

async fn next(engine: &Engine, sequence: &str) -> Result<u64, Error> {
    let next = NextSequence {
        sequence: Sequence::new(&name(sequence), None),
        count: 1,
        step: 1,
        floor: None,
        request: None,
        reserve: None,
        confirmed: None,
    };
    match engine.store(&next, monotonic() + Duration::from_secs(30)).await? {
        Allocation::Given { range, .. } => Ok(range.last),
        other => panic!("{other:?}"),
    }
}

async fn last(engine: &Engine, sequence: &str) -> u64 {
    let get = GetSequence { sequence: Sequence::new(&name(sequence), None) };
    let last = engine.store(&get, monotonic() + Duration::from_secs(30)).await.unwrap();
    last.map_or(0, |(last, _)| last)
}

/// Four callers take values until the power fails. After each power loss, every acknowledged value
/// must still be taken.
#[tokio::test(flavor = "multi_thread")]
async fn s8_a_power_loss_loses_no_acknowledged_value() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut made = Made::default();
    let mut given = BTreeMap::<String, u64>::new();
    for round in 0..30 {
        let engine = open(&made);
        for (sequence, acknowledged) in &given {
            let last = last(&engine, sequence).await;
            assert!(last >= *acknowledged, "{round}: {sequence}: {last} of {acknowledged}");
        }
        let callers = (0..4).map(|caller| {
            let engine = engine.clone();
            let names: Vec<_> = (0..random.random_range(1..30))
                .map(|_| format!("{caller}-{}", random.random_range(0..50)))
                .collect();
            let given = given.clone();
            tokio::spawn(async move {
                let mut got = given;
                for sequence in names {
                    let value = next(&engine, &sequence).await.unwrap();
                    let before = got.insert(sequence.clone(), value).unwrap_or_default();
                    assert!(value > before, "{sequence}: {value} after {before}");
                }
                got
            })
        });
        // The power fails while calls are in flight. Values that were answered before must survive.
        let callers: Vec<_> = callers.collect();
        let under_way = {
            let engine = engine.clone();
            tokio::spawn(async move {
                while next(&engine, "under way").await.is_ok() {
                    tokio::task::yield_now().await;
                }
            })
        };
        for caller in callers {
            for (sequence, value) in caller.await.unwrap() {
                let known = given.entry(sequence).or_default();
                *known = value.max(*known);
            }
        }
        made = made.after_power_loss(&mut random);
        under_way.abort();
    }
}

/// While the disk is full, calls are refused with the reason, and no acknowledged value is lost.
/// Calls succeed again when there is space.
#[tokio::test(flavor = "multi_thread")]
async fn s8_a_full_disk_refuses_calls_and_recovers() {
    let made = Made::default();
    let engine = open(&made);
    let mut state = engine.state();
    for round in 1..=3u64 {
        assert_eq!(next(&engine, "order").await, Ok(round * 2 - 1));
        made.is_full.store(true, Ordering::SeqCst);
        // The first call is decided, and waits for the disk.
        let waiting = {
            let engine = engine.clone();
            tokio::spawn(async move { next(&engine, "order").await })
        };
        state.wait_for(|state| *state == StoreState::Down).await.unwrap();
        let refused = next(&engine, "order").await;
        match &refused {
            Err(Error::Unavailable(why)) => {
                assert!(why.contains("data directory") && why.contains("made-up"), "{why}");
            }
            other => panic!("{other:?}"),
        }
        assert!(engine.check().is_err());
        // A power loss now would keep every acknowledged value.
        let left = made.after_power_loss(&mut ChaCha8Rng::seed_from_u64(round));
        assert!(last(&open(&left), "order").await >= round * 2 - 1);
        made.is_full.store(false, Ordering::SeqCst);
        assert_eq!(
            waiting.await.unwrap(),
            Ok(round * 2),
            "the waiting call succeeds after the disk recovers"
        );
        state.wait_for(|state| *state == StoreState::Up).await.unwrap();
    }
    engine.close();
    assert_eq!(last(&open(&made), "order").await, 6);
}

/// A failed sync loses its writes, and reports the error once. An engine that trusts the next sync
/// would lose acknowledged values.
#[tokio::test(flavor = "multi_thread")]
async fn s8_writes_of_a_failed_sync_are_written_again() {
    let seed = rand::random();
    println!("seed {seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (mut made, mut names) = (Made::default(), Vec::<String>::new());
    for round in 0..16 {
        let engine = open(&made);
        for sequence in &names {
            assert!(last(&engine, sequence).await > 0, "{round}: {sequence} is gone");
        }
        // The failing write may split a page, and the next write touches only one half of it.
        let failing = if round > 0 { random.random_range(1..5) } else { 0 };
        made.failing_sync.store(failing, Ordering::SeqCst);
        let more: Vec<_> = (0..if round > 0 { 60 } else { 3000 })
            .map(|_| random.random::<u32>().to_string())
            .collect();
        let given = join_all(more.iter().map(|sequence| next(&engine, sequence))).await;
        let given = more.into_iter().zip(given).filter(|(_, given)| given.is_ok());
        names.extend(given.map(|(sequence, _)| sequence));
        // Calls are refused while the disk fails, and succeed afterwards.
        while next(&engine, "order").await.is_err() || made.failing_sync.load(Ordering::SeqCst) > 0
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        made = made.after_power_loss(&mut random);
    }
}
