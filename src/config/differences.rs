//! The values of all keys of a configuration, and the differences between two of them.
//!
//! Values are compared as the file spells them, so a different spelling of the same value is a
//! difference. Keys that a flag or variable overrides are left out, because the file has no effect
//! on them.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use toml::{Table, Value};

use super::{Config, ServeFlags};
use crate::grpc::access::Digest;
use tollgate_core::envoy::RuleFile;
use tollgate_http::tls::TlsContents;
use tollgate_status::reload::Difference;

/// The keys and sections that take effect without a restart. All others need one.
const AT_RUN_TIME: [&str; 11] = [
    "caller",
    "envoy",
    "jwt",
    "limits",
    "log_level",
    "namespace",
    "policy",
    "pool",
    "reflection",
    "sequence",
    "tls",
];
/// The keys and sections that may differ between servers with the same rules.
const OF_ONE_SERVER: [&str; 8] =
    ["admin", "data_dir", "listen", "log_format", "log_level", "memory_max", "tls", "workers"];
/// Number of hexadecimal digits in the hash of a configuration.
const HASH_DIGITS: usize = 16;
/// Keys whose values are secret.
const SECRETS: [&str; 2] = ["token_sha256", "sentinel_password"];
/// Replaces a secret.
const HIDDEN: &str = "…";
/// Separates the path of a file from its digest.
const CONTENTS: &str = " (SHA-256 ";
/// Number of hexadecimal digits in the digest of a file.
const DIGEST_DIGITS: usize = 12;

/// The values of all keys.
#[derive(Debug, Clone, Default)]
pub(super) struct ConfigValues(BTreeMap<String, ConfigValue>);

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ConfigValue {
    /// The value as text, without secrets.
    shown: String,
    /// The digest of the hidden part; empty if nothing is hidden.
    hidden: String,
}

/// The differences between two configurations.
#[derive(Debug)]
pub(super) struct Differences {
    /// Differences of keys in [`AT_RUN_TIME`].
    pub(super) at_run_time: Vec<Difference>,
    /// Differences of all other keys.
    pub(super) at_start: Vec<Difference>,
}

impl ConfigValues {
    /// Collects the values of a file, the merged values, and the digests of the named files.
    pub(super) fn new(
        text: Option<&str>,
        flags: &ServeFlags,
        config: &Config,
        tls: Option<&TlsContents>,
        key_set: Option<&[u8]>,
    ) -> ConfigValues {
        let table: Table = text.and_then(|text| toml::from_str(text).ok()).unwrap_or_default();
        let mut settings = ConfigValues::default();
        table.iter().for_each(|(key, value)| settings.add(key, value));
        for key in flags.overridden() {
            settings.0.remove(key);
        }
        settings.add_merged(config);
        for (key, path, contents) in tls.into_iter().flat_map(TlsContents::files) {
            let key = format!("tls.{key}");
            settings.add_file(
                &key,
                &format!("\"{}\"", path.display()),
                contents.unwrap_or_default(),
            );
        }
        if let Some(document) = key_set {
            let path = settings.0.get("jwt.jwks").map(|it| it.shown.clone()).unwrap_or_default();
            settings.add_file("jwt.jwks", &path, document);
        }
        settings
    }

    /// Returns the differences from newer settings, by key.
    pub(super) fn differences(&self, newer: &ConfigValues) -> Differences {
        let keys: BTreeSet<&String> = self.0.keys().chain(newer.0.keys()).collect();
        let mut differences = Differences { at_run_time: Vec::new(), at_start: Vec::new() };
        for key in keys {
            let (old, new) = (self.0.get(key), newer.0.get(key));
            if old == new {
                continue;
            }
            let shown = |setting: Option<&ConfigValue>| setting.map(|it| it.shown.clone());
            let (old, new) = (shown(old).unwrap_or_default(), shown(new).unwrap_or_default());
            let applies = AT_RUN_TIME.contains(&section_of(key)) && key != "tls";
            let list =
                if applies { &mut differences.at_run_time } else { &mut differences.at_start };
            list.push(Difference { key: key.clone(), old, new });
        }
        differences
    }

    /// Returns the hash of the values that all servers with the same rules have in common. It does
    /// not depend on comments, the order of sections, the keys of a single server, or the document
    /// at the URL of a key set, which servers fetch at different times.
    pub(super) fn hash(&self) -> String {
        let mut shared = Vec::new();
        for (key, value) in &self.0 {
            if OF_ONE_SERVER.contains(&section_of(key)) {
                continue;
            }
            let hidden = if key == "jwt.jwks" { "" } else { &value.hidden };
            let shown = value.shown.split(CONTENTS).next().unwrap_or_default();
            // All digests have the same length, so different lists never produce the same text.
            shared.extend([key, shown, hidden].map(|text| digest(text.as_bytes())));
        }
        let mut hash = digest(shared.concat().as_bytes());
        hash.truncate(HASH_DIGITS);
        hash
    }

    /// Returns the values by key, without secrets.
    pub(super) fn shown(&self) -> Vec<(String, String)> {
        self.0.iter().map(|(key, value)| (key.clone(), value.shown.clone())).collect()
    }

    fn insert(&mut self, key: &str, shown: String) {
        self.0.insert(key.to_owned(), ConfigValue { shown, hidden: String::new() });
    }

    /// Adds the value of a key, including the keys nested in it.
    fn add(&mut self, key: &str, value: &Value) {
        match value {
            Value::Table(table) => {
                table.iter().for_each(|(name, value)| self.add(&format!("{key}.{name}"), value));
            }
            Value::Array(entries) if entries.iter().all(Value::is_table) && !entries.is_empty() => {
                self.add_entries(key, entries.iter().filter_map(Value::as_table));
            }
            value => self.add_value(key, value),
        }
    }

    /// Adds the entries of a list. Entries of a top-level list have identities, and their order
    /// matters, because the first match applies.
    fn add_entries<'a>(&mut self, key: &str, entries: impl Iterator<Item = &'a Table>) {
        let is_top = !key.contains('[');
        let mut order: Vec<String> = Vec::new();
        for (index, entry) in entries.enumerate() {
            let (identity, identifying) = match identity(key, entry).filter(|_| is_top) {
                Some((identity, identifying)) => {
                    let earlier = order.iter().filter(|it| is_same(it, &identity)).count();
                    let identity = if earlier == 0 {
                        identity
                    } else {
                        format!("{identity} #{}", earlier + 1)
                    };
                    (identity, identifying)
                }
                None => (index.to_string(), Vec::new()),
            };
            for (name, value) in entry.iter().filter(|(name, _)| !identifying.contains(&&***name)) {
                self.add(&format!("{key}[{identity}].{name}"), value);
            }
            order.push(identity);
        }
        if is_top {
            self.insert(key, order.join(", "));
        }
    }

    fn add_value(&mut self, key: &str, value: &Value) {
        let whole = value.to_string();
        let name = key.rsplit('.').next().unwrap_or_default();
        let shown = match value {
            _ if SECRETS.contains(&name) => HIDDEN.to_owned(),
            Value::String(text) => Value::String(without_secrets(text)).to_string(),
            _ => whole.clone(),
        };
        let hidden = if shown == whole { String::new() } else { digest(whole.as_bytes()) };
        self.0.insert(key.to_owned(), ConfigValue { shown, hidden });
    }

    /// Adds a key that names a file with these contents.
    fn add_file(&mut self, key: &str, path: &str, contents: &[u8]) {
        let hidden = digest(contents);
        let shown = match key {
            // Only the path of a private key is shown, without a digest.
            "tls.key" => path.to_owned(),
            _ => format!("{path}{CONTENTS}{})", &hidden[..DIGEST_DIGITS]),
        };
        self.0.insert(key.to_owned(), ConfigValue { shown, hidden });
    }

    /// Adds a key that names a folder with these files.
    pub(super) fn add_folder(&mut self, key: &str, folder: &Path, files: &[RuleFile]) {
        let mut contents = Vec::new();
        for RuleFile { name, text } in files {
            let text = text.as_ref().unwrap_or_else(|error| error);
            // All digests have the same length, so different folders never produce the same
            // contents.
            contents.extend([digest(name.as_bytes()), digest(text.as_bytes())].concat().bytes());
        }
        self.add_file(key, &format!("\"{}\"", folder.display()), &contents);
    }

    /// Adds the effective values of keys, whether or not the file contains them.
    fn add_merged(&mut self, config: &Config) {
        let drain = humantime::format_duration(config.drain_timeout);
        let format = if config.log.json { "json" } else { "text" };
        for (key, shown) in [
            ("listen", format!("\"{}\"", config.listen)),
            ("workers", config.workers.to_string()),
            ("connections_max", config.connections_max.to_string()),
            ("drain_timeout", format!("\"{drain}\"")),
            ("log_format", format!("\"{format}\"")),
            ("log_level", format!("\"{}\"", config.log.level)),
            ("tls", if config.tls.is_some() { "on" } else { "off" }.to_owned()),
        ] {
            self.insert(key, shown);
        }
        if !self.0.contains_key("engine") {
            self.insert("engine", "\"embedded\"".to_owned());
        }
    }
}

/// Returns the section of a key, or the key itself.
pub(super) fn section_of(key: &str) -> &str {
    key.split(['.', '[']).next().unwrap_or_default()
}

/// Returns the identity of an entry and the keys that form it: its glob or name, and the glob of
/// its namespaces. The namespace of a caller is one of its rights, not part of its identity.
fn identity(section: &str, entry: &Table) -> Option<(String, Vec<&'static str>)> {
    let text = |key: &'static str| Some((key, entry.get(key)?.as_str()?));
    let (key, name) = text("match").or_else(|| text("name"))?;
    Some(match text("namespace").filter(|_| section != "caller") {
        Some((other, namespace)) => (format!("{name:?} in {namespace:?}"), vec![key, other]),
        None => (format!("{name:?}"), vec![key]),
    })
}

/// Whether an identity equals this one, with or without a number.
fn is_same(numbered: &str, identity: &str) -> bool {
    numbered.split(" #").next() == Some(identity)
}

/// Returns a URL without its user, password and query. Any other text is returned unchanged.
fn without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let rest = match rest.split_once('?') {
        Some((rest, _)) => format!("{rest}?{HIDDEN}"),
        None => rest.to_owned(),
    };
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{HIDDEN}@{host}"),
        None => format!("{scheme}://{rest}"),
    }
}

fn digest(bytes: &[u8]) -> String {
    Digest::compute(bytes).hex()
}

#[cfg(test)]
mod tests;
