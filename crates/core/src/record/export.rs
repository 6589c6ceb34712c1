//! Exports: the state of an engine as a file, one JSON object per line, which any engine can
//! import.
//!
//! `deploy/archive.md` specifies the format. A line contains the names of a stored entry, and the
//! fields of its record: the same serde type as in a data directory. Where a line differs from the
//! record, its type says why. An importing engine rebuilds everything that it derives from entries,
//! such as indexes. [`Export`] and [`Import`] move entries from and to Redis.

mod entries;
mod line;
pub(crate) mod text;

pub(crate) use entries::unknown_letter;
pub use entries::{Entry, Export, Exported, Import, Page, Parts, Source};
pub use line::{Checked, EntryLine};
pub use text::Text;
