//! `[jwt]` of `tollgate.toml`, and its key set: a file, or a document at an https URL.

use std::{
    fmt::Display,
    fs,
    path::{Path, PathBuf},
    time::Instant,
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
    /// The time of the last try to fetch it, successful or not.
    tried: Instant,
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
        let failed = |reason: &dyn Display| format!("jwt.jwks = \"{}\": {reason}", self.jwks);
        match self.is_url() {
            true => drop(fetch::parse(&self.jwks).map_err(|error| failed(&error))?),
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
        let document = self.document().map_err(|error| failed(&error))?;
        let document = String::from_utf8(document).map_err(|_| failed(&"not a JSON key set"))?;
        let (issuer, audience) = (self.issuer.clone(), self.audience.clone());
        Jwt::new(issuer, audience, algorithms, &document).map(Some).map_err(|error| failed(&error))
    }

    /// Reads the key set. A URL is fetched at most once in `jwks_refresh`, also after a failure. In
    /// between, and after a failure, the result is its last document. Can block for the time of a
    /// fetch.
    pub(super) fn document(&self) -> Result<Vec<u8>, String> {
        if !self.is_url() {
            return fs::read(Path::new(&self.jwks)).map_err(|error| error.to_string());
        }
        let mut fetched = FETCHED.lock();
        let last = fetched.as_mut().filter(|last| last.url == self.jwks);
        let every = self.jwks_refresh.unwrap_or(REFRESH).duration();
        if let Some(last) = &last
            && last.tried.elapsed() < every
        {
            return Ok(last.document.clone());
        }
        let tried = monotonic();
        match (fetch::fetch(&self.jwks, self.jwks_ca.as_deref()), last) {
            (Ok(document), _) => {
                let url = self.jwks.clone();
                *fetched = Some(Fetched { url, document: document.clone(), tried });
                Ok(document)
            }
            (Err(error), Some(last)) => {
                tracing::warn!(url = self.jwks, %error, "the key set was not fetched; the last one stays in use");
                last.tried = tried;
                Ok(last.document.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn is_url(&self) -> bool {
        self.jwks.contains("://")
    }
}

fn refresh<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "jwt.jwks_refresh", REFRESH_MIN..=REFRESH_MAX).map(Some)
}
