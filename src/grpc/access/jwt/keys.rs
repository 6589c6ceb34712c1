//! Key sets (JWKS) and signature algorithms.
//!
//! Only asymmetric algorithms are supported, because a server that holds a shared secret could also
//! sign tokens.

use std::{collections::HashMap, fmt};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::signature::{
    self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;

/// Minimum length of the modulus of an RSA key, bytes: 2048 bits.
const MODULUS_BYTES_MIN: usize = 256;
/// Maximum length: 8192 bits. The time of a verification grows with the square of the length.
const MODULUS_BYTES_MAX: usize = 1024;

/// A signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtAlgorithm {
    /// RSA PKCS#1 with SHA-256.
    Rs256,
    /// RSA PKCS#1 with SHA-384.
    Rs384,
    /// RSA PKCS#1 with SHA-512.
    Rs512,
    /// RSA PSS with SHA-256.
    Ps256,
    /// RSA PSS with SHA-384.
    Ps384,
    /// RSA PSS with SHA-512.
    Ps512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

impl JwtAlgorithm {
    const NAMES: [(&str, JwtAlgorithm); 9] = [
        ("RS256", JwtAlgorithm::Rs256),
        ("RS384", JwtAlgorithm::Rs384),
        ("RS512", JwtAlgorithm::Rs512),
        ("PS256", JwtAlgorithm::Ps256),
        ("PS384", JwtAlgorithm::Ps384),
        ("PS512", JwtAlgorithm::Ps512),
        ("ES256", JwtAlgorithm::Es256),
        ("ES384", JwtAlgorithm::Es384),
        ("EdDSA", JwtAlgorithm::EdDsa),
    ];

    /// Finds an algorithm by its JOSE name.
    pub fn parse(name: &str) -> Option<JwtAlgorithm> {
        JwtAlgorithm::NAMES.iter().find(|(known, _)| *known == name).map(|(_, it)| *it)
    }

    /// Returns all algorithms.
    pub fn all() -> Vec<JwtAlgorithm> {
        JwtAlgorithm::NAMES.iter().map(|(_, it)| *it).collect()
    }

    /// Returns all names, for errors.
    pub fn names() -> String {
        JwtAlgorithm::NAMES.map(|(name, _)| name).join(", ")
    }

    /// Returns the RSA parameters; `None` for other algorithms.
    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            JwtAlgorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
            JwtAlgorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            JwtAlgorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
            JwtAlgorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
            JwtAlgorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
            JwtAlgorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
            JwtAlgorithm::Es256 | JwtAlgorithm::Es384 | JwtAlgorithm::EdDsa => return None,
        })
    }

    /// Whether a key can verify signatures of this algorithm.
    fn fits(self, material: &Material) -> bool {
        match material {
            Material::Rsa { .. } => self.rsa().is_some(),
            Material::Curve(algorithm, _) => *algorithm == self,
        }
    }
}

/// A public key.
struct Key {
    /// The only algorithm that the key may be used with, if the key set names one.
    algorithm: Option<JwtAlgorithm>,
    material: Material,
}

/// The numbers of a public key.
enum Material {
    /// Modulus and exponent, big-endian.
    Rsa { n: Vec<u8>, e: Vec<u8> },
    /// A point on the curve of the algorithm.
    Curve(JwtAlgorithm, Vec<u8>),
}

impl Key {
    /// Whether the key may be used with this algorithm. Since the token names the algorithm, a key
    /// must accept only its own.
    fn fits(&self, algorithm: JwtAlgorithm) -> bool {
        self.algorithm.is_none_or(|only| only == algorithm) && algorithm.fits(&self.material)
    }

    fn verifies(&self, algorithm: JwtAlgorithm, message: &[u8], signature: &[u8]) -> bool {
        let curve: &dyn VerificationAlgorithm = match algorithm {
            JwtAlgorithm::Es256 => &signature::ECDSA_P256_SHA256_FIXED,
            JwtAlgorithm::Es384 => &signature::ECDSA_P384_SHA384_FIXED,
            _ => &signature::ED25519,
        };
        match (&self.material, algorithm.rsa()) {
            (Material::Rsa { n, e }, Some(rsa)) => {
                RsaPublicKeyComponents { n, e }.verify(rsa, message, signature).is_ok()
            }
            (Material::Curve(of_key, point), None) if *of_key == algorithm => {
                UnparsedPublicKey::new(curve, point).verify(message, signature).is_ok()
            }
            _ => false,
        }
    }
}

/// A key set.
#[derive(Default)]
pub(super) struct Keys(HashMap<String, Key>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A key in JSON (RFC 7517). Private parts and unknown members are ignored.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    r#use: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Jwk>,
}

impl Keys {
    /// Parses a key set. Ignores keys that cannot be used with one of these algorithms. Fails if no
    /// key is left, or if one of those is malformed.
    pub(super) fn parse(text: &str, algorithms: &[JwtAlgorithm]) -> Result<Keys, String> {
        let set: Jwks =
            serde_json::from_str(text).map_err(|error| format!("not a JSON key set: {error}"))?;
        let mut keys = HashMap::new();
        for (index, jwk) in set.keys.into_iter().enumerate() {
            let failed = |reason: &str| format!("keys[{index}]: {reason}");
            let Some(key) = jwk.key().map_err(failed)? else { continue };
            if !algorithms.iter().any(|algorithm| key.fits(*algorithm)) {
                continue;
            }
            let kid =
                jwk.kid.filter(|kid| !kid.is_empty()).ok_or_else(|| failed("kid: expected"))?;
            if keys.insert(kid, key).is_some() {
                return Err(failed("kid: another key has the same kid"));
            }
        }
        if keys.is_empty() {
            Err("no key for an algorithm of jwt.algorithms".to_owned())
        } else {
            Ok(Keys(keys))
        }
    }

    /// Whether a key signed the message. `None` if the key is not in the set.
    pub(super) fn verify(
        &self,
        kid: &str,
        algorithm: JwtAlgorithm,
        message: &[u8],
        signature: &[u8],
    ) -> Option<bool> {
        let key = self.0.get(kid)?;
        Some(key.fits(algorithm) && key.verifies(algorithm, message, signature))
    }
}

impl Jwk {
    /// Converts the key. Returns `None` if its type or its intended use does not concern us.
    fn key(&self) -> Result<Option<Key>, &'static str> {
        let algorithm = self.alg.as_deref().map(JwtAlgorithm::parse);
        if self.r#use.as_deref().is_some_and(|it| it != "sig") || algorithm == Some(None) {
            return Ok(None);
        }
        let material = match (&*self.kty, self.crv.as_deref()) {
            ("RSA", _) => {
                // ring rejects leading zeros, which some issuers write.
                let number = |text| decoded(text).map(without_zeros);
                Material::Rsa { n: number(&self.n)?, e: number(&self.e)? }
            }
            ("EC", Some("P-256")) => Material::Curve(JwtAlgorithm::Es256, self.point(32)?),
            ("EC", Some("P-384")) => Material::Curve(JwtAlgorithm::Es384, self.point(48)?),
            ("OKP", Some("Ed25519")) => {
                Material::Curve(JwtAlgorithm::EdDsa, sized(decoded(&self.x)?, 32)?)
            }
            _ => return Ok(None),
        };
        if let Material::Rsa { n, .. } = &material
            && !(MODULUS_BYTES_MIN..=MODULUS_BYTES_MAX).contains(&n.len())
        {
            return Err("n: expected 2048 to 8192 bits");
        }
        Ok(Some(Key { algorithm: algorithm.flatten(), material }))
    }

    /// Returns the uncompressed point on an elliptic curve.
    fn point(&self, length: usize) -> Result<Vec<u8>, &'static str> {
        let x = sized(decoded(&self.x)?, length)?;
        let y = sized(decoded(&self.y)?, length)?;
        Ok([&[4][..], &x, &y].concat())
    }
}

/// Fails unless a coordinate has the full length for its curve, including leading zeros.
fn sized(bytes: Vec<u8>, length: usize) -> Result<Vec<u8>, &'static str> {
    if bytes.len() == length { Ok(bytes) } else { Err("a coordinate has the wrong length") }
}

/// Decodes a number.
fn decoded(text: &Option<String>) -> Result<Vec<u8>, &'static str> {
    let bytes = text.as_ref().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    bytes.ok_or("a number is missing or not base64url")
}

/// Removes leading zeros.
fn without_zeros(number: Vec<u8>) -> Vec<u8> {
    number.into_iter().skip_while(|byte| *byte == 0).collect()
}
