//! `ListBans`: reads a page of the banned keys of a policy.

use std::{ops::Bound, str};

use serde::{Deserialize, Serialize};

use super::BanIndex;
use crate::{
    Call, Cost, Decision, Outcomes, Paged, Properties, Reply,
    error::Error,
    names::{Name, Namespace},
    script::{self, Script},
    stages,
    time::Timestamp,
};

/// Reads a page of the ban index, in order of the end of the bans.
///
/// The index can name keys whose ban was lifted, and can lack keys (see [`super::NoteBan`]). The
/// caller asks each key with [`super::GetBan`]. A key that is banned again during a listing moves to
/// its new end, and can appear again.
#[derive(Debug, Clone)]
pub struct ListBans {
    /// The policy; `None` for the rules that come with calls.
    pub policy: Option<Name>,
    /// The namespace, for a listing without a policy.
    pub namespace: Namespace,
    /// The maximum number of keys of the page; above 0.
    pub limit: u32,
    /// The last key of the previous page.
    pub after: Option<BanCursor>,
}

/// The position of a key in the listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanCursor {
    /// When its ban ends.
    pub until: Timestamp,
    /// The key.
    pub key: Vec<u8>,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BanPage {
    /// The keys.
    pub keys: Vec<Vec<u8>>,
    /// The position of the last key, if more follow.
    pub next: Option<BanCursor>,
}

impl Decision for ListBans {
    type State = BanIndex;
    type Outcome = BanPage;
    type Stages = stages::InSteps;

    const SCRIPT: &'static Script = &script::rate::LIST_BANS;
    const PROPERTIES: Properties<ListBans> = Properties {
        cost: |list| Cost::bulk(50 + 2 * list.limit),
        outcomes: Outcomes::OK,
        ..Properties::DEFAULT
    };

    fn partition(&self) -> &[u8] {
        self.policy.as_ref().map_or(self.namespace.prefix(), Name::as_bytes)
    }

    fn encode(&self, call: &mut Call) {
        call.key(&[b"banned"]);
        call.number(self.limit.into());
        call.optional(self.after.as_ref().map(|cursor| cursor.until.0));
        call.bytes(&[self.after.as_ref().map_or(&[], |cursor| &cursor.key)]);
    }

    fn parse(reply: &mut Reply) -> Result<BanPage, Error> {
        reply.ok()?;
        let more = reply.number()? != 0;
        let (mut keys, mut last) = (Vec::new(), None);
        while reply.has_more() {
            let (key, until) = (reply.text()?, reply.bytes()?);
            let until = str::from_utf8(&until).ok().and_then(|text| text.parse().ok());
            last = until.map(|until| BanCursor { until: Timestamp(until), key: key.clone() });
            keys.push(key);
        }
        Ok(BanPage { keys, next: last.filter(|_| more) })
    }

    fn decide(&self, index: &mut BanIndex, now: Timestamp) -> BanPage {
        let after = self.after.as_ref().map(|cursor| (cursor.until, cursor.key.clone().into()));
        // The empty key precedes all keys.
        let first_of = |until| (until, Box::default());
        let ended = first_of(Timestamp(now.0 + 1));
        let start = match after {
            // The bans up to the cursor have ended since: continue with the first that is in force.
            Some(after) if after < ended => Bound::Included(ended),
            Some(after) if index.by_end.contains(&after) => Bound::Excluded(after),
            Some(after) => Bound::Included(first_of(after.0)),
            None => Bound::Included(ended),
        };
        let limit = self.limit as usize;
        let page: Vec<_> = index.by_end.range((start, Bound::Unbounded)).take(limit + 1).collect();
        let more = page.len() > limit;
        let page = &page[..page.len().min(limit)];
        let cursor =
            |entry: &&(Timestamp, Box<[u8]>)| BanCursor { until: entry.0, key: entry.1.to_vec() };
        BanPage {
            keys: page.iter().map(|entry| entry.1.to_vec()).collect(),
            next: page.last().filter(|_| more).map(cursor),
        }
    }
}

impl Paged for ListBans {
    const STEP: u32 = 500;

    fn limit(&self) -> u32 {
        self.limit
    }

    fn limited(&self, limit: u32) -> ListBans {
        ListBans { limit, ..self.clone() }
    }

    fn behind(&self, page: &BanPage) -> Option<ListBans> {
        page.next.clone().map(|next| ListBans { after: Some(next), ..self.clone() })
    }

    fn append(page: &mut BanPage, next: BanPage) {
        page.keys.extend(next.keys);
        page.next = next.next;
    }
}
