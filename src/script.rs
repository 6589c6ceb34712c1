//! The registry of every Lua script: one script, one decision.

use std::sync::LazyLock;

/// The Lua twin of a decision.
#[derive(Debug)]
pub struct Script {
    /// `capability/verb`, the file below `lua/` without its ending.
    pub name: &'static str,
    /// How many KEYS one decision has.
    pub keys: usize,
    /// How many ARGV one decision has.
    pub argv: usize,
    /// The fragment that the capability's scripts share.
    fragment: &'static str,
    /// The script's own text: `local function decide(keys, argv, now)`.
    body: &'static str,
}

macro_rules! scripts {
    ($($name:ident = $capability:literal / $verb:literal, $keys:literal keys, $argv:literal argv;)*) => {
        $(
            #[doc = concat!("`lua/", $capability, "/", $verb, ".lua`")]
            pub static $name: Script = Script {
                name: concat!($capability, "/", $verb),
                keys: $keys,
                argv: $argv,
                fragment: include_str!(concat!("../lua/lib/", $capability, ".lua")),
                body: include_str!(concat!("../lua/", $capability, "/", $verb, ".lua")),
            };
        )*
        /// Every script.
        pub static ALL: LazyLock<Vec<&'static Script>> = LazyLock::new(|| vec![$(&$name),*]);
    };
}

scripts! {
    ADMIT_TASK = "admission"/"admit", 4 keys, 9 argv;
    COMPLETE_TASK = "admission"/"complete", 3 keys, 6 argv;
    CONFIGURE_POOL = "admission"/"configure", 3 keys, 9 argv;
    EVICT_TASK = "admission"/"evict", 2 keys, 3 argv;
    GET_POOL = "admission"/"get_pool", 2 keys, 4 argv;
    LIST_LEASES = "admission"/"list_leases", 1 keys, 3 argv;
    RENEW_TASK = "admission"/"renew", 4 keys, 8 argv;
    LIST_PARTITIONS = "index"/"list", 1 keys, 3 argv;
    NOTE_PARTITION = "index"/"note", 1 keys, 1 argv;
}

const CLOCK: &str = include_str!("../lua/lib/clock.lua");
const BATCH: &str = include_str!("../lua/lib/batch.lua");

impl Script {
    /// The text that Redis runs: clock, fragment, rule, and the loop that
    /// decides a batch. `clock` replaces the clock line, so that a test can
    /// step the time while the production text carries no hook for it.
    pub fn text(&self, clock: Option<&str>) -> String {
        let Script { name, keys, argv, fragment, body } = self;
        let clock = clock.unwrap_or(CLOCK);
        let sizes = format!("local KEYS_PER_ITEM, ARGV_PER_ITEM = {keys}, {argv}");
        [&format!("-- tollgate {name}"), clock, fragment, body, &sizes, BATCH].join("\n")
    }

    /// The script's own text, as it is in its file.
    pub fn body(&self) -> &'static str {
        self.body
    }
}
