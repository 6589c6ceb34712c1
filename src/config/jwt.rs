//! `[jwt]` of `tollgate.toml`, and its key set: a file, or a document at an https URL.

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer};

use super::value::length;
use crate::{
    decision::time::{Millis, monotonic},
    grpc::access::{Jwt, JwtAlgorithm},
    server::fetch,
};

/// The default of `jwks_refresh`.
const REFRESH: Millis = Millis(300_000);
/// The time between two fetches after one has failed, at most.
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

/// Whether the key set of `[jwt]` is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::config) enum KeySetCheck {
    Read,
    /// Only the section is checked: the file may be on another machine.
    Skip,
}

/// The last fetched document of a URL.
#[derive(Debug)]
struct Fetched {
    url: String,
    document: Vec<u8>,
    /// The time of the next fetch.
    due: Instant,
}

/// The key set that this process has fetched last. It stays in use while its URL cannot be fetched.
static FETCHED: Mutex<Option<Fetched>> = Mutex::new(None);

impl JwtSection {
    /// Checks the section and reads the key set; `None` with [`KeySetCheck::Skip`]. The error names
    /// the key.
    pub(super) fn load(&self, keys: KeySetCheck) -> Result<Option<Jwt>, String> {
        for (key, text) in [("issuer", &self.issuer), ("audience", &self.audience)] {
            if text.is_empty() {
                return Err(format!("jwt.{key}: expected a text"));
            }
        }
        let algorithm = |name: &String| {
            JwtAlgorithm::parse(name).ok_or_else(|| {
                format!("jwt.algorithms = \"{name}\": expected some of {}", JwtAlgorithm::names())
            })
        };
        let algorithms: Vec<JwtAlgorithm> =
            self.algorithms.iter().map(algorithm).collect::<Result<_, _>>()?;
        if algorithms.is_empty() {
            return Err(format!("jwt.algorithms: expected some of {}", JwtAlgorithm::names()));
        }
        match self.is_url() {
            // The error does not quote what may contain a password.
            true => drop(fetch::parse(&self.jwks).map_err(|error| format!("jwt.jwks: {error}"))?),
            false if self.jwks_ca.is_some() => {
                return Err("jwt.jwks_ca: requires an https URL in jwt.jwks".to_owned());
            }
            false if self.jwks_refresh.is_some() => {
                return Err("jwt.jwks_refresh: requires an https URL in jwt.jwks".to_owned());
            }
            false => {}
        }
        if keys == KeySetCheck::Skip {
            return Ok(None);
        }
        let document = self.document()?;
        self.settings(algorithms, &document).map(Some)
    }

    /// Reads the key set. A URL is fetched once in `jwks_refresh`, and every 10 s while that fails.
    /// In between, and after a failure, the result is its last usable document. Can block for the
    /// time of a fetch. The error names the key.
    pub(super) fn document(&self) -> Result<Vec<u8>, String> {
        if !self.is_url() {
            return fs::read(Path::new(&self.jwks)).map_err(|error| self.failed(&error));
        }
        let mut fetched = FETCHED.lock();
        let now = monotonic();
        let last = fetched.as_mut().filter(|last| last.url == self.jwks);
        if let Some(last) = &last
            && now < last.due
        {
            return Ok(last.document.clone());
        }
        let document = fetch::fetch(&self.jwks, self.jwks_ca.as_deref());
        let document = document.map_err(|error| self.failed(&error));
        // With all algorithms: the section may be wrong, and the key set right.
        let usable = document
            .and_then(|document| self.settings(JwtAlgorithm::all(), &document).map(|_| document));
        let every = self.jwks_refresh.unwrap_or(REFRESH).duration();
        match (usable, last) {
            (Ok(document), _) => {
                let (url, due) = (self.jwks.clone(), now + every);
                *fetched = Some(Fetched { url, document: document.clone(), due });
                Ok(document)
            }
            (Err(error), Some(last)) => {
                tracing::warn!(%error, "the key set was not fetched; the last one stays in use");
                last.due = now + every.min(RETRY);
                Ok(last.document.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    /// The settings with a key set.
    fn settings(&self, algorithms: Vec<JwtAlgorithm>, document: &[u8]) -> Result<Jwt, String> {
        let document = str::from_utf8(document).map_err(|_| self.failed(&"not a JSON key set"))?;
        let (issuer, audience) = (self.issuer.clone(), self.audience.clone());
        Jwt::new(issuer, audience, algorithms, document).map_err(|error| self.failed(&error))
    }

    /// The error of the key set. A query of the URL may be a secret, so it is left out.
    fn failed(&self, reason: &dyn Display) -> String {
        let end = if self.is_url() { self.jwks.find('?') } else { None };
        let shown = &self.jwks[..end.unwrap_or(self.jwks.len())];
        format!("jwt.jwks = \"{shown}\": {reason}")
    }

    fn is_url(&self) -> bool {
        self.jwks.contains("://")
    }
}

fn refresh<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "jwt.jwks_refresh", REFRESH_MIN..=REFRESH_MAX).map(Some)
}
