//! A hash map in parts, which grows and shrinks by one of them at a time.
//!
//! A map that grows moves all it holds at once: of a million entries that is a pause of
//! hundreds of milliseconds. Here no step moves more than a part or two. It is linear hashing:
//! parts are split in their order, so no table says where they are.

use std::{
    borrow::Borrow,
    fmt,
    hash::{BuildHasher, RandomState},
};

use hashbrown::HashTable;

/// Entries of a part, on the average, at most. Those whose turn to be split is yet to come
/// hold twice as many.
const FULL: usize = 400;
/// With fewer, on the average, there is a part too many.
const SPARSE: usize = FULL / 4;
/// A part with so many times the room that it uses is shrunk.
const SPARE: usize = 8;

/// A hash map in parts, by keys that are bytes.
pub struct Parted<K, V> {
    hasher: RandomState,
    first: HashTable<(K, V)>,
    /// The others; as a rule there are none.
    rest: Vec<HashTable<(K, V)>>,
    len: usize,
}

impl<K, V> Default for Parted<K, V> {
    fn default() -> Parted<K, V> {
        let (first, rest) = (HashTable::new(), Vec::new());
        Parted { hasher: RandomState::new(), first, rest, len: 0 }
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Parted<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K, V> Parted<K, V> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        1 + self.rest.len()
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.first.iter().chain(self.rest.iter().flatten()).map(|(key, value)| (key, value))
    }

    /// The entries of a part.
    pub fn part(&self, part: usize) -> impl ExactSizeIterator<Item = (&K, &V)> {
        self.table(part).iter().map(|(key, value)| (key, value))
    }

    fn table(&self, part: usize) -> &HashTable<(K, V)> {
        part.checked_sub(1).and_then(|part| self.rest.get(part)).unwrap_or(&self.first)
    }

    fn table_mut(&mut self, part: usize) -> &mut HashTable<(K, V)> {
        match part.checked_sub(1).and_then(|part| self.rest.get_mut(part)) {
            Some(table) => table,
            None => &mut self.first,
        }
    }
}

impl<K: Borrow<[u8]>, V> Parted<K, V> {
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn place(&self, hash: u64) -> usize {
        match self.rest.len() {
            0 => 0,
            rest => place(hash, 1 + rest),
        }
    }

    /// The key as it is kept, and its value.
    pub fn get_key_value(&self, key: &[u8]) -> Option<(&K, &V)> {
        let hash = self.hash(key);
        let entry = self.table(self.place(hash)).find(hash, |entry| entry.0.borrow() == key);
        entry.map(|(key, value)| (key, value))
    }

    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    /// The key as it is kept, and its value to be changed.
    pub fn get_key_value_mut(&mut self, key: &[u8]) -> Option<(&K, &mut V)> {
        let hash = self.hash(key);
        let place = self.place(hash);
        let entry = self.table_mut(place).find_mut(hash, |entry| entry.0.borrow() == key);
        entry.map(|(key, value)| (&*key, value))
    }

    /// The value of a key, to be changed.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.get_key_value_mut(key).map(|(_, value)| value)
    }

    /// The value of a key, to be changed; one is put there first if there is none.
    pub fn get_or_default(&mut self, key: &[u8]) -> &mut V
    where
        K: for<'a> From<&'a [u8]>,
        V: Default,
    {
        if self.get(key).is_none() {
            self.insert(K::from(key), V::default());
        }
        let hash = self.hash(key);
        let (place, hasher) = (self.place(hash), self.hasher.clone());
        let entry = self.table_mut(place).entry(
            hash,
            |entry| entry.0.borrow() == key,
            |(key, _)| hasher.hash_one(key.borrow()),
        );
        &mut entry.or_insert_with(|| (K::from(key), V::default())).into_mut().1
    }

    /// Sets the value of a key; the one that it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        let hash = self.hash(key.borrow());
        let (place, hasher) = (self.place(hash), self.hasher.clone());
        let table = self.table_mut(place);
        if let Some((_, kept)) = table.find_mut(hash, |entry| entry.0.borrow() == key.borrow()) {
            return Some(std::mem::replace(kept, value));
        }
        table.insert_unique(hash, (key, value), |(key, _)| hasher.hash_one(key.borrow()));
        self.len += 1;
        if self.len > FULL * self.parts() {
            self.split();
        }
        None
    }

    /// Takes a key and its value out.
    pub fn remove_entry(&mut self, key: &[u8]) -> Option<(K, V)> {
        let hash = self.hash(key);
        let (place, hasher) = (self.place(hash), self.hasher.clone());
        let table = self.table_mut(place);
        let entry = table.find_entry(hash, |entry| entry.0.borrow() == key).ok()?.remove().0;
        shrink(table, &hasher);
        self.len -= 1;
        self.join();
        Some(entry)
    }

    /// Takes a key out; its value.
    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        self.remove_entry(key).map(|(_, value)| value)
    }

    /// Keeps of a part what is to be kept.
    pub fn retain(&mut self, part: usize, mut keep: impl FnMut(&K, &mut V) -> bool) {
        let hasher = self.hasher.clone();
        let table = self.table_mut(part);
        let before = table.len();
        table.retain(|(key, value)| keep(key, value));
        shrink(table, &hasher);
        let gone = before - table.len();
        self.len -= gone;
        self.join();
    }

    /// Splits the part whose turn it is.
    fn split(&mut self) {
        let (parts, hasher) = (self.parts(), self.hasher.clone());
        let hash = |(key, _): &(K, V)| hasher.hash_one(key.borrow());
        let table = self.table_mut(parent(parts));
        let half = table.len() / 2;
        let (mut low, mut high) = (HashTable::with_capacity(half), HashTable::with_capacity(half));
        for entry in std::mem::take(table) {
            let of = hash(&entry);
            let half = if place(of, parts + 1) == parts { &mut high } else { &mut low };
            half.insert_unique(of, entry, hash);
        }
        *table = low;
        self.rest.push(high);
    }

    /// Puts the last parts back to those they were split from, while there are too many.
    fn join(&mut self) {
        while self.len < SPARSE * self.rest.len()
            && let Some(last) = self.rest.pop()
        {
            let (parts, hasher) = (self.parts(), self.hasher.clone());
            let hash = |(key, _): &(K, V)| hasher.hash_one(key.borrow());
            let table = self.table_mut(parent(parts));
            for entry in last {
                table.insert_unique(hash(&entry), entry, hash);
            }
        }
    }
}

/// The part of a hash, of so many.
fn place(hash: u64, parts: usize) -> usize {
    // Bits by which the maps within go the least.
    let bits = (hash >> 24) as usize;
    let all = parts.next_power_of_two();
    match bits & (all - 1) {
        place if place < parts => place,
        place => place - all / 2,
    }
}

/// The part that is split when there are so many.
fn parent(parts: usize) -> usize {
    parts - (parts + 1).next_power_of_two() / 2
}

/// Gives back what a crowd has left empty.
fn shrink<K: Borrow<[u8]>, V>(table: &mut HashTable<(K, V)>, hasher: &RandomState) {
    if table.capacity() > SPARE * table.len().max(SPARE) {
        table.shrink_to(2 * table.len(), |(key, _)| hasher.hash_one(key.borrow()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Box<[u8]> {
        number.to_be_bytes().into()
    }

    #[test]
    fn no_part_is_large_however_many_entries_there_are() {
        let mut map = Parted::default();
        let mut largest = 0;
        for number in 0..100_000u64 {
            assert_eq!(map.insert(key(number), number), None);
            if number % 1000 == 0 {
                let sizes = (0..map.parts()).map(|part| map.table(part).capacity());
                largest = sizes.max().unwrap_or(0).max(largest);
            }
        }
        assert!(largest <= 4 * FULL, "room for {largest}");
        assert_eq!((map.len(), map.iter().count()), (100_000, 100_000));
        assert_eq!(map.insert(key(7), 8), Some(7));
        for number in 8..100_000 {
            assert_eq!(map.get(&key(number)), Some(&number));
            assert_eq!(map.remove(&key(number)), Some(number));
            assert_eq!(map.get(&key(number)), None);
        }
        assert_eq!((map.len(), map.parts()), (8, 1));
        assert!(map.table(0).capacity() < 100);
        assert_eq!(map.get_mut(&key(7)), Some(&mut 8));
    }

    #[test]
    fn a_part_at_a_time_all_are_gone_through() {
        let mut map: Parted<_, _> = Parted::default();
        for number in 0..10_000u64 {
            map.insert(key(number), number);
        }
        let (mut part, mut seen) = (0, 0);
        while part < map.parts() {
            map.retain(part, |_, number| {
                seen += 1;
                *number % 2 == 0
            });
            part += 1;
        }
        assert_eq!((seen, map.len(), map.iter().count()), (10_000, 5000, 5000));
        map.retain(0, |_, _| false);
        for number in 0..10_000 {
            map.remove(&key(number));
        }
        assert!(map.is_empty() && map.parts() == 1);
    }
}
