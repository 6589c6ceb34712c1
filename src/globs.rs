//! Globs of the configuration: `*` any text, `?` and `[ab]` one ASCII character,
//! `{a,b}`; the first one that matches a name counts.

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::names::Name;

/// Globs in the order of their entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Globs(GlobSet);

impl Globs {
    /// These globs; the error is one that cannot be read.
    pub(crate) fn new<'a>(
        patterns: impl Iterator<Item = &'a String>,
    ) -> Result<Globs, globset::Error> {
        let mut globs = GlobSetBuilder::new();
        for pattern in patterns {
            globs.add(Glob::new(pattern)?);
        }
        Ok(Globs(globs.build()?))
    }

    /// The entry that counts for a name.
    pub(crate) fn first(&self, name: &Name) -> Option<usize> {
        // Most configurations have none: nothing is to be matched then.
        if self.0.is_empty() {
            return None;
        }
        self.0.matches(name.as_str()).into_iter().min()
    }
}
