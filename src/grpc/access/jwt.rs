//! JSON Web Tokens (RFC 7519) in compact form, verified against a key set.
//!
//! The header is used only to find the key. Claims are read after the signature has been verified.
//!
//! The crate jsonwebtoken (10.4) has no backend on ring: it needs a second library of cryptography,
//! or aws-lc-rs in place of ring, which takes 52 s more processor time to build
//! (benches/EXPERIMENTS.md), or a provider of our own as long as the verification in `keys`. Its checks
//! would not replace those here: it reads the clock itself, accepts `crit` and an issuer in a list, refuses
//! tokens with an unknown header member that is no text, and refuses a whole key set for one key of
//! an unknown kind.

mod keys;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::denial::Denial;
use keys::Keys;

pub use keys::JwtAlgorithm;

/// Maximum length of a token, bytes.
const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Tolerated difference between the clocks of the issuer and the server, seconds.
pub(super) const SKEW: u64 = 60;
/// The claim that contains permissions.
pub(super) const PERMISSIONS: &str = "tollgate";

/// The settings for JWTs, and the current key set.
#[derive(Debug)]
pub struct Jwt {
    issuer: String,
    audience: String,
    algorithms: Vec<JwtAlgorithm>,
    keys: Keys,
}

/// The claims of a verified token.
#[derive(Debug)]
pub(super) struct Claims {
    claims: Map<String, Value>,
    /// The time from which the token is rejected, including the tolerated skew, seconds since 1970.
    pub(super) until: u64,
}

impl Claims {
    /// Returns a claim whose value is a string.
    pub(super) fn text(&self, claim: &str) -> Option<&str> {
        self.claims.get(claim)?.as_str()
    }

    /// Returns the strings of a claim whose value is a list; `None` if the claim is missing or
    /// contains anything else.
    pub(super) fn texts(&self, claim: &str) -> Option<Vec<&str>> {
        self.claims.get(claim)?.as_array()?.iter().map(Value::as_str).collect()
    }
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    /// Extensions that a verifier must understand; this one understands none.
    crit: Option<Value>,
}

impl Jwt {
    /// Creates the settings from a key set in JSON. Fails if the key set is invalid.
    pub fn new(
        issuer: String,
        audience: String,
        algorithms: Vec<JwtAlgorithm>,
        keys: &str,
    ) -> Result<Jwt, String> {
        let keys = Keys::parse(keys, &algorithms)?;
        Ok(Jwt { issuer, audience, algorithms, keys })
    }

    /// Whether a token looks like a JWT.
    pub(super) fn is_like(token: &[u8]) -> bool {
        token.iter().filter(|byte| **byte == b'.').count() == 2
    }

    /// Verifies a token at the time `now`, seconds since 1970.
    pub(super) fn verify(&self, token: &[u8], now: u64) -> Result<Claims, Denial> {
        let claims = self.signed(token)?;
        let seconds = |claim: &str| match claims.get(claim) {
            None => Ok(None),
            // Fractions of a second are negligible next to the skew.
            Some(value) => match value.as_f64() {
                Some(seconds) if (0.0..1e15).contains(&seconds) => Ok(Some(seconds as u64)),
                _ => Err(Denial::JwtInvalid),
            },
        };
        let until = seconds("exp")?.ok_or(Denial::JwtInvalid)? + SKEW;
        let from = seconds("nbf")?.unwrap_or_default();
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(Denial::JwtIssuer);
        }
        let is_ours = |audience: &Value| audience.as_str() == Some(&self.audience);
        if !claims.get("aud").is_some_and(|audience| match audience {
            Value::Array(audiences) => audiences.iter().any(is_ours),
            audience => is_ours(audience),
        }) {
            return Err(Denial::JwtAudience);
        }
        if now >= until {
            return Err(Denial::JwtExpired);
        }
        if now + SKEW < from {
            return Err(Denial::JwtNotYetValid);
        }
        Ok(Claims { claims, until })
    }

    /// Verifies the signature and returns the claims.
    fn signed(&self, token: &[u8]) -> Result<Map<String, Value>, Denial> {
        let text = std::str::from_utf8(token).ok().filter(|text| text.len() <= TOKEN_BYTES_MAX);
        let (message, signature) =
            text.and_then(|text| text.rsplit_once('.')).ok_or(Denial::JwtInvalid)?;
        let (header, claims) = message.split_once('.').ok_or(Denial::JwtInvalid)?;
        let decoded = |text: &str| URL_SAFE_NO_PAD.decode(text).map_err(|_| Denial::JwtInvalid);
        let header: Header =
            serde_json::from_slice(&decoded(header)?).map_err(|_| Denial::JwtInvalid)?;
        let algorithm = JwtAlgorithm::parse(&header.alg);
        let algorithm = algorithm.filter(|algorithm| self.algorithms.contains(algorithm));
        let algorithm = algorithm.ok_or(Denial::JwtInvalid)?;
        if header.crit.is_some() {
            return Err(Denial::JwtInvalid);
        }
        let kid = header.kid.ok_or(Denial::JwtKeyUnknown)?;
        let signature = decoded(signature)?;
        match self.keys.verify(&kid, algorithm, message.as_bytes(), &signature) {
            None => Err(Denial::JwtKeyUnknown),
            Some(false) => Err(Denial::JwtInvalid),
            Some(true) => serde_json::from_slice(&decoded(claims)?).map_err(|_| Denial::JwtInvalid),
        }
    }
}

#[cfg(test)]
mod tests;
