//! The YAML of envoyproxy/ratelimit.
//!
//! As in envoyproxy/ratelimit, a known key at a level where it has no effect is ignored, and an
//! unknown one is an error. A file is therefore parsed twice: as arbitrary YAML, to check its keys,
//! and into its types. Also as in envoyproxy/ratelimit, only the first document of a file counts, a
//! number with a leading 0 is octal, and a quoted scalar is neither a number nor a boolean.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeOwned, Error as _, IntoDeserializer, MapAccess, SeqAccess, Visitor,
        value::Error as ValueError,
    },
};
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

use super::settings::Counting;
use crate::rate::Algorithm;

/// All keys. `algorithm` and `counting` are additions of Tollgate.
const KEYS: [&str; 18] = [
    "algorithm",
    "counting",
    "descriptors",
    "detailed_metric",
    "domain",
    "key",
    "metadata",
    "name",
    "quota_mode",
    "rate_limit",
    "replaces",
    "requests_per_unit",
    "shadow_mode",
    "share_threshold",
    "unit",
    "unlimited",
    "value",
    "value_to_metric",
];

/// A file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RootEntry {
    #[serde(deserialize_with = "text")]
    pub(super) domain: String,
    #[serde(deserialize_with = "counting")]
    pub(super) counting: Option<Counting>,
    #[serde(deserialize_with = "or_default")]
    pub(super) descriptors: Vec<DescriptorEntry>,
}

/// An entry of `descriptors`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DescriptorEntry {
    #[serde(deserialize_with = "text")]
    pub(super) key: String,
    #[serde(deserialize_with = "text")]
    pub(super) value: String,
    pub(super) rate_limit: Option<RateLimitEntry>,
    #[serde(deserialize_with = "or_default")]
    pub(super) descriptors: Vec<DescriptorEntry>,
    #[serde(deserialize_with = "flag")]
    pub(super) shadow_mode: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) quota_mode: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) detailed_metric: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) value_to_metric: bool,
    #[serde(deserialize_with = "flag")]
    pub(super) share_threshold: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: Map<String, Value>,
}

/// `rate_limit`
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RateLimitEntry {
    #[serde(deserialize_with = "number")]
    pub(super) requests_per_unit: u32,
    #[serde(deserialize_with = "text")]
    pub(super) unit: String,
    #[serde(deserialize_with = "flag")]
    pub(super) unlimited: bool,
    #[serde(deserialize_with = "text")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) replaces: Vec<ReplacedEntry>,
    #[serde(deserialize_with = "algorithm")]
    pub(super) algorithm: Option<Algorithm>,
}

/// An entry of `replaces`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReplacedEntry {
    #[serde(deserialize_with = "text")]
    pub(super) name: String,
}

/// Reads a string; a number or another scalar is taken as its own text, and null is empty.
fn text<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(d).map(Option::unwrap_or_default)
}

/// Reads a value; null is the default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    d: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

/// Reads a name of a list, such as an algorithm; null is none.
fn one_of<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    d: D,
    expected: &str,
) -> Result<Option<T>, D::Error> {
    let name = text(d)?;
    if name.is_empty() {
        return Ok(None);
    }
    let error = || format!("{expected}, found \"{}\"", name.escape_debug());
    let known = T::deserialize(name.as_str().into_deserializer());
    known.map(Some).map_err(|_: ValueError| D::Error::custom(error()))
}

fn counting<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Counting>, D::Error> {
    one_of(d, "counting: expected each, all_or_nothing or reports")
}

fn algorithm<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Algorithm>, D::Error> {
    one_of(d, "algorithm: expected CALENDAR_WINDOW, FIXED_WINDOW, SLIDING_WINDOW or TOKEN_BUCKET")
}

/// Reads a whole number without quotes; null is 0.
fn number<'de, D: Deserializer<'de>>(d: D) -> Result<u32, D::Error> {
    let found = match Any::deserialize(d)? {
        Any::Null => return Ok(0),
        Any::Number(number) => match u32::try_from(number) {
            Ok(number) => return Ok(number),
            Err(_) => Any::Number(number),
        },
        found => found,
    };
    Err(D::Error::custom(format!(
        "requests_per_unit: expected a whole number of 0 to 4294967295, found {found}"
    )))
}

/// Reads a boolean without quotes; null is false.
fn flag<'de, D: Deserializer<'de>>(d: D) -> Result<bool, D::Error> {
    match Any::deserialize(d)? {
        Any::Null => Ok(false),
        Any::Flag(flag) => Ok(flag),
        found => Err(D::Error::custom(format!("expected true or false, found {found}"))),
    }
}

/// Arbitrary YAML. A quoted scalar is a string.
enum Any {
    Null,
    Flag(bool),
    Number(u64),
    /// A number that is negative or not whole.
    OtherNumber(f64),
    Text(String),
    List(Vec<Any>),
    Mapping(Vec<(Spanned<String>, Any)>),
}

impl fmt::Display for Any {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Any::Null => to.write_str("nothing"),
            Any::Flag(flag) => write!(to, "{flag}"),
            Any::Number(number) => write!(to, "{number}"),
            Any::OtherNumber(number) => write!(to, "{number:?}"),
            Any::Text(text) => write!(to, "the text \"{}\"", text.escape_debug()),
            Any::List(_) => to.write_str("a list"),
            Any::Mapping(_) => to.write_str("a mapping"),
        }
    }
}

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Any, D::Error> {
        d.deserialize_any(AnyVisitor)
    }
}

struct AnyVisitor;

impl<'de> Visitor<'de> for AnyVisitor {
    type Value = Any;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("any YAML")
    }

    fn visit_unit<E>(self) -> Result<Any, E> {
        Ok(Any::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Any, E> {
        Ok(Any::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Any, E> {
        Ok(Any::Number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Any, E> {
        Ok(u64::try_from(number).map_or(Any::OtherNumber(number as f64), Any::Number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Any, E> {
        Ok(Any::OtherNumber(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Any, E> {
        Ok(Any::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Any, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = list.next_element()? {
            entries.push(entry);
        }
        Ok(Any::List(entries))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mapping: A) -> Result<Any, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = mapping.next_entry()? {
            entries.push(entry);
        }
        Ok(Any::Mapping(entries))
    }
}

/// Reads the first document of a file; `None` if it is empty. The error names the line.
fn document<T: DeserializeOwned>(text: &str) -> Result<Option<T>, String> {
    // The last of duplicate keys counts, as in envoyproxy/ratelimit.
    let options = serde_saphyr::options! {
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let mut bytes = text.as_bytes();
    let first = serde_saphyr::read_with_options(&mut bytes, options).next();
    first.transpose().map_err(|error| with_line(&error))
}

/// Returns the error, with its line.
fn with_line(error: &serde_saphyr::Error) -> String {
    let said = error.to_string();
    let said = said.lines().next().unwrap_or_default();
    match error.location() {
        Some(at) => {
            let (line, column) = (at.line(), at.column());
            let place = format!(" at line {line}, column {column}");
            format!("{} in line {line}", said.strip_suffix(&*place).unwrap_or(said))
        }
        None => said.to_owned(),
    }
}

/// Parses a file. The error names the line.
pub(super) fn parse(text: &str) -> Result<RootEntry, String> {
    match document(text)? {
        None | Some(Any::Null) => return Ok(RootEntry::default()),
        Some(Any::Mapping(keys)) => check(&keys)?,
        Some(_) => return Err("expected a mapping with the key domain".to_owned()),
    }
    Ok(document(text)?.unwrap_or_default())
}

/// Fails if there is an unknown key. `metadata` may have any keys.
fn check(keys: &[(Spanned<String>, Any)]) -> Result<(), String> {
    for (Spanned { value: key, referenced, .. }, value) in keys {
        let line = referenced.line();
        if !KEYS.contains(&key.as_str()) {
            return Err(format!("unknown key \"{}\" in line {line}", key.escape_debug()));
        }
        match value {
            _ if key == "metadata" => {}
            Any::Mapping(keys) => check(keys)?,
            Any::List(entries) => {
                for entry in entries {
                    match entry {
                        Any::Mapping(keys) => check(keys)?,
                        _ if !["descriptors", "replaces"].contains(&key.as_str()) => {}
                        _ => {
                            return Err(format!(
                                "{key}: expected a list of mappings in line {line}"
                            ));
                        }
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_texts_where_a_text_is_expected() {
        let file = "domain: 7\ndescriptors:\n  - key: status\n    value: 200\n  - key: answer\n    \
                    value: yes\n  - key: version\n    value: 1.0\n  - key: empty\n    value:\n  - key: \
                    code\n    value: 007\n  - key: flag\n    value: true\n";
        let root = parse(file).unwrap();
        assert_eq!(root.domain, "7");
        let values: Vec<&str> = root.descriptors.iter().map(|it| it.value.as_str()).collect();
        assert_eq!(values, ["200", "yes", "1.0", "", "007", "true"]);
    }

    #[test]
    fn known_keys_are_ignored_at_other_levels_and_unknown_ones_are_errors() {
        assert!(parse("domain: a\nunit: second\ndescriptors:\n  - key: b\n    name: c\n").is_ok());
        let error = parse("domain: a\ndescriptors:\n  - key: b\n    rate_limits: {}\n");
        assert_eq!(error.unwrap_err(), "unknown key \"rate_limits\" in line 4");
        assert!(parse("domain: a\ndescriptors: [b]\n").unwrap_err().contains("mappings"));
        assert!(parse("domain: [").is_err());
        let root = parse("domain: a\ndomain: b\n").unwrap();
        assert_eq!(root.domain, "b");
        let on = parse("domain: a\ndescriptors:\n  - {key: b, shadow_mode: yes}\n").unwrap();
        assert!(on.descriptors[0].shadow_mode);
    }
    #[test]
    fn j35_errors_name_the_line_and_no_types_of_the_program() {
        let rule = |key: &str| {
            format!(
                "domain: a\ndescriptors:\n  - key: b\n    rate_limit:\n      unit: day\n      {key}\n"
            )
        };
        let number = "requests_per_unit: expected a whole number of 0 to 4294967295, found";
        for (key, error) in [
            ("requests_per_unit: \"5\"", format!("{number} the text \"5\" in line 6")),
            ("requests_per_unit: 1.5", format!("{number} 1.5 in line 6")),
            ("requests_per_unit: -1", format!("{number} -1.0 in line 6")),
            ("requests_per_unit: 4294967296", format!("{number} 4294967296 in line 6")),
            ("requests_per_unit: [1]", format!("{number} a list in line 6")),
            ("requests_per_unit: true", format!("{number} true in line 6")),
            ("unlimited: 'no'", "expected true or false, found the text \"no\" in line 6".to_owned()),
            ("unlimited: 1", "expected true or false, found 1 in line 6".to_owned()),
            (
                "algorithm: x",
                "algorithm: expected CALENDAR_WINDOW, FIXED_WINDOW, SLIDING_WINDOW or TOKEN_BUCKET, found \
                 \"x\" in line 6"
                .to_owned(),
            ),
            ("name: [a]", "expected string scalar in line 6".to_owned()),
            ("replaces: 5", "expected sequence start in line 6".to_owned()),
            ("{", "line 6".to_owned()),
        ] {
            let found = parse(&rule(key)).unwrap_err();
            assert!(found.ends_with(&error), "{key}: {found}");
            for word in ["enum", "struct", "variant", "u32", "from_multiple", "Entry"] {
                assert!(!found.contains(word), "{key}: {found}");
            }
        }
        let counting = parse("domain: a\ncounting: some\n").unwrap_err();
        assert_eq!(
            counting,
            "counting: expected each, all_or_nothing or reports, found \"some\" in line 2"
        );
    }

    #[test]
    fn j35_the_first_document_counts_and_a_leading_zero_is_octal() {
        let file = "domain: a\ndescriptors:\n  - {key: b, value: 010, rate_limit: {unit: day, \
                    requests_per_unit: 010}}\n---\ndomain: b\n---\n[";
        let root = parse(file).unwrap();
        assert_eq!((&*root.domain, &*root.descriptors[0].value), ("a", "010"));
        assert_eq!(root.descriptors[0].rate_limit.as_ref().unwrap().requests_per_unit, 8);
    }
}
