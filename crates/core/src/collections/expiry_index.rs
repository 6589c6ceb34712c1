//! The expiry index: tasks in order of an expiry time.
//!
//! A sorted sequence in chunks of up to 512 entries. Expired entries are counted by chunk, without
//! being touched: if a million leases expire at the same moment, the next decision visits a few
//! thousand chunks, once. A plain tree would visit every entry, or need a count in every node.

use std::{collections::VecDeque, sync::Arc};

use crate::time::Timestamp;

/// The maximum number of entries of a chunk: small enough to insert in the middle, large enough to
/// count a million entries in microseconds.
const CHUNK: usize = 512;

/// A chunk with this many times the capacity it needs is shrunk.
const SPARE: usize = 8;

/// A member: device and task, joined. Shared by the maps that contain it.
pub(crate) type Member = Arc<[u8]>;
/// An entry: a time and a member.
pub(crate) type End = (Timestamp, Member);

/// Entries in order of time, then member.
#[derive(Debug, Default)]
pub(crate) struct ExpiryIndex {
    /// Not empty, and in order: all entries of a chunk come before the entries of the next.
    chunks: VecDeque<Chunk>,
    len: usize,
    /// The time of the last count.
    counted: Timestamp,
    /// The number of entries up to `counted`.
    passed: usize,
}

/// A run of consecutive entries.
#[derive(Debug)]
struct Chunk {
    /// The time of its last entry. A search compares these and then looks into one chunk.
    last: Timestamp,
    ends: VecDeque<End>,
}

impl ExpiryIndex {
    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of entries after the time of the last count.
    pub(crate) fn to_come(&self) -> usize {
        self.len - self.passed
    }

    /// Counts the entries that have expired by `now`. Only chunks between the two times are
    /// visited. The clock may have been set back.
    pub(crate) fn count(&mut self, now: Timestamp) {
        let counted = std::mem::replace(&mut self.counted, now);
        match self.first() {
            Some((end, _)) if *end <= now || self.passed > 0 => {}
            _ => return,
        }
        if counted <= now {
            self.passed += self.between(counted, now);
        } else {
            self.passed -= self.between(now, counted);
        }
    }

    /// Returns the number of entries later than `after` and not later than `upto`.
    fn between(&self, after: Timestamp, upto: Timestamp) -> usize {
        let ((first, skip), (last, within)) = (self.place(after), self.place(upto));
        let whole: usize = self.chunks.range(first..last).map(|chunk| chunk.ends.len()).sum();
        whole + within - skip
    }

    /// Returns the position of the first entry later than `now`: the chunk, and the index within
    /// it.
    fn place(&self, now: Timestamp) -> (usize, usize) {
        let chunk = self.chunks.partition_point(|chunk| chunk.last <= now);
        let within = self.chunks.get(chunk);
        (chunk, within.map_or(0, |chunk| chunk.ends.partition_point(|end| end.0 <= now)))
    }

    /// Returns the first entry.
    pub(crate) fn first(&self) -> Option<&End> {
        self.chunks.front()?.ends.front()
    }

    /// Removes and returns the first entry, if it has expired by `now`.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<End> {
        let first = self.first().filter(|first| first.0 <= now)?;
        self.passed -= usize::from(first.0 <= self.counted);
        self.len -= 1;
        self.take(0, 0)
    }

    /// Whether the entry exists.
    pub(crate) fn contains(&self, end: Timestamp, member: &[u8]) -> bool {
        let (chunk, within) = self.find(end, member);
        chunk < self.chunks.len() && within.is_ok()
    }

    /// Whether the entry exists and had expired at the last count.
    pub(crate) fn has_ended(&self, end: Timestamp, member: &[u8]) -> bool {
        end <= self.counted && self.contains(end, member)
    }

    /// Inserts an entry unless it exists. Splits a chunk that is full.
    pub(crate) fn insert(&mut self, end: Timestamp, member: Member) {
        // Most entries come after all others, because times are counted from the current time.
        let is_last = self.chunks.back().is_none_or(|chunk| chunk.is_before(end, &member));
        let (at, within) =
            if is_last { (self.chunks.len(), Err(0)) } else { self.find(end, &member) };
        let Err(within) = within else { return };
        self.len += 1;
        self.passed += usize::from(end <= self.counted);
        let Some(chunk) = self.chunks.get_mut(at) else {
            return self.append(end, member);
        };
        chunk.ends.insert(within, (end, member));
        if chunk.ends.len() > CHUNK {
            let ends = chunk.ends.split_off(CHUNK / 2);
            let last = std::mem::replace(&mut chunk.last, last(&chunk.ends));
            chunk.ends.shrink_to(CHUNK);
            self.chunks.insert(at + 1, Chunk { last, ends });
        }
    }

    /// Inserts an entry after all others.
    fn append(&mut self, end: Timestamp, member: Member) {
        match self.chunks.back_mut().filter(|chunk| chunk.ends.len() < CHUNK) {
            Some(chunk) => {
                chunk.last = end;
                chunk.ends.push_back((end, member));
            }
            None => self.chunks.push_back(Chunk { last: end, ends: [(end, member)].into() }),
        }
    }

    /// Removes an entry; returns whether it existed.
    pub(crate) fn remove(&mut self, end: Timestamp, member: &[u8]) -> bool {
        let (at, within) = self.find(end, member);
        let Ok(within) = within else { return false };
        self.len -= 1;
        self.passed -= usize::from(end <= self.counted);
        self.take(at, within).is_some()
    }

    /// Removes the entry at a position, and the chunk if it is then empty.
    fn take(&mut self, at: usize, within: usize) -> Option<End> {
        let chunk = self.chunks.get_mut(at)?;
        let end = chunk.ends.remove(within)?;
        if chunk.ends.is_empty() {
            self.chunks.remove(at);
            return Some(end);
        }
        chunk.last = last(&chunk.ends);
        if chunk.ends.len() < CHUNK / 8 {
            self.gather(at);
        }
        Some(end)
    }

    /// Merges sparse neighbouring chunks and returns unused capacity.
    fn gather(&mut self, at: usize) {
        let before = at.saturating_sub(1);
        for at in [at, before] {
            let fits = |next: &Chunk| next.ends.len() <= CHUNK / 2;
            if self.chunks.get(at).is_some_and(fits)
                && self.chunks.get(at + 1).is_some_and(fits)
                && let Some(mut next) = self.chunks.remove(at + 1)
                && let Some(chunk) = self.chunks.get_mut(at)
            {
                chunk.last = next.last;
                chunk.ends.append(&mut next.ends);
            }
        }
        for at in [at, before] {
            if let Some(Chunk { ends, .. }) = self.chunks.get_mut(at)
                && ends.capacity() > SPARE * ends.len().max(SPARE)
            {
                ends.shrink_to(2 * ends.len());
            }
        }
    }

    /// Returns the position of an entry, or the position at which it would be inserted.
    fn find(&self, end: Timestamp, member: &[u8]) -> (usize, Result<usize, usize>) {
        let at = self.chunks.partition_point(|chunk| chunk.is_before(end, member));
        let find = |chunk: &Chunk| {
            chunk.ends.binary_search_by(|(other, name)| (*other, &**name).cmp(&(end, member)))
        };
        (at, self.chunks.get(at).map_or(Err(0), find))
    }

    /// Returns the entries after the given one that had not expired at the last count. If the given
    /// entry no longer exists, all entries from its time on.
    pub(crate) fn after(&self, end: Timestamp, member: &[u8]) -> impl Iterator<Item = &End> {
        let (at, within) = match self.find(end, member) {
            _ if end <= self.counted => self.place(self.counted),
            (at, Ok(within)) => (at, within + 1),
            // The empty name precedes all members.
            (_, Err(_)) => {
                let (at, within) = self.find(end, &[]);
                (at, within.unwrap_or_else(|place| place))
            }
        };
        let chunks = self.chunks.range(at.min(self.chunks.len())..);
        chunks.flat_map(|chunk| &chunk.ends).skip(within)
    }

    /// Returns the entry with `before` unexpired entries before it.
    pub(crate) fn nth(&self, before: usize) -> Option<&End> {
        let (at, within) = self.place(self.counted);
        let mut before = before + within;
        for chunk in self.chunks.range(at..) {
            match chunk.ends.get(before) {
                None => before -= chunk.ends.len(),
                end => return end,
            }
        }
        None
    }
}

impl Chunk {
    /// Whether all entries come before this one.
    fn is_before(&self, end: Timestamp, member: &[u8]) -> bool {
        self.last < end
            || self.last == end && self.ends.back().is_some_and(|last| *last.1 < *member)
    }
}

/// Returns the time of the last entry.
fn last(ends: &VecDeque<End>) -> Timestamp {
    ends.back().map_or(Timestamp(0), |(end, _)| *end)
}

/// Sorts all entries at once, several times faster than a million single inserts.
impl FromIterator<End> for ExpiryIndex {
    fn from_iter<I: IntoIterator<Item = End>>(ends: I) -> ExpiryIndex {
        let mut ends: Vec<End> = ends.into_iter().collect();
        ends.sort_unstable();
        let mut all = ExpiryIndex { len: ends.len(), ..ExpiryIndex::default() };
        // An import can contain the time of the first count.
        all.passed = ends.partition_point(|(end, _)| *end <= all.counted);
        let mut ends = ends.into_iter().peekable();
        while ends.peek().is_some() {
            let chunk: VecDeque<End> = ends.by_ref().take(CHUNK).collect();
            all.chunks.push_back(Chunk { last: last(&chunk), ends: chunk });
        }
        all
    }
}

#[cfg(test)]
mod tests;
