//! Glob patterns of the configuration: `*` matches any text, `?` and `[ab]` one ASCII character,
//! `{a,b}` one of the alternatives. The first entry that matches a name applies.

use std::collections::HashMap;

use ahash::RandomState;
use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::decision::names::Name;

/// The patterns of a list of entries, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Globs {
    /// The first entry of each pattern without wildcards; found by one lookup.
    names: HashMap<String, usize, RandomState>,
    patterns: GlobSet,
    /// The entry of each pattern in `patterns`.
    entries: Vec<usize>,
}

impl Globs {
    /// Compiles the patterns. Fails if one is invalid.
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

    /// The index of the first entry that matches a name.
    pub(crate) fn first(&self, name: &Name) -> Option<usize> {
        let name = name.as_str();
        let named = self.names.get(name).copied();
        // The common case: no patterns with wildcards.
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
