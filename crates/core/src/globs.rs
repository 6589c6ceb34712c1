//! Glob patterns of the configuration: `*` matches any text, `?` and `[ab]` one ASCII character,
//! `{a,b}` one of the alternatives. The first entry that matches a name applies.

use std::{collections::HashMap, str};

use ahash::RandomState;
use globset::{Glob, GlobMatcher, GlobSet, GlobSetBuilder};

use crate::names::{Name, Namespace};

/// The patterns of a list of entries, in order.
#[derive(Debug, Clone, Default)]
pub struct Globs {
    /// The entries of each pattern without wildcards; found by one lookup.
    names: HashMap<String, Vec<usize>, RandomState>,
    patterns: GlobSet,
    /// The entry of each pattern in `patterns`.
    entries: Vec<usize>,
}

impl Globs {
    /// Compiles the patterns. Fails if one is invalid.
    pub fn new<'a>(patterns: impl Iterator<Item = &'a String>) -> Result<Globs, globset::Error> {
        let (mut globs, mut set) = (Globs::default(), GlobSetBuilder::new());
        for (entry, pattern) in patterns.enumerate() {
            let glob = Glob::new(pattern)?;
            if pattern.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:.".contains(&byte)) {
                globs.names.entry(pattern.clone()).or_default().push(entry);
            } else {
                set.add(glob);
                globs.entries.push(entry);
            }
        }
        globs.patterns = set.build()?;
        Ok(globs)
    }

    /// Returns the index of the first entry that matches a local name.
    pub fn first(&self, name: &Name) -> Option<usize> {
        self.first_of(name, |_| true)
    }

    /// Returns the index of the first entry that matches a local name among those that `is_wanted`
    /// selects.
    fn first_of(&self, name: &Name, is_wanted: impl Fn(&usize) -> bool) -> Option<usize> {
        let name = name.as_str();
        let named = self.names.get(name).into_iter().flatten().copied().find(&is_wanted);
        // The common case: no patterns with wildcards.
        if self.patterns.is_empty() {
            return named;
        }
        let matched = self.patterns.matches(name).into_iter().map(|glob| self.entries[glob]);
        matched.filter(is_wanted).chain(named).min()
    }
}

/// The namespaces to which an entry of the configuration applies.
#[derive(Debug, Clone, Default)]
pub struct NamespaceGlob {
    /// The glob; `None` for the default namespace only.
    glob: Option<GlobMatcher>,
    /// Whether the default namespace is one of them.
    has_default: bool,
}

impl NamespaceGlob {
    /// Compiles the glob of an entry. Without one, the entry applies to the default namespace only.
    /// `*` also matches the default namespace, whose name is empty. Fails if the glob is invalid.
    pub fn new(glob: Option<&str>) -> Result<NamespaceGlob, globset::Error> {
        let glob = glob.map(Glob::new).transpose()?.map(|glob| glob.compile_matcher());
        let has_default = glob.as_ref().is_none_or(|glob| glob.is_match(""));
        Ok(NamespaceGlob { glob, has_default })
    }

    /// Whether the entry applies to partitions of the namespace of this one.
    pub fn matches(&self, partition: &[u8]) -> bool {
        match Namespace::split(partition).0 {
            [] => self.has_default,
            namespace => self.glob.as_ref().is_some_and(|glob| {
                str::from_utf8(namespace).is_ok_and(|namespace| glob.is_match(namespace))
            }),
        }
    }
}

/// The patterns of a list of entries that apply to names of some namespaces, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScopedGlobs {
    names: Globs,
    namespaces: Vec<NamespaceGlob>,
}

impl ScopedGlobs {
    /// Compiles the globs of namespaces ([`NamespaceGlob::new`]) and of local names. Fails if one is
    /// invalid.
    pub(crate) fn new<'a>(
        entries: impl Iterator<Item = (Option<&'a str>, &'a String)> + Clone,
    ) -> Result<ScopedGlobs, globset::Error> {
        let namespaces = entries.clone().map(|(namespace, _)| NamespaceGlob::new(namespace));
        Ok(ScopedGlobs {
            namespaces: namespaces.collect::<Result<_, _>>()?,
            names: Globs::new(entries.map(|(_, name)| name))?,
        })
    }

    /// Returns the index of the first entry that matches the namespace and the local name of a
    /// partition.
    pub(crate) fn first(&self, name: &Name) -> Option<usize> {
        // The common case: no entries.
        if self.namespaces.is_empty() {
            return None;
        }
        let prefix = name.prefix();
        self.names.first_of(name, |entry| self.namespaces[*entry].matches(prefix))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn name(text: &'static str) -> Name {
        Name::parse(Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn the_first_match_wins_whether_name_or_pattern() {
        let patterns = ["ar:*", "ar:1", "b", "{b,c}", "b", "?"].map(String::from);
        let globs = Globs::new(patterns.iter()).unwrap();
        let first = |text| globs.first(&name(text));
        assert_eq!(["ar:1", "ar:", "b", "c", "d"].map(first), [0, 0, 2, 3, 5].map(Some));
        assert_eq!(first("bb"), None);
        assert!(Globs::new([String::from("[")].iter()).is_err());
    }

    #[test]
    fn an_entry_applies_to_its_namespaces_only() {
        let [a, all] = ["a", "*"].map(String::from);
        let entries = [
            (Some("team-*"), &a),
            (None, &a),
            (Some("acme"), &a),
            (Some("acme"), &all),
            (Some("*"), &all),
        ];
        let globs = ScopedGlobs::new(entries.into_iter()).unwrap();
        let first = |namespace: &str, text| {
            let namespace = Namespace::parse(namespace.as_bytes()).unwrap();
            globs.first(&name(text).within(&namespace)).unwrap()
        };
        assert_eq!([first("", "a"), first("", "b")], [1, 4]);
        assert_eq!([first("acme", "a"), first("acme", "b")], [2, 3]);
        assert_eq!([first("team-1", "a"), first("team-1", "b")], [0, 4]);
        let own = ScopedGlobs::new([(None, &all), (Some(""), &a)].into_iter()).unwrap();
        let acme = Namespace::parse(b"acme").unwrap();
        assert_eq!(own.first(&name("a").within(&acme)), None);
        assert!(ScopedGlobs::new([(Some("["), &a)].into_iter()).is_err());
    }
}
