//! Reload of files: at once on SIGHUP, and within 5 s of a change.

use std::{hash::Hash, io, sync::Arc, time::Duration};

use ahash::RandomState;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
    time::sleep,
};

/// Time between two checks for changed files.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// State that follows its files.
pub trait Reload: Send + Sync + 'static {
    /// The contents of the files.
    type Contents: Send + Hash + 'static;

    /// Reads the files. A file that cannot be read has contents as well. May block.
    fn read(&self) -> Self::Contents;

    /// Replaces the state, and logs that. Contents that are not usable change nothing, and are
    /// logged with the file and the reason.
    fn replace(&self, contents: &Self::Contents);
}

/// Follows the files of a state.
#[derive(Debug)]
pub struct Follower {
    /// SIGHUP: the files are read again.
    hangup: Signal,
    hashes: RandomState,
    /// The hash of the contents that were read last, usable or not.
    tried: u64,
}

impl Follower {
    /// Prepares to follow files with these contents. Must be called in a tokio runtime.
    pub fn new(contents: &impl Hash) -> io::Result<Follower> {
        let hashes = RandomState::new();
        let hangup = signal(SignalKind::hangup())?;
        Ok(Follower { hangup, tried: hashes.hash_one(contents), hashes })
    }

    /// Reloads changed files every 5 s, and all files on SIGHUP. Never completes.
    pub async fn follow<R: Reload>(mut self, state: Arc<R>) {
        loop {
            let is_asked = tokio::select! {
                hangup = self.hangup.recv() => hangup.is_some(),
                () = sleep(CHECK_EVERY) => false,
            };
            // On a blocking thread: the files may be on a slow or remote disk.
            let reader = state.clone();
            let Ok(contents) = spawn_blocking(move || reader.read()).await else { continue };
            let hash = self.hashes.hash_one(&contents);
            if is_asked || hash != self.tried {
                self.tried = hash;
                state.replace(&contents);
            }
        }
    }
}
