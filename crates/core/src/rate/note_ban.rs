//! `NoteBan`: adds a key to the ban index of its policy.

use super::{BANS_MAX, BanIndex, MeterName};
use crate::{
    Call, Cost, Decision, IndexEntry, Properties, Reply,
    error::Error,
    script::{self, Script},
    stages,
    time::Timestamp,
};

/// The maximum number of entries that one call removes.
const TRIM_MAX: usize = 100;

/// Records a ban in the ban index. A repeat changes nothing.
///
/// An entry keeps the later of two ends. Above [`BANS_MAX`] entries, the ones that end first are
/// removed: their bans stay in force, but are no longer listed.
#[derive(Debug, Clone)]
pub struct NoteBan {
    /// The policy and the key.
    pub name: MeterName,
    /// When the ban ends.
    pub until: Timestamp,
}

impl Decision for NoteBan {
    type State = BanIndex;
    type Outcome = ();
    type Stages = stages::Direct;

    const SCRIPT: &'static Script = &script::rate::NOTE_BAN;
    const PROPERTIES: Properties<NoteBan> =
        Properties { cost: |_| Cost::of(20), ..Properties::DEFAULT };

    fn partition(&self) -> &[u8] {
        self.name.index()
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"banned"]);
        call.bytes(&[self.name.key()]);
        call.number(self.until.0);
        call.number(BANS_MAX as u64);
    }

    fn parse(reply: &mut Reply) -> Result<(), Error> {
        reply.ok()
    }

    fn decide(&self, index: &mut BanIndex, now: Timestamp) {
        index.insert(self.name.key(), self.until);
        index.trim(now, BANS_MAX, TRIM_MAX);
    }
}

impl IndexEntry for NoteBan {
    fn name(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn until(&self) -> Timestamp {
        self.until
    }
}
