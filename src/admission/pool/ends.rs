//! Tasks by when something of theirs ends.
//!
//! A sorted row in chunks. How many have ended is counted, a chunk at a time, and none of
//! them is touched for it: where a million end in one instant, the decision that finds
//! them ended looks at some thousand chunks, once. A tree would go through all of them, or
//! carry counts in every node.

use std::collections::VecDeque;

use super::Member;
use crate::time::Timestamp;

/// So many stand in a chunk at most: few enough to be moved along for one that comes
/// between them, so many that a row of a million is counted in microseconds.
const CHUNK: usize = 512;

/// A chunk with so many times the room that it uses is shrunk.
const SPARE: usize = 8;

/// A time and a task.
pub(super) type End = (Timestamp, Member);

/// Tasks by the time of an end, and by name where that is the same.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// None is empty; all of one come before all of the next.
    chunks: VecDeque<Chunk>,
    len: usize,
    /// Up to when ends have been counted, and how many there are up to then.
    counted: Timestamp,
    passed: usize,
}

#[derive(Debug)]
struct Chunk {
    /// The time of its last end: a search goes by this, and opens one chunk.
    last: Timestamp,
    ends: VecDeque<End>,
}

impl Ends {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many were still to come when they were last counted.
    pub(super) fn to_come(&self) -> usize {
        self.len - self.passed
    }

    /// Counts those that have ended by now.
    pub(super) fn count(&mut self, now: Timestamp) {
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

    /// How many end after the first and up to the second.
    fn between(&self, after: Timestamp, upto: Timestamp) -> usize {
        let ((first, skip), (last, within)) = (self.place(after), self.place(upto));
        let whole: usize = self.chunks.range(first..last).map(|chunk| chunk.ends.len()).sum();
        whole + within - skip
    }

    /// Where those begin that end later: the chunk, and how many of it come before.
    fn place(&self, now: Timestamp) -> (usize, usize) {
        let chunk = self.chunks.partition_point(|chunk| chunk.last <= now);
        let within = self.chunks.get(chunk);
        (chunk, within.map_or(0, |chunk| chunk.ends.partition_point(|end| end.0 <= now)))
    }

    /// The first to end.
    pub(super) fn first(&self) -> Option<&End> {
        self.chunks.front()?.ends.front()
    }

    /// Takes the first out if it has ended by now.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<End> {
        let first = self.first().filter(|first| first.0 <= now)?;
        self.passed -= usize::from(first.0 <= self.counted);
        self.len -= 1;
        self.take(0, 0)
    }

    /// Whether this one is there.
    pub(super) fn contains(&self, end: Timestamp, member: &[u8]) -> bool {
        let (chunk, within) = self.find(end, member);
        chunk < self.chunks.len() && within.is_ok()
    }

    /// Whether this one is there and had ended when they were last counted.
    pub(super) fn has_ended(&self, end: Timestamp, member: &[u8]) -> bool {
        end <= self.counted && self.contains(end, member)
    }

    /// Puts one in.
    pub(super) fn insert(&mut self, end: Timestamp, member: Member) {
        let (at, within) = self.find(end, &member);
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

    /// Puts one behind all others.
    fn append(&mut self, end: Timestamp, member: Member) {
        match self.chunks.back_mut().filter(|chunk| chunk.ends.len() < CHUNK) {
            Some(chunk) => {
                chunk.last = end;
                chunk.ends.push_back((end, member));
            }
            None => self.chunks.push_back(Chunk { last: end, ends: [(end, member)].into() }),
        }
    }

    /// Takes one out; whether it was there.
    pub(super) fn remove(&mut self, end: Timestamp, member: &[u8]) -> bool {
        let (at, within) = self.find(end, member);
        let Ok(within) = within else { return false };
        self.len -= 1;
        self.passed -= usize::from(end <= self.counted);
        self.take(at, within).is_some()
    }

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

    /// Gives back what those that went have left empty.
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

    /// Where one is, or would be: the chunk, and the place in it.
    fn find(&self, end: Timestamp, member: &[u8]) -> (usize, Result<usize, usize>) {
        let at = self.chunks.partition_point(|chunk| {
            chunk.last < end
                || chunk.last == end && chunk.ends.back().is_some_and(|last| *last.1 < *member)
        });
        let find = |chunk: &Chunk| {
            chunk.ends.binary_search_by(|(other, name)| (*other, &**name).cmp(&(end, member)))
        };
        (at, self.chunks.get(at).map_or(Err(0), find))
    }

    /// Those to come when they were last counted, behind this one. Where it is gone, all
    /// from its end on.
    pub(super) fn after(&self, end: Timestamp, member: &[u8]) -> impl Iterator<Item = &End> {
        let (at, within) = match self.find(end, member) {
            _ if end <= self.counted => self.place(self.counted),
            (at, Ok(within)) => (at, within + 1),
            // None has no name.
            (_, Err(_)) => {
                let (at, within) = self.find(end, &[]);
                (at, within.unwrap_or_else(|place| place))
            }
        };
        let chunks = self.chunks.range(at.min(self.chunks.len())..);
        chunks.flat_map(|chunk| &chunk.ends).skip(within)
    }

    /// The one to come that so many others come before.
    pub(super) fn nth(&self, before: usize) -> Option<&End> {
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

fn last(ends: &VecDeque<End>) -> Timestamp {
    ends.back().map_or(Timestamp(0), |(end, _)| *end)
}

/// Sorted at once: a million one by one take several times as long.
impl FromIterator<End> for Ends {
    fn from_iter<I: IntoIterator<Item = End>>(ends: I) -> Ends {
        let mut ends: Vec<End> = ends.into_iter().collect();
        ends.sort_unstable();
        let mut all = Ends { len: ends.len(), ..Ends::default() };
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
