//! `[envoy]` of `tollgate.toml`, and the folder with the rules for Envoy's rate limit service.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Deserializer, de::Error};

use super::value::denial_cache;
use crate::server::input_file;
use tollgate_core::{
    envoy::{EnvoyRules, EnvoySettings, Headers, RuleFile},
    fallback::OnStoreFailure,
    time::Millis,
};

/// Maximum number of rule files.
const FILES_MAX: usize = 10_000;

/// `[envoy]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EnvoySection {
    /// The folder with the rules.
    pub(super) config: Option<PathBuf>,
    #[serde(default)]
    shadow_mode: bool,
    #[serde(default)]
    quota_mode: bool,
    #[serde(default)]
    merge_domains: bool,
    #[serde(default)]
    headers: Headers,
    #[serde(default)]
    dynamic_metadata: bool,
    #[serde(default, deserialize_with = "near_limit_ratio")]
    near_limit_ratio: Option<f32>,
    #[serde(default, deserialize_with = "denial_cache")]
    denial_cache: Option<Millis>,
    #[serde(default)]
    on_store_failure: OnStoreFailure,
}

impl EnvoySection {
    /// Returns the settings of all domains.
    pub(super) fn settings(&self) -> EnvoySettings {
        let default = EnvoySettings::default();
        EnvoySettings {
            shadow_mode: self.shadow_mode,
            quota_mode: self.quota_mode,
            merge_domains: self.merge_domains,
            headers: self.headers,
            dynamic_metadata: self.dynamic_metadata,
            near_limit_ratio: self.near_limit_ratio.unwrap_or(default.near_limit_ratio),
            denial_cache: self.denial_cache.unwrap_or(default.denial_cache),
            on_store_failure: self.on_store_failure,
        }
    }
}

/// Reads all `*.yaml` and `*.yml` files in a folder, sorted by name. Skips files whose names begin
/// with a dot: Kubernetes keeps older contents of a ConfigMap in them.
pub fn read_folder(folder: &Path) -> Vec<RuleFile> {
    let unread = |error: String| RuleFile { name: folder.display().to_string(), text: Err(error) };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return vec![unread(format!("cannot be read: {error}"))],
    };
    let paths = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        let is_yaml = path.extension().is_some_and(|end| end == "yaml" || end == "yml");
        let is_hidden = path.file_name()?.as_encoded_bytes().starts_with(b".");
        (is_yaml && !is_hidden).then_some(path)
    });
    let mut paths: Vec<PathBuf> = paths.take(FILES_MAX + 1).collect();
    if paths.len() > FILES_MAX {
        return vec![unread(format!("has more than {FILES_MAX} files"))];
    }
    paths.sort();
    paths
        .iter()
        .map(|path| RuleFile { name: path.display().to_string(), text: read(path) })
        .collect()
}

/// Reads a file.
fn read(path: &Path) -> Result<String, String> {
    input_file::read_text(path).map_err(|error| format!("cannot be read: {error}"))
}

/// Checks the files of a folder under the default settings, with `merge_domains` if requested, and
/// returns the rules. The error names the file.
pub fn check_folder(folder: &Path, merge_domains: bool) -> Result<EnvoyRules, String> {
    let settings = EnvoySettings { merge_domains, ..EnvoySettings::default() };
    EnvoyRules::new(&read_folder(folder), settings)
}

/// Reads a fraction from 0 to 1, which may be written as a whole number.
fn near_limit_ratio<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f32>, D::Error> {
    let ratio = f32::deserialize(d)?;
    if (0.0..=1.0).contains(&ratio) {
        Ok(Some(ratio))
    } else {
        Err(D::Error::custom(format!("envoy.near_limit_ratio = {ratio}: expected 0 to 1")))
    }
}
