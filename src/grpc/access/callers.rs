//! The table of callers with their credentials and rights.
//!
//! A table in which the credentials of two callers overlap is invalid, so the order of the entries
//! does not matter. A JWT or certificate with several names can still match two callers; its calls
//! are rejected.

use std::{fmt, sync::Arc};

use tollgate_http::CertificateNames;

use super::{
    super::rpcs::{Permission, Permissions, Services},
    denial::Denial,
    jwt::{Claims, Jwt, PERMISSIONS},
    pattern::Pattern,
    token::Digest,
};
use tollgate_core::{globs::Globs, names::Namespace};
use tollgate_telemetry::text::start;

/// Maximum length of the name of a caller from a JWT, bytes.
const NAME_BYTES_MAX: usize = 128;
/// Prefix of patterns of DNS names.
const DNS: &str = "dns:";

/// A configured caller.
#[derive(Debug, Clone)]
pub struct CallerSpec {
    /// Its name in audit lines.
    pub name: String,
    /// The digests of its tokens.
    pub tokens: Vec<Digest>,
    /// The pattern that a URI name in its certificate must match, or a DNS name if the pattern
    /// starts with `dns:`.
    pub mtls: Option<String>,
    /// A claim of its JWT, and the pattern that its value must match.
    pub jwt: Option<(String, String)>,
    /// Its namespace; `None` if each call may choose its own.
    pub namespace: Option<Namespace>,
    /// Its permissions.
    pub permissions: Permissions,
    /// The services that it may call.
    pub services: Services,
    /// Globs of the names that it may use; `None` for all names.
    pub names: Option<Vec<String>>,
}

/// An error in the table: the index of the caller, the key and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerError {
    /// The index of the caller.
    pub index: usize,
    /// The key of the caller.
    pub key: &'static str,
    /// The reason. It quotes no credential.
    pub reason: String,
}

impl fmt::Display for CallerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "caller[{}].{}: {}", self.index, self.key, self.reason)
    }
}

/// An authenticated caller.
#[derive(Debug)]
pub(super) struct Caller {
    /// Its name in audit lines and errors.
    pub(super) name: Arc<str>,
    /// Permissions by namespace, where `None` stands for all namespaces.
    pub(super) grants: Vec<(Option<Namespace>, Permissions)>,
    /// The services that it may call.
    pub(super) services: Services,
    /// The globs of the names that it may use; `None` for all names.
    pub(super) names: Option<Arc<Globs>>,
    /// The texts of `names`.
    pub(super) patterns: Vec<String>,
}

/// All callers of a server.
#[derive(Default)]
pub struct Callers {
    /// Callers by the digest of their token.
    tokens: Vec<(Digest, Arc<Caller>)>,
    /// Callers by a name in their client certificate.
    certificates: Vec<(CertificatePattern, Arc<Caller>)>,
    /// Callers by a claim of their JWT and a pattern for its value.
    claims: Vec<(String, Pattern, Arc<Caller>)>,
    /// Verifies JWTs; `None` if they are not configured.
    jwt: Option<Jwt>,
}

impl fmt::Debug for Callers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callers").field("jwt", &self.jwt).finish_non_exhaustive()
    }
}

/// A pattern of names in certificates.
#[derive(Debug, PartialEq, Eq)]
enum CertificatePattern {
    /// A SPIFFE ID. Its trust domain contains no wildcard, since that could match a foreign domain.
    Uri(Pattern),
    /// In lower case.
    Dns(Pattern),
}

impl CertificatePattern {
    /// Parses the key `mtls`. Fails if the pattern can match no name in a certificate, because its
    /// caller could not call anything.
    fn parse(text: &str) -> Result<CertificatePattern, &'static str> {
        if let Some(dns) = text.strip_prefix(DNS) {
            let is_dns = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
            return if !dns.is_empty() && dns.bytes().all(is_dns) {
                Ok(CertificatePattern::Dns(Pattern::new(&dns.to_ascii_lowercase())))
            } else {
                Err("no DNS name can match this pattern; only `*` is a wildcard")
            };
        }
        let rest = text.strip_prefix("spiffe://").ok_or(
            "expected a SPIFFE ID such as \"spiffe://acme/backend/*\", or a DNS name such as \
             \"dns:backend.acme.svc\"",
        )?;
        let (domain, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_domain =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
        if domain.is_empty() || !domain.bytes().all(is_domain) {
            return Err(
                "expected a trust domain of a-z, 0-9, `.`, `-` and `_`, without a wildcard",
            );
        }
        let is_path = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/*".contains(&byte);
        if !path.bytes().all(is_path) {
            return Err("no SPIFFE ID can match this pattern; only `*` is a wildcard");
        }
        Ok(CertificatePattern::Uri(Pattern::new(text)))
    }

    fn matches(&self, names: &CertificateNames) -> bool {
        match self {
            CertificatePattern::Uri(pattern) => names.uris.iter().any(|uri| pattern.matches(uri)),
            CertificatePattern::Dns(pattern) => {
                names.dns.iter().any(|dns| pattern.matches(&dns.to_ascii_lowercase()))
            }
        }
    }

    fn overlaps(&self, other: &CertificatePattern) -> bool {
        match (self, other) {
            (CertificatePattern::Uri(one), CertificatePattern::Uri(other))
            | (CertificatePattern::Dns(one), CertificatePattern::Dns(other)) => one.overlaps(other),
            _ => false,
        }
    }
}

impl Callers {
    /// Builds the table. Fails if two callers could have the same credentials.
    pub fn new(specs: Vec<CallerSpec>, jwt: Option<Jwt>) -> Result<Callers, CallerError> {
        let mut callers = Callers { jwt, ..Callers::default() };
        for (index, spec) in specs.into_iter().enumerate() {
            callers.add(spec).map_err(|(key, reason)| CallerError { index, key, reason })?;
        }
        Ok(callers)
    }

    /// Adds a caller. The error consists of the key and the reason.
    fn add(&mut self, spec: CallerSpec) -> Result<(), (&'static str, String)> {
        let names = spec.names.as_ref().map(|names| Globs::new(names.iter())).transpose();
        let names = names.map_err(|error| ("names", format!("not a glob: {error}")))?;
        let caller = Arc::new(Caller {
            name: spec.name.into(),
            grants: vec![(spec.namespace, spec.permissions)],
            services: spec.services,
            names: names.map(Arc::new),
            patterns: spec.names.unwrap_or_default(),
        });
        for digest in spec.tokens {
            if let Some((_, other)) = self.tokens.iter().find(|(it, _)| it.equals(&digest)) {
                return Err(("token_sha256", overlap("has the same digest", other)));
            }
            self.tokens.push((digest, caller.clone()));
        }
        if let Some(text) = spec.mtls {
            let pattern = CertificatePattern::parse(&text);
            let pattern = pattern.map_err(|error| ("mtls", format!("\"{text}\": {error}")))?;
            let overlapping = self.certificates.iter().find(|(it, _)| it.overlaps(&pattern));
            if let Some((_, other)) = overlapping {
                let reason = overlap("can have the same certificate", other);
                return Err(("mtls", format!("\"{text}\": {reason}")));
            }
            self.certificates.push((pattern, caller.clone()));
        }
        if let Some((claim, value)) = spec.jwt {
            let pattern = Pattern::new(&value);
            let overlapping =
                self.claims.iter().find(|(it, other, _)| *it == claim && other.overlaps(&pattern));
            if let Some((_, _, other)) = overlapping {
                let reason = overlap("can have the same JWT", other);
                return Err(("jwt", format!("\"{value}\": {reason}")));
            }
            self.claims.push((claim, pattern, caller));
        }
        Ok(())
    }

    /// Finds the caller of a token, and the time at which the token expires. Takes the same time
    /// for all tokens of one length that are not JWTs. Times are in seconds since 1970.
    pub(super) fn find_by_token(
        &self,
        token: &[u8],
        now: u64,
    ) -> Result<(Arc<Caller>, Option<u64>), Denial> {
        let digest = Digest::compute(token);
        let mut found = None;
        for (known, caller) in &self.tokens {
            if known.equals(&digest) {
                found = Some(caller);
            }
        }
        if let Some(caller) = found {
            return Ok((caller.clone(), None));
        }
        let jwt = self.jwt.as_ref().filter(|_| Jwt::is_like(token)).ok_or(Denial::TokenUnknown)?;
        let claims = jwt.verify(token, now)?;
        Ok((self.find_by_claims(&claims)?, Some(claims.until)))
    }

    /// Finds the caller of verified claims: the configured caller that they match, or else the
    /// caller that the claim `tollgate` describes.
    fn find_by_claims(&self, claims: &Claims) -> Result<Arc<Caller>, Denial> {
        let matching = self.claims.iter().filter(|(claim, pattern, _)| {
            claims.text(claim).is_some_and(|value| pattern.matches(value))
        });
        match only(matching.map(|(_, _, caller)| caller)) {
            Err(Denial::CallerUnknown) => Ok(Arc::new(claimed(claims)?)),
            found => found,
        }
    }

    /// Finds the caller of a verified certificate.
    pub(super) fn find_by_certificate(
        &self,
        names: &CertificateNames,
    ) -> Result<Arc<Caller>, Denial> {
        let matching = self.certificates.iter().filter(|(pattern, _)| pattern.matches(names));
        only(matching.map(|(_, caller)| caller))
    }
}

/// Describes an overlap with the credentials of another caller.
fn overlap(what: &str, other: &Caller) -> String {
    format!("the caller `{}` {what}; each caller needs its own credentials", other.name)
}

/// Returns the only caller among the matches.
fn only<'a>(mut matching: impl Iterator<Item = &'a Arc<Caller>>) -> Result<Arc<Caller>, Denial> {
    let caller = matching.next().ok_or(Denial::CallerUnknown)?;
    if matching.all(|other| Arc::ptr_eq(caller, other)) {
        Ok(caller.clone())
    } else {
        Err(Denial::CallerAmbiguous)
    }
}

/// Builds the caller of a token with the claim `tollgate`, such as `["acme:use", "acme:read"]`.
fn claimed(claims: &Claims) -> Result<Caller, Denial> {
    let mut grants: Vec<(Option<Namespace>, Permissions)> = Vec::new();
    for grant in claims.texts(PERMISSIONS).ok_or(Denial::CallerUnknown)? {
        let (namespace, permission) = grant.rsplit_once(':').ok_or(Denial::CallerUnknown)?;
        let permission = Permission::parse(permission).ok_or(Denial::CallerUnknown)?;
        let namespace = match namespace {
            "*" => None,
            namespace => {
                Some(Namespace::parse(namespace.as_bytes()).map_err(|_| Denial::CallerUnknown)?)
            }
        };
        match grants.iter_mut().find(|(known, _)| *known == namespace) {
            Some((_, permissions)) => *permissions = permissions.with(permission),
            None => grants.push((namespace, Permissions::default().with(permission))),
        }
    }
    if grants.is_empty() {
        return Err(Denial::CallerUnknown);
    }
    let subject = claims.text("sub").unwrap_or_default();
    let subject = start(subject, NAME_BYTES_MAX);
    Ok(Caller {
        name: format!("jwt:{subject}").into(),
        grants,
        services: Services::ALL,
        names: None,
        patterns: Vec::new(),
    })
}
