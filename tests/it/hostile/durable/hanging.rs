//! A disk in memory that can be made to hang.

use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex},
};

use redb::{StorageBackend, backends::InMemoryBackend};
use tollgate_engine::embedded::{Disk, LogFile};

/// A disk in memory. [`Hanging::hang`] blocks its syncs and the writes of the log.
#[derive(Debug, Clone, Default)]
pub struct Hanging {
    memory: Arc<InMemoryBackend>,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    hangs: Mutex<bool>,
    changed: Condvar,
}

impl Hanging {
    pub fn disk(&self) -> Disk {
        let hanging = self.clone();
        Disk::custom(Path::new("hanging"), move |builder| {
            builder.create_with_backend(hanging.clone())
        })
        .with_log([self.log(), self.log()], "boot")
    }

    fn log(&self) -> Box<dyn LogFile> {
        Box::new(HangingLog { bytes: Vec::new(), gate: self.gate.clone() })
    }

    /// Blocks all syncs and writes of the log until the returned value is dropped.
    pub fn hang(&self) -> Hung {
        self.gate.set(true);
        Hung(self.gate.clone())
    }
}

/// A disk that hangs. Dropping this value ends that.
pub struct Hung(Arc<Gate>);

impl Drop for Hung {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// A file of the log, in memory.
#[derive(Debug)]
struct HangingLog {
    bytes: Vec<u8>,
    gate: Arc<Gate>,
}

impl LogFile for HangingLog {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        Ok(self.bytes.clone())
    }

    fn write(&mut self, _: u64, bytes: &[u8]) -> io::Result<()> {
        self.gate.pass();
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.gate.pass();
        self.bytes.truncate(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.gate.pass();
        Ok(())
    }
}

impl Gate {
    /// Returns once the disk does not hang.
    fn pass(&self) {
        let hangs = self.hangs.lock().unwrap();
        drop(self.changed.wait_while(hangs, |hangs| *hangs).unwrap());
    }

    fn set(&self, hangs: bool) {
        *self.hangs.lock().unwrap() = hangs;
        self.changed.notify_all();
    }
}

impl StorageBackend for Hanging {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.memory.read(offset, out)
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.memory.set_len(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.gate.pass();
        self.memory.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.memory.write(offset, data)
    }
}
