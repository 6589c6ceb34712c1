//! Bytes in JSON.

use base64::{Engine, prelude::BASE64_STANDARD};
use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

/// Bytes. A JSON string if they are UTF-8, otherwise `{"base64": "…"}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(pub Vec<u8>);

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Packed {
    base64: String,
}

/// Both forms of the JSON value.
#[derive(Deserialize)]
#[serde(untagged, expecting = "expected text, or {\"base64\": \"…\"} for bytes that are not UTF-8")]
enum Form {
    Plain(String),
    Packed(Packed),
}

impl Text {
    /// Creates a text of these bytes.
    pub fn new(bytes: &[u8]) -> Text {
        Text(bytes.to_vec())
    }
}

/// Serializes bytes of a record, for `serde(with)`: as [`Text`] in JSON, as bytes in a data
/// directory.
pub(crate) fn serialize<T, S>(bytes: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: AsRef<[u8]>,
    S: Serializer,
{
    if serializer.is_human_readable() {
        Text::new(bytes.as_ref()).serialize(serializer)
    } else {
        serializer.serialize_bytes(bytes.as_ref())
    }
}

/// Deserializes what [`serialize`] has written.
pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: From<Vec<u8>>,
    D: Deserializer<'de>,
{
    if deserializer.is_human_readable() {
        Text::deserialize(deserializer).map(|text| text.0.into())
    } else {
        deserializer.deserialize_byte_buf(Plain).map(T::from)
    }
}

/// Bytes of a data directory.
struct Plain;

impl Visitor<'_> for Plain {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        Ok(bytes.to_vec())
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => Packed { base64: BASE64_STANDARD.encode(&self.0) }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        match Form::deserialize(deserializer)? {
            Form::Plain(text) => Ok(Text(text.into_bytes())),
            Form::Packed(packed) => BASE64_STANDARD
                .decode(packed.base64)
                .map(Text)
                .map_err(|error| D::Error::custom(format!("not base64: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_a_round_trip() {
        for bytes in [&b""[..], b"caf\xc3\xa9", b"\xff\x00", b"{\"base64\": \"\"}"] {
            let text = Text::new(bytes);
            let json = serde_json::to_string(&text).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), text, "{json}");
        }
        assert_eq!(serde_json::to_string(&Text::new(b"\xff")).unwrap(), r#"{"base64":"/w=="}"#);
        assert!(serde_json::from_str::<Text>(r#"{"base64":"?"}"#).is_err());
    }
}
