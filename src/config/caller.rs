//! `[[caller]]` of `tollgate.toml`.

use serde::Deserialize;

use super::jwt::{JwtSection, KeySet};
use crate::grpc::access::{
    CallerSpec, Callers, Digest, Permission, Permissions, Reflection, Service, Services,
};
use tollgate_core::names::{NAME_BYTES_MAX, Namespace};

/// Maximum number of callers, and of digests for each caller.
const CALLERS_MAX: usize = 1000;
const DIGESTS_MAX: usize = 10;
/// Maximum length of a caller's name, bytes.
const CALLER_BYTES_MAX: usize = 64;

/// The value of `reflection`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ReflectionName {
    Open,
    Callers,
    Off,
}

impl From<ReflectionName> for Reflection {
    fn from(name: ReflectionName) -> Reflection {
        match name {
            ReflectionName::Open => Reflection::Open,
            ReflectionName::Callers => Reflection::Callers,
            ReflectionName::Off => Reflection::Off,
        }
    }
}

/// `[[caller]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CallerEntry {
    name: String,
    token_sha256: Option<Vec<String>>,
    mtls: Option<String>,
    jwt: Option<ClaimEntry>,
    namespace: Option<String>,
    allow: Vec<String>,
    services: Option<Vec<String>>,
    names: Option<Vec<String>>,
}

/// The key `jwt` of `[[caller]]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimEntry {
    claim: String,
    value: String,
}

/// Builds the callers of a file; `None` if it has neither callers nor `[jwt]`. The error names the
/// key and the reason, but quotes no credential.
pub(super) fn callers(
    entries: &[CallerEntry],
    jwt: Option<&JwtSection>,
    keys: KeySet<'_>,
) -> Result<Option<Callers>, String> {
    if entries.is_empty() && jwt.is_none() {
        return Ok(None);
    }
    if entries.len() > CALLERS_MAX {
        return Err(format!("caller: {} entries; at most {CALLERS_MAX}", entries.len()));
    }
    let mut specs = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let named = |(key, reason): (&str, String)| format!("caller[{index}].{key}: {reason}");
        if entries[..index].iter().any(|other| other.name == entry.name) {
            let reason = format!("\"{}\": another caller has the same name", entry.name);
            return Err(named(("name", reason)));
        }
        if entry.jwt.is_some() && jwt.is_none() {
            return Err(named(("jwt", "requires the section [jwt]".to_owned())));
        }
        specs.push(entry.spec().map_err(named)?);
    }
    let jwt = jwt.map(|jwt| jwt.load(keys)).transpose()?.flatten();
    Callers::new(specs, jwt).map(Some).map_err(|error| error.to_string())
}

/// Returns the index of the first caller with a client certificate.
pub(super) fn with_certificate(entries: &[CallerEntry]) -> Option<usize> {
    entries.iter().position(|entry| entry.mtls.is_some())
}

impl CallerEntry {
    /// Checks the entry. The error consists of the key and the reason.
    fn spec(&self) -> Result<CallerSpec, (&'static str, String)> {
        let is_named = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=CALLER_BYTES_MAX).contains(&self.name.len()) || !self.name.bytes().all(is_named) {
            let expected = "expected 1 to 64 characters out of a-z, A-Z, 0-9, `.`, `_` and `-`";
            return Err(("name", expected.to_owned()));
        }
        if self.token_sha256.is_none() && self.mtls.is_none() && self.jwt.is_none() {
            return Err(("name", "the caller needs token_sha256, mtls or jwt".to_owned()));
        }
        let jwt = self.jwt.as_ref().map(|jwt| (jwt.claim.clone(), jwt.value.clone()));
        if jwt.as_ref().is_some_and(|(claim, value)| claim.is_empty() || value.is_empty()) {
            return Err(("jwt", "expected a claim and a value".to_owned()));
        }
        Ok(CallerSpec {
            name: self.name.clone(),
            tokens: self.digests()?,
            mtls: self.mtls.clone(),
            jwt,
            namespace: match self.namespace.as_deref() {
                Some("*") => None,
                text => Some(namespace(text.unwrap_or_default())?),
            },
            permissions: self.permissions()?,
            services: self.services()?,
            names: self.names()?,
        })
    }

    fn digests(&self) -> Result<Vec<Digest>, (&'static str, String)> {
        let texts = self.token_sha256.as_deref();
        if texts.is_some_and(|texts| !(1..=DIGESTS_MAX).contains(&texts.len())) {
            return Err(("token_sha256", format!("expected 1 to {DIGESTS_MAX} digests")));
        }
        let parse = |(index, text): (usize, &String)| {
            Digest::parse(text).map_err(|error| ("token_sha256", format!("entry {index}: {error}")))
        };
        texts.unwrap_or_default().iter().enumerate().map(parse).collect()
    }

    fn permissions(&self) -> Result<Permissions, (&'static str, String)> {
        if self.allow.is_empty() {
            return Err(("allow", "expected \"use\", \"read\" or \"manage\"".to_owned()));
        }
        self.allow.iter().try_fold(Permissions::default(), |set, name| {
            let permission = Permission::parse(name).ok_or_else(|| {
                ("allow", format!("\"{name}\": expected \"use\", \"read\" or \"manage\""))
            });
            Ok(set.with(permission?))
        })
    }

    fn services(&self) -> Result<Services, (&'static str, String)> {
        let Some(names) = &self.services else { return Ok(Services::ALL) };
        let known = Service::ALL.map(|service| format!("\"{service}\"")).join(", ");
        if names.is_empty() {
            return Err(("services", format!("expected one or more of {known}")));
        }
        names.iter().try_fold(Services::default(), |set, name| {
            let service = Service::parse(name);
            let service = service.ok_or_else(|| {
                ("services", format!("\"{name}\": expected one or more of {known}"))
            });
            Ok(set.with(service?))
        })
    }

    fn names(&self) -> Result<Option<Vec<String>>, (&'static str, String)> {
        let Some(globs) = &self.names else { return Ok(None) };
        if globs.is_empty() {
            return Err(("names", "the empty list permits no name; remove the key".to_owned()));
        }
        for glob in globs {
            let is_plain = !glob.contains(['*', '?', '[', '{', '\\']);
            let reason = match glob {
                glob if glob.is_empty() => "names are never empty",
                glob if glob.chars().any(char::is_control) => "names contain no control characters",
                glob if is_plain && glob.len() > NAME_BYTES_MAX => "it is longer than any name",
                _ => continue,
            };
            return Err(("names", format!("\"{}\": {reason}", glob.escape_debug())));
        }
        Ok(Some(globs.clone()))
    }
}

fn namespace(text: &str) -> Result<Namespace, (&'static str, String)> {
    Namespace::parse(text.as_bytes()).map_err(|error| {
        ("namespace", format!("\"{}\": {error}, or be \"*\"", text.escape_debug()))
    })
}
