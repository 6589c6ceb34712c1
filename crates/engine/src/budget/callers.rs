//! Limits on what callers can make an engine hold. Those of connections are in `crates/http`.

/// Limits on waiting calls, watchers and unsynced changes. The defaults suit a container of 256 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerLimits {
    /// Calls that wait for a slot or a lock. Each needs memory, but no thread and no connection to
    /// the store.
    pub waiters: usize,
    /// NextSequence calls that wait for the store, at least 4. Those of one sequence may have a
    /// quarter, so that a slow sequence leaves room for others.
    pub sequence_waiters: usize,
    /// Streams of events.
    pub watchers: usize,
    /// Bytes of changes that wait for the disk of a data directory.
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
