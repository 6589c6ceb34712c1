//! The fields of a form or of a query.

use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use super::{FORM_BYTES_MAX, page::Problem};

/// Fields by name, decoded.
#[derive(Debug, Clone, Default)]
pub(super) struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Parses a query or the body of a form.
    pub(super) fn parse(text: &[u8]) -> FormFields {
        FormFields(form_urlencoded::parse(text).into_owned().collect())
    }

    /// Reads the body of a form. `None` if it is too long or incomplete.
    pub(super) async fn parse_body(body: Incoming) -> Option<FormFields> {
        let body = Limited::new(body, FORM_BYTES_MAX).collect().await.ok()?;
        Some(FormFields::parse(&body.to_bytes()))
    }

    /// Returns the value of a field; empty if it is missing.
    pub(super) fn get(&self, name: &str) -> &str {
        let field = self.0.iter().find(|(known, _)| known == name);
        field.map_or("", |(_, value)| value)
    }

    /// Parses the number in a field. The error names the field.
    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Result<N, Problem> {
        let expected = |_| Problem::Invalid(format!("{name}: expected a whole number"));
        self.get(name).trim().parse().map_err(expected)
    }
}
