//! A scan of all keys of a Redis that counts names and bytes by namespace, for `names_max` and
//! `bytes_max`.
//!
//! The scan counts one key of each named partition, which its state declares ([`State::NAME_KEY`]).
//! Listed partitions have no such key, because the index counts them. It uses SCAN on its own
//! connections. The bytes of a key are determined by MEMORY USAGE, which estimates long values from
//! a few of their elements. SCAN can return a key twice while Redis resizes a table, so a count can
//! be slightly too high.

use std::{collections::HashMap, time::Duration};

use tokio::time::timeout;

use super::{
    super::registry::exported_states,
    Redis,
    export::{KeyBuilder, Primaries},
};
use tollgate_core::{State, error::Error, names::Namespace};

/// Time limit for connecting to all primaries.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Time limit for a page.
const ANSWER_MAX: Duration = Duration::from_secs(2);

macro_rules! name_keys {
    ($($name:ident: $state:ty;)*) => {
        /// The capabilities, and the part of the key that is counted for each of their partitions.
        const NAME_KEYS: &[(&str, Option<&str>)] =
            &[$((<$state>::CAPABILITY, <$state>::NAME_KEY),)*];
    };
}

exported_states!(name_keys);

/// The number of names by the prefix of their namespace. Other namespaces are not counted.
pub(in super::super) type NameCounts = HashMap<Box<[u8]>, u64>;

/// A scan in progress.
pub(in super::super) struct NameScan {
    primaries: Primaries,
    keys: KeyBuilder,
    /// The MATCH pattern.
    pattern: String,
    /// The number of the node, and the cursor on it.
    node: usize,
    cursor: u64,
}

impl NameScan {
    /// Connects to all primaries. With `in_default`, names of the default namespace are also
    /// counted.
    pub(in super::super) async fn open(
        engine: &Redis,
        in_default: bool,
    ) -> Result<NameScan, Error> {
        let primaries = answered(CONNECT_MAX, Primaries::connect(&engine.options)).await?;
        let keys = KeyBuilder::new(&engine.key_prefix);
        let pattern = if in_default {
            keys.pattern()
        } else {
            // Only a namespace ends with this character.
            keys.pattern() + "\x1e*"
        };
        Ok(NameScan { primaries, keys, pattern, node: 0, cursor: 0 })
    }

    /// Counts the names and the bytes of the next page. Returns false after the last page.
    pub(in super::super) async fn page(
        &mut self,
        counts: &mut NameCounts,
        bytes: &mut NameCounts,
    ) -> Result<bool, Error> {
        let page = self.primaries.page(self.node, self.cursor, &self.pattern);
        let (next, keys) = answered(ANSWER_MAX, page).await?;
        for key in &keys {
            self.count(key, counts);
        }
        self.measure(&keys, bytes).await?;
        self.cursor = next;
        self.node += usize::from(next == 0);
        Ok(self.node < self.primaries.count())
    }

    /// Adds the bytes of these keys to their namespaces.
    async fn measure(&mut self, keys: &[Vec<u8>], bytes: &mut NameCounts) -> Result<(), Error> {
        let mut owned: Vec<(&Vec<u8>, Box<[u8]>)> = Vec::new();
        for key in keys.iter().filter(|_| !bytes.is_empty()) {
            let named = self.keys.parse(key);
            let prefix = named.map(|named| Box::from(Namespace::prefix_of(&named.name)));
            if let Some(prefix) = prefix.filter(|prefix| bytes.contains_key(prefix)) {
                owned.push((key, prefix));
            }
        }
        if owned.is_empty() {
            return Ok(());
        }
        let of_node = owned.iter().map(|(key, _)| &***key);
        let sizes = answered(ANSWER_MAX, self.primaries.sizes(self.node, of_node)).await?;
        for ((_, prefix), size) in owned.iter().zip(sizes) {
            // A key that has expired in the meantime has no size.
            if let Some(count) = bytes.get_mut(prefix) {
                *count += size.unwrap_or_default();
            }
        }
        Ok(())
    }

    fn count(&self, key: &[u8], counts: &mut NameCounts) {
        let Some(named) = self.keys.parse(key) else { return };
        let is_name = |(capability, part): &(&str, Option<&str>)| {
            named.capability == capability.as_bytes()
                && part.is_some_and(|part| {
                    let rest = named.part.strip_prefix(part.as_bytes());
                    rest.is_some_and(|rest| matches!(rest, [] | [b':', ..]))
                })
        };
        if NAME_KEYS.iter().any(is_name)
            && let Some(count) = counts.get_mut(Namespace::prefix_of(&named.name))
        {
            *count += 1;
        }
    }
}

/// Waits for an answer from Redis.
async fn answered<T>(
    within: Duration,
    asked: impl Future<Output = Result<T, String>>,
) -> Result<T, Error> {
    match timeout(within, asked).await {
        Ok(answer) => answer.map_err(Error::Unavailable),
        Err(_) => Err(Error::DeadlineExceeded),
    }
}
