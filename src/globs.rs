//! Globs of the configuration: `*` any text, `?` and `[ab]` one ASCII character,
//! `{a,b}`; the first one that matches a name counts.

use std::collections::HashMap;

use ahash::RandomState;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::names::Name;

/// Globs in the order of their entries.
#[derive(Debug, Clone, Default)]
pub(crate) struct Globs {
    /// The first entry of each pattern that is a name: found without a matcher.
    names: HashMap<String, usize, RandomState>,
    patterns: GlobSet,
    /// The entries of the patterns.
    entries: Vec<usize>,
}

impl Globs {
    /// These globs; the error is one that cannot be read.
    pub(crate) fn new<'a>(
        patterns: impl Iterator<Item = &'a String>,
    ) -> Result<Globs, globset::Error> {
        let (mut globs, mut set) = (Globs::default(), GlobSetBuilder::new());
        for (entry, pattern) in patterns.enumerate() {
            let glob = Glob::new(pattern)?;
            if pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:.".contains(&byte)) {
                globs.names.entry(pattern.clone()).or_insert(entry);
            } else {
                set.add(glob);
                globs.entries.push(entry);
            }
        }
        globs.patterns = set.build()?;
        Ok(globs)
    }

    /// The entry that counts for a name.
    pub(crate) fn first(&self, name: &Name) -> Option<usize> {
        let name = name.as_str();
        let named = self.names.get(name).copied();
        // Most configurations have none: nothing is to be matched then.
        if self.patterns.is_empty() {
            return named;
        }
        let matched = self.patterns.matches(name).into_iter().map(|glob| self.entries[glob]);
        matched.chain(named).min()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn the_first_entry_that_matches_counts_be_it_a_name_or_a_pattern() {
        let patterns = ["ar:*", "ar:1", "b", "{b,c}", "b", "?"].map(String::from);
        let globs = Globs::new(patterns.iter()).unwrap();
        let first = |name: &'static str| {
            globs.first(&Name::parse(Bytes::from_static(name.as_bytes())).unwrap())
        };
        assert_eq!(["ar:1", "ar:", "b", "c", "d"].map(first), [0, 0, 2, 3, 5].map(Some));
        assert_eq!(first("bb"), None);
        assert!(Globs::new([String::from("[")].iter()).is_err());
    }
}
