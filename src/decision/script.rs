//! The registry of all Lua scripts: one script per decision.

/// The Lua twin of a decision.
#[derive(Debug)]
pub struct Script {
    /// `capability/verb`: the path of the file below `lua/`, without `.lua`.
    pub name: &'static str,
    /// The number of KEYS of one decision.
    pub keys: usize,
    /// The number of ARGV of one decision.
    pub argv: usize,
    /// How many leading KEYS and ARGV consecutive decisions can share; (0, 0) if the script does
    /// not share. The order is KEYS, ARGV.
    shared: (usize, usize),
    /// Whether the script issues fencing tokens. Each call then has one more argument: how far
    /// tokens run ahead of the clock (`lua/lib/ahead.lua`).
    pub gives_tokens: bool,
    /// The fragments of `lua/lib/` that the script calls, in an order that defines before use.
    fragments: &'static [&'static str],
    /// The text of the script file. It defines `local function decide(keys, argv, now)`.
    body: &'static str,
}

macro_rules! scripts {
    ($($name:ident = $path:literal, $keys:literal keys, $argv:literal argv,
        $(sharing $shared_keys:literal $shared_argv:literal,)? $(tokens $tokens:literal,)? with $($fragment:literal)+;)*) => {
        $(
            #[doc = concat!("`lua/", $path, ".lua`")]
            pub static $name: Script = Script {
                name: $path,
                keys: $keys,
                argv: $argv,
                shared: (0 $(+ $shared_keys)?, 0 $(+ $shared_argv)?),
                gives_tokens: false $(| $tokens)?,
                fragments: &[$(include_str!(concat!("../../lua/lib/", $fragment, ".lua"))),+],
                body: include_str!(concat!("../../lua/", $path, ".lua")),
            };
        )*
        /// All scripts.
        pub static ALL: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    ADMIT_TASK = "admission/admit", 11 keys, 15 argv, sharing 10 10, tokens true, with "allowance" "ahead" "admission" "token" "leases" "tasks" "events" "pool_event" "endings" "pool" "pool_changes" "failover" "lease" "queue" "hints" "turns" "admit";
    ATTEND_POOL = "admission/attend", 4 keys, 6 argv, with "allowance" "admission" "leases" "queue" "hints" "attend";
    CANCEL_TASK = "admission/cancel", 6 keys, 3 argv, with "allowance" "admission" "leases" "tasks" "events" "pool_event" "endings";
    COMPLETE_TASK = "admission/complete", 10 keys, 11 argv, sharing 9 7, with "allowance" "admission" "token" "leases" "tasks" "events" "pool_event" "endings" "pool" "pool_changes" "queue" "hints";
    CONFIGURE_POOL = "admission/configure", 9 keys, 12 argv, with "allowance" "admission" "token" "leases" "tasks" "events" "pool_event" "endings" "pool_view" "queue" "hints" "repair";
    ENQUEUE_TASK = "admission/enqueue", 5 keys, 6 argv, with "allowance" "admission" "leases" "tasks" "events" "pool_event" "endings";
    EVICT_TASK = "admission/evict", 9 keys, 6 argv, with "allowance" "admission" "leases" "tasks" "events" "pool_event" "endings" "queue" "hints";
    GET_POOL = "admission/get_pool", 6 keys, 5 argv, with "allowance" "admission" "token" "leases" "pool_view" "queue" "hints";
    LIST_LEASES = "admission/list_leases", 1 keys, 3 argv, with "admission";
    LIST_TASKS = "admission/list_tasks", 3 keys, 4 argv, with "admission" "tasks";
    READ_EVENTS = "admission/read_events", 1 keys, 2 argv, with "admission" "events";
    RENEW_TASK = "admission/renew", 10 keys, 11 argv, sharing 9 8, with "allowance" "admission" "token" "leases" "tasks" "events" "pool_event" "endings" "pool" "pool_changes" "failover" "lease" "lost";
    SWEEP_POOL = "admission/sweep", 7 keys, 3 argv, with "allowance" "admission" "leases" "tasks" "events" "pool_event" "endings";
    WITHDRAW_TASK = "admission/withdraw", 9 keys, 6 argv, with "allowance" "admission" "leases" "tasks" "events" "pool_event" "endings" "queue" "hints";
    BAN_KEY = "rate/ban", 2 keys, 5 argv, with "packed" "ban" "events" "rate_event";
    CHECK_RATE = "rate/check", 4 keys, 6 argv, sharing 0 3, with "packed" "limits" "window" "recount" "sliding_window" "token_bucket" "counters" "meter" "ban" "replay" "tiers" "judge" "plain" "events" "rate_event";
    GET_BAN = "rate/get_ban", 1 keys, 0 argv, with "packed" "ban";
    RESET_RATE = "rate/reset", 1 keys, 0 argv, with "packed" "counters";
    READ_RATE_EVENTS = "rate/read_events", 1 keys, 2 argv, with "packed" "events";
    UNBAN_KEY = "rate/unban", 3 keys, 2 argv, with "packed" "ban" "events" "rate_event";
    LIST_BANS = "rate/list_bans", 1 keys, 3 argv, with "index";
    NOTE_BAN = "rate/note_ban", 1 keys, 3 argv, with "index";
    GET_SEQUENCE = "sequence/get", 1 keys, 1 argv, with "sequence";
    NEXT_SEQUENCE = "sequence/next", 2 keys, 10 argv, with "sequence" "calendar" "allot";
    RESERVE_SEQUENCE = "sequence/reserve", 1 keys, 4 argv, with "sequence" "calendar";
    ACQUIRE_LOCK = "lock/acquire", 4 keys, 3 argv, tokens true, with "allowance" "ahead" "lock" "queue" "hints" "turns";
    ATTEND_LOCK = "lock/attend", 3 keys, 4 argv, with "allowance" "lock" "queue" "hints" "attend";
    GET_LOCK = "lock/get", 3 keys, 0 argv, with "allowance" "lock" "queue" "hints";
    RELEASE_LOCK = "lock/release", 3 keys, 2 argv, with "allowance" "lock" "queue" "hints";
    RENEW_LOCK = "lock/renew", 1 keys, 3 argv, with "lock";
    ADD_STOCK = "stock/add", 4 keys, 2 argv, with "stock" "restock";
    CANCEL_RESERVATION = "stock/cancel", 4 keys, 1 argv, with "stock" "order";
    CONFIRM_RESERVATION = "stock/confirm", 4 keys, 1 argv, with "stock" "order";
    GET_STOCK = "stock/get", 3 keys, 0 argv, with "stock";
    RESERVE_STOCK = "stock/reserve", 4 keys, 5 argv, with "stock" "order";
    SET_STOCK = "stock/set", 3 keys, 1 argv, with "stock" "restock";
    LEAD_SWEEP = "index/lead", 1 keys, 2 argv, with "index";
    LIST_PARTITIONS = "index/list", 1 keys, 3 argv, with "index";
    NOTE_PARTITION = "index/note", 3 keys, 3 argv, with "index";
    DUE_PARTITIONS = "index/due", 2 keys, 1 argv, with "index";
    LATEST_PARTITIONS = "index/latest", 1 keys, 1 argv, with "index";
    SETTLE_PARTITION = "index/settle", 2 keys, 5 argv, with "index";
    PROBE = "index/probe", 1 keys, 1 argv, with "index";
}

const CLOCK: &str = include_str!("../../lua/lib/clock.lua");
const FAILURE: &str = include_str!("../../lua/lib/failure.lua");
const BATCH: &str = include_str!("../../lua/lib/batch.lua");
const SHARING: &str = include_str!("../../lua/lib/sharing.lua");

impl Script {
    /// The text that Redis executes: clock, fragments, rule, and the loop over the items of a
    /// batch. `clock` replaces the clock fragment. Tests step the time this way; the production
    /// text contains no hook for it.
    pub fn text(&self, clock: Option<&str>) -> String {
        let Script { name, fragments, body, .. } = self;
        let title = format!("-- tollgate {name}");
        let (sizes, batch) = self.batch();
        let fragments = fragments.join("\n");
        [&title, clock.unwrap_or(CLOCK), &fragments, body, &sizes, FAILURE, batch].join("\n")
    }

    /// The sizes of an item as Lua constants, and the loop that decides the items.
    fn batch(&self) -> (String, &'static str) {
        let Script { keys, argv, .. } = self;
        let Some((shared_keys, shared_argv)) = self.shared() else {
            return (format!("local KEYS_PER_ITEM, ARGV_PER_ITEM = {keys}, {argv}"), BATCH);
        };
        let (keys, argv) = (keys - shared_keys, argv - shared_argv);
        let parts = (1..=keys).map(|i| format!("KEYS[key + {i}]"));
        let parts: Vec<_> =
            parts.chain((1..=argv).map(|i| format!("ARGV[argument + {i}]"))).collect();
        let sizes = format!(
            "local SHARED_KEYS, SHARED_ARGV = {shared_keys}, {shared_argv}\n\
             local ITEM_KEYS, ITEM_ARGV = {keys}, {argv}\n\
             local function item(key, argument)\n  return {}\nend",
            parts.join(", ")
        );
        (sizes, SHARING)
    }

    /// The number of leading KEYS and ARGV that are sent once for consecutive decisions with equal
    /// values; `None` if the script does not share.
    pub fn shared(&self) -> Option<(usize, usize)> {
        (self.shared != (0, 0)).then_some(self.shared)
    }

    /// The text of the script file, unchanged.
    pub fn body(&self) -> &'static str {
        self.body
    }
}
