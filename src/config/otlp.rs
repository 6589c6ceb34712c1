//! `[otlp]` of `tollgate.toml`.

use serde::{Deserialize, Deserializer, de::Error};

use super::value::text;
use crate::server::otlp::{self, OtlpOptions};

/// `[otlp]`
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OtlpSection {
    #[serde(default, deserialize_with = "endpoint")]
    endpoint: Option<String>,
    #[serde(default, deserialize_with = "sampling")]
    sampling: Option<f64>,
}

impl OtlpSection {
    /// Returns the options; `None` without an endpoint. Fails if `sampling` is set without one.
    pub(super) fn options(&self) -> Result<Option<OtlpOptions>, String> {
        match (&self.endpoint, self.sampling) {
            (None, Some(_)) => Err("otlp.sampling: requires otlp.endpoint".to_owned()),
            (None, None) => Ok(None),
            (Some(endpoint), sampling) => Ok(Some(OtlpOptions {
                endpoint: endpoint.clone(),
                sampling: sampling.unwrap_or_default(),
            })),
        }
    }
}

fn endpoint<'de, D: Deserializer<'de>>(d: D) -> Result<Option<String>, D::Error> {
    let check = |text: &str| otlp::check(text).map(|()| text.to_owned());
    text(d, "otlp.endpoint", check).map(Some)
}

/// Reads a fraction from 0 to 1, which may be written as a whole number.
fn sampling<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a number from 0 to 1")]
    enum Share {
        Whole(i64),
        Part(f64),
    }
    let share = match Share::deserialize(d)? {
        Share::Whole(share) => share as f64,
        Share::Part(share) => share,
    };
    if (0.0..=1.0).contains(&share) {
        Ok(Some(share))
    } else {
        Err(D::Error::custom(format!("otlp.sampling = {share}: expected 0 to 1")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Option<OtlpOptions>, String> {
        let section: OtlpSection = toml::from_str(text).map_err(|error| error.to_string())?;
        section.options()
    }

    #[test]
    fn sampling_is_zero_by_default_and_may_be_a_whole_number() {
        assert_eq!(options(""), Ok(None));
        let endpoint = "endpoint = \"http://localhost:4317\"\n";
        for (sampling, expected) in [("", 0.0), ("sampling = 1", 1.0), ("sampling = 0.25", 0.25)] {
            let options = options(&format!("{endpoint}{sampling}")).unwrap().unwrap();
            assert_eq!(options.sampling, expected);
        }
    }

    #[test]
    fn invalid_values_are_refused_and_the_error_names_the_key() {
        let endpoint = "endpoint = \"http://localhost:4317\"\n";
        for (text, expected) in [
            ("endpoint = \"localhost\"".to_owned(), "otlp.endpoint = \"localhost\": expected"),
            (format!("{endpoint}sampling = 1.5"), "otlp.sampling = 1.5: expected 0 to 1"),
            (format!("{endpoint}sampling = -1"), "otlp.sampling = -1: expected 0 to 1"),
            (format!("{endpoint}sampling = nan"), "otlp.sampling = NaN: expected 0 to 1"),
            ("sampling = 0.5".to_owned(), "otlp.sampling: requires otlp.endpoint"),
            (format!("{endpoint}sampling = \"all\""), "expected a number from 0 to 1"),
            ("ratio = 0.5".to_owned(), "unknown field `ratio`"),
        ] {
            let error = options(&text).expect_err(&text);
            assert!(error.contains(expected), "{error}");
        }
    }
}
