//! The incremental map: a hash map that grows and shrinks by one segment at a time.
//!
//! A standard hash map moves all entries when it grows. With a million entries that is a pause of
//! hundreds of milliseconds. Here no operation moves more than one or two segments (`part` in the
//! code). The algorithm is linear hashing (Litwin, 1980): segments are split in a fixed order, so
//! no directory is needed. The stored hash selects segment and bucket; resizing never rehashes
//! keys.
//!
//! A `BTreeMap` does not pause either, but its lookups take two to four times as long
//! (benches/EXPERIMENTS.md), which is a tenth of a call with 100,000 entries.

use std::{borrow::Borrow, fmt, hint::black_box, mem, sync::LazyLock};

use ahash::RandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;

/// The maximum average number of entries of a segment. Segments that are not yet split in the
/// current round hold up to twice as many.
const FULL: usize = 400;
/// Below this average, the last segment is merged back.
const SPARSE: usize = FULL / 4;
/// A segment with this many times the capacity it needs is shrunk.
const SPARE: usize = 8;

/// Seeded at random: keys come from callers, who must not be able to choose colliding keys.
static HASHER: LazyLock<RandomState> = LazyLock::new(RandomState::new);

fn hash(key: &[u8]) -> u64 {
    HASHER.hash_one(key)
}

/// An incremental map with byte strings as keys.
pub struct IncrementalMap<K, V> {
    first: Part<K, V>,
    /// The other segments. Empty for most maps, which then need no second allocation.
    rest: Vec<Part<K, V>>,
    len: usize,
}

type Part<K, V> = HashTable<MapEntry<K, V>>;

/// Two words for any type: about half of a table is empty, and a split moves only pointers.
struct MapEntry<K, V> {
    hash: u64,
    pair: Box<(K, V)>,
}

impl<K, V> MapEntry<K, V> {
    fn pair(&self) -> (&K, &V) {
        (&self.pair.0, &self.pair.1)
    }

    fn hash(&self) -> u64 {
        self.hash
    }
}

impl<K: Borrow<[u8]>, V> MapEntry<K, V> {
    /// Compares the hash first, so that keys with another hash are not read.
    fn is(&self, hash: u64, key: &[u8]) -> bool {
        self.hash == hash && self.pair.0.borrow() == key
    }
}

impl<K, V> Default for IncrementalMap<K, V> {
    fn default() -> IncrementalMap<K, V> {
        IncrementalMap { first: Part::new(), rest: Vec::new(), len: 0 }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for IncrementalMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K, V> IncrementalMap<K, V> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the map is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of segments; at least 1.
    pub fn parts(&self) -> usize {
        1 + self.rest.len()
    }

    /// Returns all entries, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.first.iter().chain(self.rest.iter().flatten()).map(MapEntry::pair)
    }

    /// Returns the entries of one segment.
    pub fn part(&self, part: usize) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.at(part).iter().map(MapEntry::pair)
    }

    fn at(&self, part: usize) -> &Part<K, V> {
        part.checked_sub(1).and_then(|part| self.rest.get(part)).unwrap_or(&self.first)
    }

    fn at_mut(&mut self, part: usize) -> &mut Part<K, V> {
        match part.checked_sub(1).and_then(|part| self.rest.get_mut(part)) {
            Some(part) => part,
            None => &mut self.first,
        }
    }
}

impl<K: Borrow<[u8]>, V> IncrementalMap<K, V> {
    /// Returns the stored key and its value.
    pub fn get_key_value(&self, key: &[u8]) -> Option<(&K, &V)> {
        let hash = hash(key);
        let entry = self.at(place(hash, self.parts())).find(hash, |entry| entry.is(hash, key));
        entry.map(MapEntry::pair)
    }

    /// Loads the entries of keys into the processor's cache, for the lookups that follow. Each step
    /// is done for all keys before the next, so that their memory accesses overlap.
    pub fn warm<T: AsRef<[u8]>>(&self, keys: impl Iterator<Item = T>) {
        let hashes: SmallVec<[u64; 32]> = keys.map(|key| hash(key.as_ref())).collect();
        let entry =
            |hash: &u64| self.at(place(*hash, self.parts())).find(*hash, |it| it.hash == *hash);
        let found: SmallVec<[_; 32]> = hashes.iter().filter_map(entry).collect();
        let first = |entry: &&MapEntry<K, V>| entry.pair.0.borrow().first().copied();
        let touched = found.iter().filter_map(first).fold(0, u8::wrapping_add);
        black_box(touched);
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// Returns the value of a key, mutable.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        let hash = hash(key);
        let part = self.at_mut(place(hash, self.parts()));
        let entry = part.find_mut(hash, |entry| entry.is(hash, key));
        entry.map(|entry| &mut entry.pair.1)
    }

    /// Sets the value of a key; returns the previous value.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(was) = self.get_mut(key.borrow()) {
            return Some(mem::replace(was, value));
        }
        self.add(key, value);
        None
    }

    /// Sets the value of a key; returns the stored key and the previous value. Hashes the key once.
    pub fn set(&mut self, key: &[u8], value: V) -> (K, Option<V>)
    where
        K: for<'a> From<&'a [u8]> + Clone,
    {
        let hash = hash(key);
        let part = self.at_mut(place(hash, self.parts()));
        if let Some(entry) = part.find_mut(hash, |entry| entry.is(hash, key)) {
            let (key, known) = &mut *entry.pair;
            return (key.clone(), Some(mem::replace(known, value)));
        }
        let key = K::from(key);
        self.add_hashed(hash, key.clone(), value);
        (key, None)
    }

    /// Sets the value of a key that must not exist yet.
    pub fn add(&mut self, key: K, value: V) {
        debug_assert!(self.get(key.borrow()).is_none(), "it has one");
        self.add_hashed(hash(key.borrow()), key, value);
    }

    fn add_hashed(&mut self, hash: u64, key: K, value: V) {
        self.make_room();
        let part = self.at_mut(place(hash, self.parts()));
        part.insert_unique(hash, MapEntry { hash, pair: Box::new((key, value)) }, MapEntry::hash);
    }

    /// Returns the value of a key, mutable; inserts a default value first if the key is missing.
    pub fn get_or_default(&mut self, key: &[u8]) -> &mut V
    where
        K: for<'a> From<&'a [u8]>,
        V: Default,
    {
        let hash = hash(key);
        let there = self.at(place(hash, self.parts())).find(hash, |entry| entry.is(hash, key));
        if there.is_none() {
            self.make_room();
        }
        let part = self.at_mut(place(hash, self.parts()));
        let entry = part.entry(hash, |entry| entry.is(hash, key), MapEntry::hash);
        let fresh = || MapEntry { hash, pair: Box::new((K::from(key), V::default())) };
        &mut entry.or_insert_with(fresh).into_mut().pair.1
    }

    /// Removes a key; returns key and value.
    pub fn remove_pair(&mut self, key: &[u8]) -> Option<Box<(K, V)>> {
        let hash = hash(key);
        let part = self.at_mut(place(hash, self.parts()));
        let (entry, _) = part.find_entry(hash, |entry| entry.is(hash, key)).ok()?.remove();
        shrink(part);
        self.len -= 1;
        self.join();
        Some(entry.pair)
    }

    /// Removes a key; returns its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        self.remove_pair(key).map(|pair| pair.1)
    }

    /// Removes the entries of a segment for which `keep` is false, and returns them. The number of
    /// segments can fall, so a loop over segments must read [`IncrementalMap::parts`] again.
    pub fn retain(
        &mut self,
        part: usize,
        mut keep: impl FnMut(&K, &mut V) -> bool,
    ) -> Vec<Box<(K, V)>> {
        let part = self.at_mut(part);
        let out = part.extract_if(|entry| {
            let (key, value) = &mut *entry.pair;
            !keep(key, value)
        });
        let gone: Vec<_> = out.map(|entry| entry.pair).collect();
        shrink(part);
        self.len -= gone.len();
        self.join();
        gone
    }

    /// Counts a new entry, and splits a segment if the map is full.
    fn make_room(&mut self) {
        self.len += 1;
        if self.len > FULL * self.parts() {
            self.split();
        }
    }

    /// Splits the next segment in order: about half of its entries move to a new last segment.
    fn split(&mut self) {
        let parts = self.parts();
        let part = self.at_mut(parent(parts));
        let half = part.len() / 2;
        let (mut low, mut high) = (Part::with_capacity(half), Part::with_capacity(half));
        for entry in mem::take(part) {
            let is_high = place(entry.hash, parts + 1) == parts;
            let half = if is_high { &mut high } else { &mut low };
            half.insert_unique(entry.hash, entry, MapEntry::hash);
        }
        *part = low;
        self.rest.push(high);
    }

    /// Merges last segments back while there are too many.
    fn join(&mut self) {
        while self.len < SPARSE * self.rest.len()
            && let Some(last) = self.rest.pop()
        {
            let part = self.at_mut(parent(self.parts()));
            for entry in last {
                part.insert_unique(entry.hash, entry, MapEntry::hash);
            }
        }
    }
}

/// Returns the segment of a hash among `parts` segments.
fn place(hash: u64, parts: usize) -> usize {
    // Bits that hashbrown uses least to select a bucket within a segment.
    let bits = (hash >> 24) as usize;
    let all = parts.next_power_of_two();
    match bits & (all - 1) {
        place if place < parts => place,
        place => place - all / 2,
    }
}

/// Returns the segment to split when there are `parts` segments; also the one the last segment came
/// from.
fn parent(parts: usize) -> usize {
    parts - (parts + 1).next_power_of_two() / 2
}

/// Shrinks the table of a segment after most of its entries were removed.
fn shrink<K, V>(part: &mut Part<K, V>) {
    if part.capacity() > SPARE * part.len().max(SPARE) {
        part.shrink_to(2 * part.len(), MapEntry::hash);
    }
}

#[cfg(test)]
mod tests;
