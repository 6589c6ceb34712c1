//! The buffered entries of an import.

use super::{
    super::super::{
        export::{Failure, Line},
        registry::imported_states,
    },
    Keyspace,
};
use tollgate_core::record::{Change, Changes, Import, Recorded, Unreadable, split_key};

macro_rules! unsent {
    ($($name:ident: $state:ty => $decision:ty, $new:expr;)*) => {
        /// Entries that were not sent yet, by kind of state.
        #[derive(Debug, Default)]
        pub(super) struct Unsent {
            $($name: Vec<$decision>,)*
            len: usize,
        }

        impl Unsent {
            fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Unreadable> {
                let Some((kind, of, part)) = split_key(key) else { return Ok(()) };
                self.len += 1;
                match kind {
                    $(<$state as Recorded>::KIND => self.$name.extend($new(of, part, value)?),)*
                    _ => {}
                }
                Ok(())
            }

            /// Sends all entries.
            pub(super) async fn send(self, to: &Keyspace) -> Result<(), Failure> {
                $(to.write_all(&self.$name).await?;)*
                Ok(())
            }
        }
    };
}

imported_states!(unsent);

impl Unsent {
    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds the entries of a line. The error says why it cannot be stored.
    pub(super) fn add(&mut self, line: &Line) -> Result<(), String> {
        let mut changes = Changes::default();
        line.record(&mut changes).map_err(str::to_owned)?;
        for change in changes.row().iter() {
            let (Change::Put(key, value) | Change::Insert(key, value)) = change else { continue };
            self.put(key, value).map_err(|Unreadable(why)| why)?;
        }
        Ok(())
    }
}
