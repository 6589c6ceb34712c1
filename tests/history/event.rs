//! An event of a recorded stream, in protobuf's JSON form.

use std::{
    fmt,
    time::{Duration, UNIX_EPOCH},
};

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

/// A line of `tollgate watch --json`, or an object that grpcurl prints.
#[derive(Debug, Deserialize)]
pub struct Message {
    pub event: Event,
}

/// An event. Missing fields have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Event {
    /// The number of the event.
    #[serde(deserialize_with = "number")]
    pub cursor: u64,
    #[serde(deserialize_with = "kind")]
    pub kind: Kind,
    #[serde(alias = "device_id")]
    pub device_id: String,
    #[serde(alias = "task_id")]
    pub task_id: String,
    /// The fencing token of the lease; 0 for none.
    #[serde(alias = "fencing_token", deserialize_with = "number")]
    pub fencing_token: u64,
    /// The attempt; 0 for a task that was not queued.
    pub attempt: u32,
    #[serde(deserialize_with = "succeeded")]
    pub outcome: Outcome,
    /// The time of the event, in µs since 1970.
    #[serde(alias = "event_time", deserialize_with = "micros")]
    pub event_time: Option<u64>,
    pub capacity: Option<u32>,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A kind that this checker does not know.
    #[default]
    Other,
    Enqueued,
    Admitted,
    Renewed,
    Completed,
    Late,
    Expired,
    Evicted,
    Cancelled,
    Dead,
    Configured,
    Gap,
}

/// The outcome of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Also the value of a missing field.
    #[default]
    Succeeded,
    Failed,
}

impl Kind {
    /// Returns the kind with this number on the wire.
    pub fn numbered(number: u64) -> Kind {
        match number {
            1 => Kind::Enqueued,
            2 => Kind::Admitted,
            3 => Kind::Renewed,
            4 => Kind::Completed,
            5 => Kind::Late,
            6 => Kind::Expired,
            7 => Kind::Evicted,
            8 => Kind::Cancelled,
            9 => Kind::Dead,
            10 => Kind::Configured,
            11 => Kind::Gap,
            _ => Kind::Other,
        }
    }

    fn named(name: &str) -> Kind {
        let kinds = (1..=11).map(Kind::numbered);
        let name = name.strip_prefix("POOL_EVENT_KIND_").unwrap_or_default();
        kinds.into_iter().find(|kind| kind.to_string() == name).unwrap_or_default()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_uppercase())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cursor {}, {}", self.cursor, self.kind)?;
        if !self.task_id.is_empty() {
            write!(f, " of {}/{}", self.device_id, self.task_id)?;
        }
        if self.attempt > 0 {
            write!(f, ", attempt {}", self.attempt)?;
        }
        if self.fencing_token > 0 {
            write!(f, ", token {}", self.fencing_token)?;
        }
        Ok(())
    }
}

/// Returns a 64-bit number, which protobuf's JSON form puts in quotes.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    number.ok_or_else(|| D::Error::custom(format!("expected a number, not {value}")))
}

/// Returns an enum value. The JSON form has its name, or its number if the name is unknown.
fn kind<'de, D: Deserializer<'de>>(from: D) -> Result<Kind, D::Error> {
    let value = Value::deserialize(from)?;
    Ok(value.as_str().map_or_else(|| Kind::numbered(value.as_u64().unwrap_or(0)), Kind::named))
}

fn succeeded<'de, D: Deserializer<'de>>(from: D) -> Result<Outcome, D::Error> {
    let failed = Value::deserialize(from)? == "OUTCOME_FAILED";
    Ok(if failed { Outcome::Failed } else { Outcome::Succeeded })
}

fn micros<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(from)?;
    let time = humantime::parse_rfc3339(&text).map_err(D::Error::custom)?;
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Ok(u64::try_from(since.as_micros()).ok())
}
