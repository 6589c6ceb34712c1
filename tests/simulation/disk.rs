//! A simulated disk: it can be full, and its power can fail within a write. It contains a redb file
//! and the two files of the log.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use redb::StorageBackend;
use tollgate_engine::embedded::{Disk, LogFile};

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    /// A kill: the system keeps all writes.
    Kill,
    /// A power loss: any sectors of unsynced writes are lost.
    PowerLoss {
        /// Selects the lost sectors.
        dice: u64,
    },
    /// A power loss: all unsynced writes are lost.
    PowerCut,
}

#[derive(Debug, Default)]
struct Platter {
    seen: Vec<u8>,
    /// The synced content of the pages that were written since the last sync.
    unsynced: BTreeMap<usize, Vec<u8>>,
    /// The files of the log. They are synced only when they are empty.
    logs: [Vec<u8>; 2],
    /// Counts the starts of the machine.
    boot: u64,
    is_full: bool,
    /// Number of writes and syncs until every operation fails; `None` for no limit.
    left: Option<u32>,
}

/// The disk, as one process sees it.
#[derive(Debug, Clone, Default)]
pub struct Made {
    platter: Arc<Mutex<Platter>>,
    /// Whether the process has ended: its later operations fail.
    is_gone: Arc<AtomicBool>,
}

/// Mixes the bits of a number.
pub fn scatter(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

impl Made {
    pub fn disk(&self) -> Disk {
        let made = self.clone();
        let log = |index| Box::new(MadeLog { made: self.clone(), index }) as Box<dyn LogFile>;
        let boot = self.lock().boot.to_string();
        Disk::custom(Path::new("made-up"), move |builder| builder.create_with_backend(made.clone()))
            .with_log([log(0), log(1)], &boot)
    }

    /// Sets whether the disk is full. Returns the previous value.
    pub fn set_full(&self, is_full: bool) -> bool {
        std::mem::replace(&mut self.lock().is_full, is_full)
    }

    /// Makes every operation fail after this number of writes and syncs.
    pub fn fail_after(&self, operations: u32) {
        self.lock().left = Some(operations);
    }

    /// Returns the disk, as the next process finds it.
    pub fn after(&self, end: End) -> Made {
        self.is_gone.store(true, Ordering::SeqCst);
        let mut platter = self.lock();
        let unsynced = std::mem::take(&mut platter.unsynced);
        let power = match end {
            End::Kill => None,
            End::PowerLoss { dice } => Some((dice, scatter(dice) % 9)),
            End::PowerCut => Some((0, 0)),
        };
        if let Some((dice, kept)) = power {
            // Keeps none, some or all of the unsynced sectors.
            platter.boot += 1;
            for (index, log) in platter.logs.iter_mut().enumerate() {
                let dice = dice.wrapping_add(1 << (40 + index));
                if kept == 0 || scatter(dice).is_multiple_of(3) {
                    log.truncate(log.len() * kept as usize / 9);
                }
                for (place, sector) in log.chunks_mut(SECTOR).enumerate() {
                    if scatter(dice.wrapping_add(place as u64)) % 8 >= kept {
                        sector.fill(0);
                    }
                }
            }
            for (page, before) in unsynced {
                for (place, sector) in before.chunks(SECTOR).enumerate() {
                    let at = page * PAGE + place * SECTOR;
                    if scatter(dice.wrapping_add(at as u64)) % 8 >= kept {
                        platter.seen[at..at + sector.len()].copy_from_slice(sector);
                    }
                }
            }
        }
        (platter.is_full, platter.left) = (false, None);
        drop(platter);
        Made { platter: self.platter.clone(), is_gone: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Platter> {
        self.platter.lock().unwrap()
    }

    /// Access for a write or a sync. Fails if the process has ended or the power has failed.
    fn work(&self) -> io::Result<MutexGuard<'_, Platter>> {
        let mut platter = self.lock();
        if self.is_gone.load(Ordering::SeqCst) || platter.left == Some(0) {
            return Err(io::Error::other("no power"));
        }
        platter.left = platter.left.map(|left| left - 1);
        Ok(platter)
    }
}

/// A file of the log.
#[derive(Debug)]
struct MadeLog {
    made: Made,
    index: usize,
}

impl LogFile for MadeLog {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.made.lock().logs[self.index].clone())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut platter = self.made.work()?;
        let is_full = platter.is_full;
        let log = &mut platter.logs[self.index];
        assert_eq!(log.len() as u64, offset, "a record follows the last one");
        // A full disk accepts only a part of it.
        let taken = if is_full { bytes.len() / 2 } else { bytes.len() };
        log.extend_from_slice(&bytes[..taken]);
        if is_full { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.made.work()?.logs[self.index].truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        assert!(self.made.work()?.logs[self.index].is_empty(), "only an empty log is synced");
        Ok(())
    }
}

impl StorageBackend for Made {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().seen.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = self.lock();
        let from = platter.seen.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut platter = self.work()?;
        if length as usize > platter.seen.len() && platter.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // The file system writes a length to its journal, so a length is never lost.
        platter.seen.resize(length as usize, 0);
        let pages = platter.seen.len() / PAGE;
        platter.unsynced.retain(|page, _| *page < pages);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.work()?.unsynced.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut platter = self.work()?;
        if platter.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let (start, end) = (offset as usize, offset as usize + data.len());
        let Platter { seen, unsynced, .. } = &mut *platter;
        for page in start / PAGE..end.div_ceil(PAGE) {
            let end = (page * PAGE + PAGE).min(seen.len());
            unsynced.entry(page).or_insert_with(|| seen[page * PAGE..end].to_vec());
        }
        seen[start..end].copy_from_slice(data);
        Ok(())
    }
}
