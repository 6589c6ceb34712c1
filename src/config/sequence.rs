//! `[[sequence]]` of `tollgate.toml`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use super::value::{length, namespace, number, utc_offset, wait_replicas, wait_timeout};
use tollgate_core::{
    acknowledgement::{Acknowledgement, WAIT_TIMEOUT},
    rate::UTC_OFFSET_MAX,
    sequence::{
        AHEAD_DEFAULT, AHEAD_MAX, Dating, Layout, RESERVE_MAX, Reserve, SequenceRule, Sequences,
    },
    time::Millis,
};

/// `[[sequence]]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SequenceEntry {
    r#match: String,
    namespace: Option<String>,
    layout: Option<String>,
    #[serde(default, deserialize_with = "offset")]
    utc_offset: Option<i32>,
    #[serde(default, deserialize_with = "ahead_max")]
    ahead_max: Option<Millis>,
    #[serde(default, deserialize_with = "reserve")]
    reserve: Option<u64>,
    #[serde(default, deserialize_with = "wait_replicas")]
    wait_replicas: Option<u32>,
    #[serde(default, deserialize_with = "wait_timeout")]
    wait_timeout: Option<Millis>,
}

/// Checks and builds all rules. The error names the key and the expected value.
pub(super) fn sequences(entries: &[SequenceEntry]) -> Result<Sequences, String> {
    let mut rules = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let path = format!("sequence[{index}]");
        globset::Glob::new(&entry.r#match)
            .map_err(|error| format!("{path}.match: not a glob: {error}"))?;
        namespace(&format!("{path}.namespace"), entry.namespace.as_deref())?;
        rules.push(entry.rule(&path)?);
    }
    Sequences::new(rules).map_err(|error| format!("sequence: not a glob: {error}"))
}

impl SequenceEntry {
    /// Builds a rule. Fails if a setting lacks the calendar or the `reserve` that it requires.
    fn rule(&self, path: &str) -> Result<SequenceRule, String> {
        let offset = self.utc_offset.unwrap_or(0);
        if offset.abs() > UTC_OFFSET_MAX {
            return Err(format!("{path}.utc_offset: expected -14:00 to +14:00"));
        }
        let ahead_max = self.ahead_max.unwrap_or(AHEAD_DEFAULT);
        let layout = match &self.layout {
            Some(text) => Some(
                Layout::parse(text, offset, ahead_max)
                    .map_err(|expected| format!("{path}.layout = \"{text}\": {expected}"))?,
            ),
            None => None,
        };
        let dating = layout.as_ref().and_then(Layout::dating);
        let for_calendars =
            [("utc_offset", self.utc_offset.is_some()), ("ahead_max", self.ahead_max.is_some())];
        if let Some((key, _)) = for_calendars.iter().find(|(_, given)| *given && dating.is_none()) {
            return Err(format!("{path}.{key}: requires a layout with a calendar"));
        }
        let for_reserving = [
            ("wait_replicas", self.wait_replicas.is_some()),
            ("wait_timeout", self.wait_timeout.is_some()),
        ];
        if let Some((key, _)) = for_reserving.iter().find(|(_, given)| *given)
            && self.reserve.is_none()
        {
            return Err(format!("{path}.{key}: requires reserve"));
        }
        let most = dating.map_or(RESERVE_MAX, Dating::reserve_max);
        if self.reserve > Some(most) {
            return Err(format!(
                "{path}.reserve: expected at most {most}, the numbers of all periods within \
                 ahead_max, because a failover skips that many"
            ));
        }
        let acknowledgement = Acknowledgement {
            replicas: self.wait_replicas.unwrap_or(1),
            timeout: self.wait_timeout.unwrap_or(WAIT_TIMEOUT),
        };
        Ok(SequenceRule {
            namespace: self.namespace.clone(),
            pattern: self.r#match.clone(),
            layout: layout.map(Arc::new),
            reserve: self.reserve.map(|block| Reserve { block, acknowledgement }),
        })
    }
}

fn offset<'de, D: Deserializer<'de>>(d: D) -> Result<Option<i32>, D::Error> {
    utc_offset(d).map(Some)
}

fn ahead_max<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Millis>, D::Error> {
    length(d, "ahead_max", Millis(0)..=AHEAD_MAX).map(Some)
}

fn reserve<'de, D: Deserializer<'de>>(d: D) -> Result<Option<u64>, D::Error> {
    number(d, "reserve", 1..=RESERVE_MAX as i64).map(|number| Some(number as u64))
}
