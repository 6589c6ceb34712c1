//! A disk in memory whose syncs can be made to hang.

use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex},
};

use redb::{StorageBackend, backends::InMemoryBackend};
use tollgate::engine::embedded::Disk;

/// A disk in memory. [`Hanging::hang`] blocks its syncs.
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
    }

    /// Blocks all syncs until the returned value is dropped.
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

impl Gate {
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
        let hangs = self.gate.hangs.lock().unwrap();
        drop(self.gate.changed.wait_while(hangs, |hangs| *hangs).unwrap());
        self.memory.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.memory.write(offset, data)
    }
}
