//! The YAML of envoyproxy/ratelimit.
//!
//! A known key at a level where it has no effect is ignored, and an unknown one is an error, as
//! there. A file is therefore read twice: as any YAML, whose keys are checked, and by its types.

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use serde_saphyr::{DuplicateKeyPolicy, Options};

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
    #[serde(deserialize_with = "or_default")]
    pub(super) shadow_mode: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) quota_mode: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) detailed_metric: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) value_to_metric: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) share_threshold: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: Map<String, Value>,
}

/// `rate_limit`
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RateLimitEntry {
    #[serde(deserialize_with = "or_default")]
    pub(super) requests_per_unit: u32,
    #[serde(deserialize_with = "text")]
    pub(super) unit: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) unlimited: bool,
    #[serde(deserialize_with = "text")]
    pub(super) name: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) replaces: Vec<ReplacedEntry>,
    pub(super) algorithm: Option<Algorithm>,
}

/// An entry of `replaces`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReplacedEntry {
    #[serde(deserialize_with = "text")]
    pub(super) name: String,
}

/// Reads a text; a number or another scalar is its own text, and null is empty.
fn text<'de, D: Deserializer<'de>>(d: D) -> Result<String, D::Error> {
    Option::<String>::deserialize(d).map(Option::unwrap_or_default)
}

/// Reads a value; null is the default.
fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    d: D,
) -> Result<T, D::Error> {
    Option::<T>::deserialize(d).map(Option::unwrap_or_default)
}

/// Parses a file. The error names the line, or the key.
pub(super) fn parse(text: &str) -> Result<RootEntry, String> {
    // The last one of duplicate keys counts, as there.
    let options = || -> Options {
        serde_saphyr::options! { duplicate_keys: DuplicateKeyPolicy::LastWins }
    };
    let any: Value = serde_saphyr::from_str_with_options(text, options()).map_err(error)?;
    match &any {
        Value::Null => return Ok(RootEntry::default()),
        Value::Object(keys) => check(keys)?,
        _ => return Err("expected a mapping with the key domain".to_owned()),
    }
    serde_saphyr::from_str_with_options(text, options()).map_err(error)
}

/// The first line of an error; further lines quote the file.
#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn error(error: serde_saphyr::Error) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Fails at an unknown key. `metadata` may have any keys.
fn check(keys: &Map<String, Value>) -> Result<(), String> {
    for (key, value) in keys {
        if !KEYS.contains(&key.as_str()) {
            return Err(format!("unknown key \"{}\"", key.escape_debug()));
        }
        match value {
            _ if key == "metadata" => {}
            Value::Object(keys) => check(keys)?,
            Value::Array(entries) => {
                for entry in entries {
                    match entry {
                        Value::Object(keys) => check(keys)?,
                        _ => return Err(format!("{key}: expected a list of mappings")),
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
        assert_eq!(error.unwrap_err(), "unknown key \"rate_limits\"");
        assert!(parse("domain: a\ndescriptors: [b]\n").unwrap_err().contains("mappings"));
        assert!(parse("domain: [").is_err());
        let root = parse("domain: a\ndomain: b\n").unwrap();
        assert_eq!(root.domain, "b");
        let on = parse("domain: a\ndescriptors:\n  - {key: b, shadow_mode: yes}\n").unwrap();
        assert!(on.descriptors[0].shadow_mode);
    }
}
