//! A walk through all keys of a Redis that counts names by namespace, for `names_max`.
//!
//! The walk counts one key of each named partition, which its state declares ([`State::NAME_KEY`]).
//! Listed partitions have no such key: the index counts them. The walk uses SCAN on connections of
//! its own. SCAN can return a key twice while Redis resizes a table, so a count can be slightly too
//! high.

use std::{collections::HashMap, time::Duration};

use tokio::time::timeout;

use super::{
    super::registry::exported_states,
    Redis,
    export::{KeyBuilder, Primaries},
};
use crate::decision::{State, error::Error, names::Namespace};

/// The time limit of the connections to all primaries.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// The time limit of a page.
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

/// A walk.
pub(in super::super) struct NameScan {
    primaries: Primaries,
    keys: KeyBuilder,
    /// The MATCH pattern.
    pattern: String,
    /// The number of the node, and the cursor there.
    node: usize,
    cursor: u64,
}

impl NameScan {
    /// Connects to all primaries. With `in_default`, names of the default namespace are counted too.
    pub(in super::super) async fn open(
        engine: &Redis,
        in_default: bool,
    ) -> Result<NameScan, Error> {
        let primaries = answered(CONNECT_MAX, Primaries::connect(&engine.options)).await?;
        let keys = KeyBuilder::new(&engine.key_prefix);
        let pattern = match in_default {
            true => keys.pattern(),
            // Only a namespace ends with this character.
            false => keys.pattern() + "\x1e*",
        };
        Ok(NameScan { primaries, keys, pattern, node: 0, cursor: 0 })
    }

    /// Counts the names of the next page. Returns false after the last page.
    pub(in super::super) async fn page(&mut self, counts: &mut NameCounts) -> Result<bool, Error> {
        let page = self.primaries.page(self.node, self.cursor, &self.pattern);
        let (next, keys) = answered(ANSWER_MAX, page).await?;
        for key in keys {
            self.count(&key, counts);
        }
        self.cursor = next;
        self.node += usize::from(next == 0);
        Ok(self.node < self.primaries.count())
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

/// Waits for an answer of Redis.
async fn answered<T>(
    within: Duration,
    asked: impl Future<Output = Result<T, String>>,
) -> Result<T, Error> {
    match timeout(within, asked).await {
        Ok(answer) => answer.map_err(Error::Unavailable),
        Err(_) => Err(Error::DeadlineExceeded),
    }
}
