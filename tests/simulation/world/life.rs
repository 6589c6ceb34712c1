//! A server process that is stepped by hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tollgate_core::{error::Error, time::Clock};
use tollgate_engine::{
    Engine,
    embedded::{Durability, Embedded, JournalWriter},
};

use crate::{capability::Answering, disk::Made};

/// Determines which partitions share a shard.
const SALT: u64 = 7;

/// A server process.
pub struct Life {
    pub engine: Arc<Engine>,
    pub writer: JournalWriter,
    /// The time of its clock, in µs.
    pub source: Arc<AtomicU64>,
    pub written_at: u64,
}

impl Life {
    /// Starts a process at this time of the system clock.
    pub fn begin(disk: &Made, system: u64, durability: Durability) -> Life {
        let source = Arc::new(AtomicU64::new(system));
        let clock = Clock::Stepped(source.clone());
        let opened = Embedded::open_unwritten(clock, disk.disk(), durability, SALT);
        let (engine, writer) = opened.unwrap();
        Life { engine: Arc::new(Engine::Embedded(engine)), writer, source, written_at: system }
    }

    pub fn now(&self) -> u64 {
        self.embedded().now().0
    }

    pub fn embedded(&self) -> &Embedded {
        let Engine::Embedded(engine) = &*self.engine else { unreachable!("it is embedded") };
        engine
    }

    pub fn source(&self) -> u64 {
        self.source.load(Ordering::SeqCst)
    }
}

/// Polls a call once. Returns `None` while it waits.
pub fn poll<A>(answering: &mut Answering<A>) -> Option<Result<A, Error>> {
    match answering.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}
