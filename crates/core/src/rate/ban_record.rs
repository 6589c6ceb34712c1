//! A ban of a key: as stored, as callers see it, and as an entry of the index.

use serde::{Deserialize, Serialize};

use super::MeterName;
use crate::{
    ENTRY_BYTES, Reply,
    error::Error,
    record::text,
    time::{Millis, Timestamp},
};

/// A ban in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ban {
    /// When the ban ends.
    pub until: Timestamp,
    /// The number of the ban, from 1. Each ban within the memory of the previous one adds 1.
    pub strikes: u32,
    /// The reason.
    #[serde(default, with = "text")]
    pub reason: Vec<u8>,
    /// The person or program that set the ban; empty for a rule.
    #[serde(default, with = "text")]
    pub actor: Vec<u8>,
}

/// A ban to enter into the index.
#[derive(Debug, Clone)]
pub struct BanEntry {
    /// The policy and the key.
    pub name: MeterName,
    /// The end of the ban: the entry has no effect from then on.
    pub until: Timestamp,
}

/// A ban, and how long it counts for strikes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BanRecord {
    /// When the ban ends.
    pub(super) until: Timestamp,
    /// When it no longer counts as a previous strike.
    pub(super) forget: Timestamp,
    /// The number of the ban, from 1.
    pub(super) strikes: u32,
    /// The reason.
    #[serde(default, with = "text")]
    pub(super) reason: Vec<u8>,
    /// The person or program that set the ban; empty for a rule.
    #[serde(default, with = "text")]
    pub(super) actor: Vec<u8>,
}

impl BanRecord {
    /// Returns its bytes, for the limits of namespaces.
    pub(super) fn bytes(&self) -> u64 {
        ENTRY_BYTES + (self.reason.len() + self.actor.len()) as u64
    }

    /// Creates a ban by a rule, from now on.
    pub(super) fn new(
        now: Timestamp,
        length: Millis,
        memory: Millis,
        strikes: u32,
        reason: Vec<u8>,
    ) -> BanRecord {
        let until = now.after(length);
        BanRecord { until, forget: until.after(memory), strikes, reason, actor: Vec::new() }
    }
}

impl From<BanRecord> for Ban {
    fn from(record: BanRecord) -> Ban {
        let BanRecord { until, strikes, reason, actor, .. } = record;
        Ban { until, strikes, reason, actor }
    }
}

impl Ban {
    /// Reads end, strikes, reason and actor.
    pub(super) fn parse(reply: &mut Reply) -> Result<Ban, Error> {
        Ok(Ban {
            until: Timestamp(reply.number()?),
            strikes: u32::try_from(reply.number()?).unwrap_or(u32::MAX),
            reason: utf8(reply)?,
            actor: utf8(reply)?,
        })
    }
}

/// Reads a text. Stored bytes can be anything, but answers are UTF-8.
fn utf8(reply: &mut Reply) -> Result<Vec<u8>, Error> {
    Ok(String::from_utf8_lossy(&reply.bytes()?).into_owned().into_bytes())
}
