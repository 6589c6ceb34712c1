//! The registry of every Lua script: one script, one decision.

/// The Lua twin of a decision.
#[derive(Debug)]
pub struct Script {
    /// `capability/verb`, the file below `lua/` without its ending.
    pub name: &'static str,
    /// How many KEYS one decision has.
    pub keys: usize,
    /// How many ARGV one decision has.
    pub argv: usize,
    /// The fragments of `lua/lib/` that it calls.
    fragments: &'static [&'static str],
    /// The script's own text: `local function decide(keys, argv, now)`.
    body: &'static str,
}

macro_rules! scripts {
    ($($name:ident = $path:literal, $keys:literal keys, $argv:literal argv, with $($fragment:literal)+;)*) => {
        $(
            #[doc = concat!("`lua/", $path, ".lua`")]
            pub static $name: Script = Script {
                name: $path,
                keys: $keys,
                argv: $argv,
                fragments: &[$(include_str!(concat!("../lua/lib/", $fragment, ".lua"))),+],
                body: include_str!(concat!("../lua/", $path, ".lua")),
            };
        )*
        /// Every script.
        pub static ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    ADMIT_TASK = "admission/admit", 10 keys, 13 argv, with "admission" "leases" "tasks" "events" "pool_event" "endings" "lease" "queue" "hints" "turns" "admit";
    ATTEND_POOL = "admission/attend", 4 keys, 6 argv, with "admission" "leases" "queue" "hints" "attend";
    CANCEL_TASK = "admission/cancel", 6 keys, 3 argv, with "admission" "leases" "tasks" "events" "pool_event" "endings";
    COMPLETE_TASK = "admission/complete", 9 keys, 8 argv, with "admission" "leases" "tasks" "events" "pool_event" "endings" "queue" "hints";
    CONFIGURE_POOL = "admission/configure", 9 keys, 12 argv, with "admission" "leases" "tasks" "events" "pool_event" "endings" "pool_view" "queue" "hints";
    ENQUEUE_TASK = "admission/enqueue", 5 keys, 6 argv, with "admission" "leases" "tasks" "events" "pool_event" "endings";
    EVICT_TASK = "admission/evict", 9 keys, 6 argv, with "admission" "leases" "tasks" "events" "pool_event" "endings" "queue" "hints";
    GET_POOL = "admission/get_pool", 5 keys, 5 argv, with "admission" "leases" "pool_view" "queue" "hints";
    LIST_LEASES = "admission/list_leases", 1 keys, 3 argv, with "admission";
    LIST_TASKS = "admission/list_tasks", 3 keys, 4 argv, with "admission" "tasks";
    READ_EVENTS = "admission/read_events", 1 keys, 2 argv, with "admission" "events";
    RENEW_TASK = "admission/renew", 8 keys, 7 argv, with "admission" "leases" "tasks" "events" "pool_event" "endings" "lease";
    SWEEP_POOL = "admission/sweep", 6 keys, 3 argv, with "admission" "leases" "tasks" "events" "pool_event" "endings";
    BAN_KEY = "rate/ban", 2 keys, 5 argv, with "packed" "ban" "events" "rate_event";
    CHECK_RATE = "rate/check", 4 keys, 6 argv, with "packed" "limits" "window" "sliding_window" "token_bucket" "counters" "meter" "ban" "replay" "tiers" "judge" "events" "rate_event";
    GET_BAN = "rate/get_ban", 1 keys, 0 argv, with "packed" "ban";
    RESET_RATE = "rate/reset", 1 keys, 0 argv, with "packed" "counters";
    READ_RATE_EVENTS = "rate/read_events", 1 keys, 2 argv, with "packed" "events";
    UNBAN_KEY = "rate/unban", 3 keys, 2 argv, with "packed" "ban" "events" "rate_event";
    LIST_BANS = "rate/list_bans", 1 keys, 3 argv, with "index";
    NOTE_BAN = "rate/note_ban", 1 keys, 3 argv, with "index";
    GET_SEQUENCE = "sequence/get", 1 keys, 1 argv, with "sequence";
    NEXT_SEQUENCE = "sequence/next", 2 keys, 10 argv, with "sequence" "calendar" "allot";
    RESERVE_SEQUENCE = "sequence/reserve", 1 keys, 4 argv, with "sequence" "calendar";
    ACQUIRE_LOCK = "lock/acquire", 3 keys, 3 argv, with "lock" "queue" "hints" "turns";
    ATTEND_LOCK = "lock/attend", 3 keys, 4 argv, with "lock" "queue" "hints" "attend";
    GET_LOCK = "lock/get", 3 keys, 0 argv, with "lock" "queue" "hints";
    RELEASE_LOCK = "lock/release", 3 keys, 2 argv, with "lock" "queue" "hints";
    RENEW_LOCK = "lock/renew", 1 keys, 3 argv, with "lock";
    ADD_STOCK = "stock/add", 4 keys, 2 argv, with "stock" "restock";
    CANCEL_RESERVATION = "stock/cancel", 4 keys, 1 argv, with "stock" "order";
    CONFIRM_RESERVATION = "stock/confirm", 4 keys, 1 argv, with "stock" "order";
    GET_STOCK = "stock/get", 3 keys, 0 argv, with "stock";
    RESERVE_STOCK = "stock/reserve", 4 keys, 5 argv, with "stock" "order";
    SET_STOCK = "stock/set", 3 keys, 1 argv, with "stock" "restock";
    LEAD_SWEEP = "index/lead", 1 keys, 2 argv, with "index";
    LIST_PARTITIONS = "index/list", 1 keys, 3 argv, with "index";
    NOTE_PARTITION = "index/note", 2 keys, 2 argv, with "index";
}

const CLOCK: &str = include_str!("../lua/lib/clock.lua");
const BATCH: &str = include_str!("../lua/lib/batch.lua");

impl Script {
    /// The text that Redis runs: clock, fragments, rule, and the loop that
    /// decides a batch. `clock` replaces the clock line, so that a test can
    /// step the time while the production text carries no hook for it.
    pub fn text(&self, clock: Option<&str>) -> String {
        let Script { name, keys, argv, fragments, body } = self;
        let title = format!("-- tollgate {name}");
        let sizes = format!("local KEYS_PER_ITEM, ARGV_PER_ITEM = {keys}, {argv}");
        let fragments = fragments.join("\n");
        [&title, clock.unwrap_or(CLOCK), &fragments, body, &sizes, BATCH].join("\n")
    }

    /// The script's own text, as it is in its file.
    pub fn body(&self) -> &'static str {
        self.body
    }
}
