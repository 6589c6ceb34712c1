//! `[jwt]` of `tollgate.toml`. `key_set` reads its key set.

use std::{
    fmt::Display,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer};

use super::value::length;
use crate::{
    grpc::access::{Jwt, JwtAlgorithm},
    server::fetch,
};
use tollgate_core::time::Millis;

/// The default of `jwks_refresh`.
const REFRESH: Millis = Millis(300_000);
/// Maximum time until the next fetch after one has failed.
const RETRY: Duration = Duration::from_secs(10);
const REFRESH_MIN: Millis = Millis(1000);
const REFRESH_MAX: Millis = Millis(86_400_000);

/// `[jwt]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JwtSection {
    issuer: String,
    audience: String,
    /// The path of a file, or a URL.
    jwks: String,
    jwks_ca: Option<PathBuf>,
    #[serde(default, deserialize_with = "refresh")]
    jwks_refresh: Option<Millis>,
    algorithms: Vec<String>,
}

/// The key set that `[jwt]` is checked against.
#[derive(Debug, Clone, Copy)]
pub(in crate::config) enum KeySet<'a> {
    /// The document, or the error of reading it.
    Read(&'a Result<Vec<u8>, String>),
    /// Only the section is checked, because the file may be on another machine.
    Skip,
}

impl JwtSection {
    /// Checks the section against its key set; returns `None` for [`KeySet::Skip`]. The error names
    /// the key.
    pub(super) fn load(&self, keys: KeySet<'_>) -> Result<Option<Jwt>, String> {
        for (key, text) in [("issuer", &self.issuer), ("audience", &self.audience)] {
            if text.is_empty() {
                return Err(format!("jwt.{key}: must not be empty"));
            }
        }
        let algorithm = |name: &String| {
            JwtAlgorithm::parse(name).ok_or_else(|| {
                format!(
                    "jwt.algorithms = \"{name}\": expected one or more of {}",
                    JwtAlgorithm::names()
                )
            })
        };
        let algorithms: Vec<JwtAlgorithm> =
            self.algorithms.iter().map(algorithm).collect::<Result<_, _>>()?;
        if algorithms.is_empty() {
            return Err(format!(
                "jwt.algorithms: expected one or more of {}",
                JwtAlgorithm::names()
            ));
        }
        if self.is_url() {
            // The error does not quote the URL, which may contain a password.
            fetch::parse(&self.jwks).map_err(|error| format!("jwt.jwks: {error}"))?;
        } else if self.jwks_ca.is_some() {
            return Err("jwt.jwks_ca: requires an https URL in jwt.jwks".to_owned());
        } else if self.jwks_refresh.is_some() {
            return Err("jwt.jwks_refresh: requires an https URL in jwt.jwks".to_owned());
        }
        match keys {
            KeySet::Skip => Ok(None),
            KeySet::Read(Err(error)) => Err(error.clone()),
            KeySet::Read(Ok(document)) => self.settings(algorithms, document).map(Some),
        }
    }

    /// Fails if a document is not a key set. Accepts all algorithms, because the section may be
    /// wrong while the key set is right.
    pub(super) fn check_document(&self, document: &[u8]) -> Result<(), String> {
        self.settings(JwtAlgorithm::all(), document).map(drop)
    }

    /// Returns the time until the next fetch of the URL.
    pub(super) fn interval(&self, has_failed: bool) -> Duration {
        let every = self.jwks_refresh.unwrap_or(REFRESH).duration();
        if has_failed { every.min(RETRY) } else { every }
    }

    /// Whether another section has the same URL and the same authorities.
    pub(super) fn is_same_url(&self, other: &JwtSection) -> bool {
        (&self.jwks, &self.jwks_ca) == (&other.jwks, &other.jwks_ca)
    }

    /// Returns the path of a key set in a file.
    pub(super) fn path(&self) -> &Path {
        Path::new(&self.jwks)
    }

    /// Returns the URL of the key set.
    pub(super) fn url(&self) -> &str {
        &self.jwks
    }

    /// Returns the file with the authorities for the URL.
    pub(super) fn jwks_ca(&self) -> Option<&PathBuf> {
        self.jwks_ca.as_ref()
    }

    /// Builds the settings with a key set.
    fn settings(&self, algorithms: Vec<JwtAlgorithm>, document: &[u8]) -> Result<Jwt, String> {
        let document = str::from_utf8(document).map_err(|_| self.failed(&"not a JSON key set"))?;
        let (issuer, audience) = (self.issuer.clone(), self.audience.clone());
        Jwt::new(issuer, audience, algorithms, document).map_err(|error| self.failed(&error))
    }

    /// Builds the error about the key set, without the query of its URL, which may be a secret.
    pub(super) fn failed(&self, reason: &dyn Display) -> String {
        let end = if self.is_url() { self.jwks.find('?') } else { None };
        let shown = &self.jwks[..end.unwrap_or(self.jwks.len())];
        format!("jwt.jwks = \"{shown}\": {reason}")
    }

    /// Whether the key set is at a URL.
    pub(super) fn is_url(&self) -> bool {
        self.jwks.contains("://")
    }
}

fn refresh<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "jwt.jwks_refresh", REFRESH_MIN..=REFRESH_MAX).map(Some)
}
