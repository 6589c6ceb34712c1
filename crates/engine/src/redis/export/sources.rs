//! The sources of an export: the partitions, or parts of partitions, that the keys of a Redis
//! belong to.

use std::collections::BTreeSet;

use super::{
    super::super::{
        export::{Failure, Sink},
        registry::exported_states,
    },
    Keyspace,
    key::KeyBuilder,
};
use tollgate_core::{
    State,
    record::{Exported, Source},
};

/// Partitions and sources, sorted.
type Found = BTreeSet<(Vec<u8>, Source)>;

macro_rules! sources {
    ($($name:ident: $state:ty;)*) => {
        /// The sources by kind of state.
        #[derive(Debug, Default)]
        pub(super) struct Sources {
            $($name: Found,)*
        }

        impl Sources {
            /// Adds the source of a key. Returns false if no state has such a key.
            pub(super) fn add(&mut self, keys: &KeyBuilder, key: &[u8]) -> bool {
                let Some(named) = keys.parse(key) else { return false };
                let (tag, part) = (&named.name[..], &named.part[..]);
                match str::from_utf8(&named.capability).unwrap_or_default() {
                    $(<$state>::CAPABILITY => add::<$state>(&mut self.$name, tag, part),)*
                    // Indexes are derived from other keys.
                    _ => true,
                }
            }

            /// Passes the lines of all sources to `sink`.
            pub(super) async fn read(
                self,
                keyspace: &Keyspace,
                sink: &mut Sink<'_>,
            ) -> Result<(), Failure> {
                $(keyspace.read_all::<$state>(self.$name, sink).await?;)*
                Ok(())
            }
        }
    };
}

exported_states!(sources);

fn add<S: Exported>(found: &mut Found, tag: &[u8], part: &[u8]) -> bool {
    if S::UNEXPORTED.contains(&part) {
        return true;
    }
    let source = S::source(tag, part);
    source.map(|source| found.insert(source)).is_some()
}
