//! Rates: whether a caller is within its limits, with warnings, throttling and bans.
//!
//! A *key* names a caller. It is checked against a *rule*: up to eight limits that are decided in
//! one step, and tiers on the first limit. The rule is a policy of the configuration, or comes with
//! the call. The usage of a key, its [`Meter`], belongs to policy and key. Limits find their usage
//! by name, so that changed numbers apply to calls that are already counted.
//!
//! # Invariants
//! - All limits of a rule are decided in one step: a call spends on all of them, or on none. The
//!   exception is step 4 of [`CheckRate`].
//! - A limit has no queue: Tollgate does not retry a refused call.
//! - Usage and bans expire through the passage of time alone; no call is needed to end them.
//! - A ban in force refuses each new call of its key under its policy, whatever the limits say.
//!
//! For `max` 10 a minute:
//!
//! | algorithm | any minute | at once | memory |
//! |---|---|---|---|
//! | fixed window | up to 20 | 10, and 10 more when the next window starts | 1 count |
//! | calendar window | up to 20 | the same, for all keys at the clock's minute | 1 count |
//! | sliding window | up to 10 | 10; a hit is given back 60 s to 61 s after it | at most 122 counts |
//! | token bucket (GCRA; `token_bucket` cites the source) | up to `burst` + 10 | `burst`, and one more each 6 s | 1 instant |
//!
//! | verb | struct | script |
//! |---|---|---|
//! | CheckRate, CheckRates | [`CheckRate`] | `lua/rate/check.lua` |
//! | ShouldRateLimit | [`CountHits`] | `lua/rate/count_hits.lua` |
//! | ShouldRateLimit, all or nothing | [`CountAll`] | `lua/rate/count_all.lua` |
//! | ResetRate | [`ResetRate`] | `lua/rate/reset.lua` |
//! | Ban | [`BanKey`] | `lua/rate/ban.lua` |
//! | Unban | [`UnbanKey`] | `lua/rate/unban.lua` |
//! | GetKey | [`GetKey`] | `lua/rate/get_key.lua` |
//! | – (for WatchRates) | [`ReadRateEvents`] | `lua/rate/read_events.lua` |
//! | ListBans | [`ListBans`], [`GetBan`] for each key, indexed by [`IndexBan`] | `lua/rate/list_bans.lua`, `lua/rate/get_ban.lua`, `lua/rate/index_ban.lua` |

mod answer;
mod ban;
mod ban_index;
mod ban_record;
mod check;
mod count_all;
mod degradation;
mod event;
mod export;
mod get_key;
mod hits;
mod lines;
mod log;
mod meter;
mod name;
mod policies;
mod read_events;
mod record;
mod reset;
mod rule;
mod sliding_window;
mod spec;
mod token_bucket;
mod usage;
mod window;

pub use answer::{Answer, LimitUse, Verdict};
pub use ban::{BanKey, GetBan, UnbanKey};
pub use ban_index::{BanCursor, BanIndex, BanPage, IndexBan, ListBans};
pub use ban_record::{Ban, BanEntry};
pub use check::{CheckOutcome, CheckRate, RefusedKey};
pub use count_all::{COUNT_ALL_MAX, CountAll, CountAllOutcome, CountedHits, Enforcement};
pub use event::{RateEvent, RateEventKind};
pub use get_key::{GetKey, KeyState};
pub use hits::{CountHits, Hits};
pub use lines::{AnswerLine, RateLine};
pub use log::{HISTORY, Log};
pub use meter::Meter;
pub use name::{MeterName, SHARDS, TOGETHER, shard_tag};
pub use policies::{Override, Policies, Policy};
pub use read_events::ReadRateEvents;
pub use reset::ResetRate;
pub use rule::{Algorithm, Limit, Rule, Tier, TierAction};
pub use spec::{LimitSpec, RuleSpec, TierSpec, Violation};

use crate::{time::Millis, unknown_status};

/// The largest `max` of a window, `above` of a tier, and cost of a call.
pub const COUNT_MAX: u32 = 1_000_000_000;
/// The largest `max` and `burst` of a token bucket. Products of two such numbers are exact in Lua.
pub const BUCKET_MAX: u32 = 90_000_000;
/// The longest time in which an empty bucket fills up: 366 days.
pub const FILL_MAX: Millis = Millis::from_secs(366 * 86_400);
/// The shortest window, and the shortest ban.
pub const LENGTH_MIN: Millis = Millis(1);
/// The longest window, ban, and memory of bans: 30 days. Calendar windows can be longer.
pub const LENGTH_MAX: Millis = Millis::from_secs(30 * 86_400);
/// The longest calendar window: 365 days.
pub const CALENDAR_MAX: Millis = Millis::from_secs(365 * 86_400);
/// A day. Calendar windows divide it, or are a multiple of it.
pub const DAY: Millis = Millis::from_secs(86_400);
/// The maximum number of limits of a rule.
pub const LIMITS_MAX: usize = 8;
/// The maximum number of tiers of a rule.
pub const TIERS_MAX: usize = 8;
/// The maximum number of ban durations of a tier.
pub const BAN_DURATIONS_MAX: usize = 16;
/// The largest UTC offset of calendar windows, in minutes: 14 h.
pub const UTC_OFFSET_MAX: i32 = 14 * 60;
/// Default time after a ban during which the next ban counts as a further strike.
pub const BAN_MEMORY: Millis = DAY;
/// The maximum number of limit names under which one key has usage.
pub const NAMES_MAX: usize = 32;
/// The longest time that an answer is stored for repeats of its request.
pub const REPLAY: Millis = Millis::from_secs(300);
/// The maximum number of bans of a policy that are listed.
pub const BANS_MAX: usize = 100_000;
/// The maximum length of reason and actor in bytes.
pub const TEXT_BYTES_MAX: usize = 256;
