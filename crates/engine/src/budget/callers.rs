//! Limits on the resources of an engine that callers can use. The limits of connections are in
//! `crates/http`.

/// Limits on waiting calls, watchers and unsynced changes. The defaults suit a container with 256
/// MiB of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerLimits {
    /// Calls that wait for a slot or a lock. Each needs memory, but neither a thread nor a
    /// connection to the store.
    pub waiters: usize,
    /// NextSequence calls that wait for the store, at least 4. The calls of one sequence may use a
    /// quarter, so that a slow sequence leaves room for others.
    pub sequence_waiters: usize,
    /// Streams of events.
    pub watchers: usize,
    /// Bytes of changes that wait to be written to the disk of a data directory.
    pub unsynced_bytes: usize,
    /// Changes that are queued for that disk, at least 4.
    pub unsynced_changes: usize,
}

impl CallerLimits {
    /// The defaults.
    pub const DEFAULT: CallerLimits = CallerLimits {
        waiters: 65_536,
        sequence_waiters: 4096,
        watchers: 10_000,
        unsynced_bytes: 16 << 20,
        unsynced_changes: 1_000_000,
    };
}

impl Default for CallerLimits {
    fn default() -> CallerLimits {
        CallerLimits::DEFAULT
    }
}
