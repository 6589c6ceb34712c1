//! Patterns for identities, in which `*` stands for any text and every other character for itself.
//!
//! Patterns are not globs: `?`, `[` and `{` can be part of an identity, and a star also matches
//! `/`.

/// A pattern such as `spiffe://acme/backend/*`, which matches `spiffe://acme/backend/eu/7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(String);

impl Pattern {
    /// Creates a pattern. Every text is a valid pattern.
    pub(super) fn new(text: &str) -> Pattern {
        Pattern(text.to_owned())
    }

    /// Whether the pattern matches a text. Each star first matches nothing; after a mismatch, the
    /// last star is extended by one byte. Takes linear time in practice, and at worst the product
    /// of the lengths.
    pub(super) fn matches(&self, text: &str) -> bool {
        let (pattern, text) = (self.0.as_bytes(), text.as_bytes());
        let (mut at, mut next) = (0, 0);
        // The position after the last star, and where the text after its match starts.
        let mut star = None;
        while next < text.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    at += 1;
                    star = Some((at, next));
                }
                Some(byte) if *byte == text[next] => {
                    at += 1;
                    next += 1;
                }
                _ => {
                    let Some((after, start)) = star else { return false };
                    star = Some((after, start + 1));
                    (at, next) = (after, start + 1);
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }

    /// Whether some text matches both patterns, so that one credential could match two callers.
    /// Takes the product of the lengths; called only when callers are loaded.
    pub(super) fn overlaps(&self, other: &Pattern) -> bool {
        let (one, other) = (self.0.as_bytes(), other.0.as_bytes());
        // For the previous row: whether the remainders of both patterns overlap.
        let mut below = vec![false; other.len() + 1];
        for i in (0..=one.len()).rev() {
            let mut row = vec![false; other.len() + 1];
            for j in (0..=other.len()).rev() {
                row[j] = match (one.get(i), other.get(j)) {
                    (None, None) => true,
                    (Some(b'*'), rest) => below[j] || rest.is_some() && row[j + 1],
                    (rest, Some(b'*')) => row[j + 1] || rest.is_some() && below[j],
                    (Some(a), Some(b)) => a == b && below[j + 1],
                    _ => false,
                };
            }
            below = row;
        }
        below[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_match_any_text() {
        for (pattern, text) in [
            ("a", "a"),
            ("*", ""),
            ("a*", "a"),
            ("a*c", "abcbc"),
            ("*b*", "abc"),
            ("svc-*", "svc-a/b"),
            ("**", "x"),
        ] {
            assert!(Pattern::new(pattern).matches(text), "{pattern} {text}");
        }
        for (pattern, text) in [("a", "ab"), ("", "a"), ("a*c", "abcb"), ("*b", "a"), ("[a]", "a")]
        {
            assert!(!Pattern::new(pattern).matches(text), "{pattern} {text}");
        }
    }

    #[test]
    fn patterns_overlap_if_a_text_matches_both() {
        for (one, other, both) in [
            ("a", "a", true),
            ("a", "b", false),
            ("a*", "ab", true),
            ("a*", "*b", true),
            ("a*", "b*", false),
            ("*a", "*b", false),
            ("a*c", "ab*", true),
            ("", "*", true),
            ("", "a", false),
            ("*x*", "abc", false),
            ("spiffe://acme/*", "spiffe://acme/backend/*", true),
            ("spiffe://acme/a/*", "spiffe://acme/b/*", false),
        ] {
            let (one, other) = (Pattern::new(one), Pattern::new(other));
            assert_eq!(one.overlaps(&other), both, "{one:?} {other:?}");
            assert_eq!(other.overlaps(&one), both, "{other:?} {one:?}");
        }
    }
}
