//! Tokens that are accepted, and hostile ones.

use ring::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
        EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair,
    },
};
use serde_json::json;

use super::*;

const NOW: u64 = 1_800_000_000;
/// An RSA public key, and its signatures of `header.claims`, created with openssl.
const MODULUS: &str = "wzePDhXA1YAgVlzudIZf9yWjonLcpd6aEZcuj165p_I179czSauD0CBr3lxUmQ7-tKwOD-\
    uuUmIDGPUKG1YF4Mrzpx3-8zHL-gqy2mtgHMqTXm6TJvqbjB4xPxU6WbWfwXBAWoLAgiG9fjwHhmJU6S\
    9uQRPptSUrCJZmQox3tZkiOjMESTOIN4qRU_3wlr959HR25VCIZ2IqINkfJW5m4G30TQP2JX6j-\
    27SWLRamgnrsIejwp-avHxFpujzGHEItgwO4DYNIDsjqVXXXzH6WkKx-\
    0c_vlrVJIluWU3B0MfZf4oYwMbQW1ZtkNTv_yDNOSz-OXRz4Hqmr1rR7eUr0w";
const RS256: &str = "DzJf84H5ASeAAkqhlomlHUzfZbnE8OsMZKXb2SvV3HAl2XEjN3AcKUek54ufHO9H3cZU7tL3f5OiHBXa\
    jQbP8KTv7cDROZW8yMvx47H7ntvH-eUuZbjecmX3tLKvrFrF-i_AKm4CXBu9SLNHoVuNbFymrK7RjU23\
    l2VIeuG9imqjsUYovniWq2NUnUSNn1tCapkpkf7N4GHIbyGfKQ8yglrervZ2_1gU2wfzKRiY3X_FsyOj\
    APWDdcUA0-\
    X4aW4padllAaUl1D8xAa8VsJP_2OOGdzT0594II8hJs5wu6WaLf_5oCjceEUGeF6uLbgnshkzBnGZwDH\
    rTIgOZ9hqH3w";
const PS512: &str = "r3a2-VgCDmz7y--IHJLxS3UB3BlUbt9k3Aw7fdM14ojiKdOtv7wcBcH0LGAKCj7x5mWMeTO0fIRyYu6d\
    1pXFKtz26zrSKBmlwvBxltqEhR6gvghge3lNEs4QRmiyCpK_HzVGUbaOaIFSldSb_W77_svB0ptR-gZS\
    f-\
    1i4VABNwR8SddNm4KRVyDO0zmruyPKmByCcEFgEDDVXbD_PG5RD_Pb1U2Wdq8Rlc2udPckpoZhzFyQJK\
    ExkAXhIMUd43J8Va4A7WN_BSIwEwX04r7ekLSnFXpeUEgSJUoViKqBBXBZsgOBYdKFGX1QA0UilgOGSn\
    18C1LTyB33uKzQopin6g";

/// Signs a message.
type Sign = Box<dyn Fn(&[u8]) -> Vec<u8>>;

fn ed25519() -> (Value, Sign) {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).unwrap();
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let jwk = json!({"kty": "OKP", "crv": "Ed25519", "kid": "one", "x": x});
    (jwk, Box::new(move |message| pair.sign(message).as_ref().to_vec()))
}

fn ecdsa(crv: &str, algorithm: &'static EcdsaSigningAlgorithm) -> (Value, Sign) {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap();
    let point = &pair.public_key().as_ref()[1..];
    let [x, y] = [&point[..point.len() / 2], &point[point.len() / 2..]];
    let [x, y] = [x, y].map(|number| URL_SAFE_NO_PAD.encode(number));
    let jwk = json!({"kty": "EC", "crv": crv, "kid": "one", "x": x, "y": y, "use": "sig"});
    (jwk, Box::new(move |message| pair.sign(&random, message).unwrap().as_ref().to_vec()))
}

fn token(header: &Value, claims: &Value, sign: &Sign) -> String {
    let [header, claims] = [header, claims].map(|it| URL_SAFE_NO_PAD.encode(it.to_string()));
    let message = format!("{header}.{claims}");
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

fn jwt(algorithm: &str, jwk: &Value) -> Jwt {
    let keys = json!({"keys": [jwk]}).to_string();
    let algorithm = JwtAlgorithm::parse(algorithm).unwrap();
    Jwt::new("https://issuer".to_owned(), "tollgate".to_owned(), vec![algorithm], &keys).unwrap()
}

fn claims() -> Value {
    json!({"iss": "https://issuer", "aud": "tollgate", "exp": NOW + 60, "sub": "svc-1"})
}

#[test]
fn tokens_of_each_curve_are_verified() {
    for (name, (jwk, sign)) in [
        ("EdDSA", ed25519()),
        ("ES256", ecdsa("P-256", &ECDSA_P256_SHA256_FIXED_SIGNING)),
        ("ES384", ecdsa("P-384", &ECDSA_P384_SHA384_FIXED_SIGNING)),
    ] {
        let (jwt, header) = (jwt(name, &jwk), json!({"alg": name, "kid": "one"}));
        let good = token(&header, &claims(), &sign);
        let verified = jwt.verify(good.as_bytes(), NOW).unwrap();
        assert_eq!(verified.text("sub"), Some("svc-1"));
        assert_eq!(verified.until, NOW + 60 + SKEW);
        // A changed byte of each part.
        for at in [5, good.find('.').unwrap() + 5, good.len() - 5] {
            let mut bad = good.clone().into_bytes();
            bad[at] = if bad[at] == b'A' { b'B' } else { b'A' };
            assert!(jwt.verify(&bad, NOW).is_err(), "{name} {at}");
        }
    }
}

#[test]
fn signatures_of_rsa_are_verified() {
    let all = ["RS256", "RS512", "PS256", "PS512"].map(|name| JwtAlgorithm::parse(name).unwrap());
    let set = json!({"keys": [
        {"kty": "RSA", "kid": "any", "n": MODULUS, "e": "AQAB"},
        {"kty": "RSA", "kid": "ps", "alg": "PS512", "n": MODULUS, "e": "AQAB"},
        {"kty": "RSA", "kid": "enc", "use": "enc", "n": "x", "e": "AQAB"},
        {"kty": "oct", "kid": "secret", "k": "AAAA"},
    ]});
    let keys = Keys::parse(&set.to_string(), &all).unwrap();
    let verify = |kid: &str, name: &str, signature: &str| {
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        keys.verify(kid, JwtAlgorithm::parse(name).unwrap(), b"header.claims", &signature)
    };
    assert_eq!(verify("any", "RS256", RS256), Some(true));
    assert_eq!(verify("any", "PS512", PS512), Some(true));
    assert_eq!(verify("any", "PS256", PS512), Some(false));
    assert_eq!(verify("any", "RS256", PS512), Some(false));
    // The key set names one algorithm for this key.
    assert_eq!(verify("ps", "PS512", PS512), Some(true));
    assert_eq!(verify("ps", "RS256", RS256), Some(false));
    for unknown in ["enc", "secret", ""] {
        assert_eq!(verify(unknown, "RS256", RS256), None);
    }
}

#[test]
fn claims_are_required_and_checked() {
    let (jwk, sign) = ed25519();
    let (jwt, header) = (jwt("EdDSA", &jwk), json!({"alg": "EdDSA", "kid": "one"}));
    let with = |claim: &str, value: Value| {
        let mut claims = claims();
        claims[claim] = value;
        let denied = jwt.verify(token(&header, &claims, &sign).as_bytes(), NOW);
        denied.map(|claims| claims.until)
    };
    assert_eq!(with("aud", json!(["other", "tollgate"])), Ok(NOW + 60 + SKEW));
    assert_eq!(with("nbf", json!(NOW + SKEW)), Ok(NOW + 60 + SKEW));
    assert_eq!(with("exp", json!(NOW - SKEW + 1)), Ok(NOW + 1));
    assert_eq!(with("exp", json!(NOW - SKEW)), Err(Denial::JwtExpired));
    assert_eq!(with("nbf", json!(NOW + SKEW + 1)), Err(Denial::JwtNotYetValid));
    for audience in [json!(null), json!("tollgate2"), json!([]), json!({"tollgate": 1})] {
        assert_eq!(with("aud", audience), Err(Denial::JwtAudience));
    }
    for issuer in [json!(null), json!("https://issuer/"), json!(["https://issuer"])] {
        assert_eq!(with("iss", issuer), Err(Denial::JwtIssuer));
    }
    for time in [json!(null), json!("1900000000"), json!(-1), json!(1e300), json!([NOW])] {
        assert_eq!(with("exp", time.clone()), Err(Denial::JwtInvalid), "{time}");
        assert_eq!(with("nbf", time.clone()), Err(Denial::JwtInvalid), "{time}");
    }
}

#[test]
fn headers_choose_neither_the_algorithm_nor_the_key() {
    let (jwk, sign) = ed25519();
    let jwt = jwt("EdDSA", &jwk);
    let with = |header: Value| jwt.verify(token(&header, &claims(), &sign).as_bytes(), NOW).err();
    for algorithm in ["none", "None", "HS256", "ES256", "RS256", "eddsa", ""] {
        let header = json!({"alg": algorithm, "kid": "one"});
        assert_eq!(with(header), Some(Denial::JwtInvalid), "{algorithm}");
    }
    let critical = json!({"alg": "EdDSA", "kid": "one", "crit": ["exp"]});
    assert_eq!(with(critical), Some(Denial::JwtInvalid));
    for header in [json!({"alg": "EdDSA", "kid": "two"}), json!({"alg": "EdDSA", "jwk": jwk})] {
        assert_eq!(with(header), Some(Denial::JwtKeyUnknown));
    }
    let unsigned: Sign = Box::new(|_| Vec::new());
    let header = json!({"alg": "EdDSA", "kid": "one"});
    let unsigned = token(&header, &claims(), &unsigned);
    assert_eq!(jwt.verify(unsigned.as_bytes(), NOW).err(), Some(Denial::JwtInvalid));
    let long = "x".repeat(TOKEN_BYTES_MAX);
    for malformed in ["", ".", "..", "a.b.c", "é.é.é", "e30.e30.", &format!("e30.{long}.e30")] {
        let denied = jwt.verify(malformed.as_bytes(), NOW).err();
        assert_eq!(denied, Some(Denial::JwtInvalid), "{malformed}");
    }
    assert!(jwt.verify(&[0xff, b'.', 0xff, b'.', 0xff], NOW).is_err());
}

#[test]
fn bad_key_sets_are_refused() {
    let (jwk, _) = ed25519();
    let parse = |set: Value| {
        let algorithms = [JwtAlgorithm::EdDsa, JwtAlgorithm::Rs256];
        Keys::parse(&set.to_string(), &algorithms).expect_err("refused")
    };
    for (keys, reason) in [
        (json!({"keys": []}), "no key for an algorithm"),
        (json!([]), "not a JSON key set"),
        (json!({"keys": [jwk, jwk]}), "keys[1]: kid: another key"),
        (json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "x": jwk["x"]}]}), "keys[0]: kid"),
        (json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "a", "x": "AA"}]}), "length"),
        (json!({"keys": [{"kty": "RSA", "kid": "a", "n": "AQAB", "e": "AQAB"}]}), "2048"),
        (json!({"keys": [{"kty": "RSA", "kid": "a", "e": "AQAB"}]}), "missing"),
        (json!({"keys": [{"kty": "oct", "kid": "a", "k": "AQAB"}]}), "no key"),
    ] {
        let error = parse(keys);
        assert!(error.contains(reason), "{error}");
    }
}
