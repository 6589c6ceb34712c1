//! All Lua scripts: one script per decision, in a module for each folder of `lua/`.
//!
//! `build.rs` builds them with `script/include.rs`: the numbers of KEYS and ARGV come from the
//! header of a script, its fragments from its `@include` lines.

/// The Lua twin of a decision.
#[derive(Debug)]
pub struct Script {
    /// `capability/verb`: the path of the file below `lua/`, without `.lua`.
    pub name: &'static str,
    /// The position in [`ALL`].
    pub index: usize,
    /// The number of KEYS of one decision, or of each repetition.
    pub keys: usize,
    /// The number of ARGV of one decision, or of each repetition.
    pub argv: usize,
    /// Whether a decision repeats its KEYS and ARGV, for each of several partitions. Such a decision
    /// is alone in its script call.
    pub repeated: bool,
    /// How many leading KEYS and ARGV consecutive decisions can share; (0, 0) if the script does
    /// not share. The order is KEYS, ARGV.
    shared: (usize, usize),
    /// The number of numbers in each reply of a plain script ([`PlainForm`](crate::PlainForm)); 0 for
    /// any other script. `lua/lib/rows.lua` describes its KEYS, ARGV and reply.
    pub plain: usize,
    /// Whether the script issues fencing tokens. Each call then has one more argument: how far
    /// tokens run ahead of the clock (`lua/lib/fencing.lua`).
    pub gives_tokens: bool,
    /// Whether the script compares the marker of the store. Each call then has the key and the text
    /// of the marker before its last argument (`lua/lib/store.lua`).
    pub checks_store: bool,
    /// The text without the clock: fragments, script, and the loop over the items of a batch.
    text: &'static str,
}

include!(concat!(env!("OUT_DIR"), "/scripts.rs"));

const CLOCK: &str = include_str!("../../../../lua/lib/clock.lua");

impl Script {
    /// Returns the text that Redis executes. `clock` replaces the clock fragment. Tests step the
    /// time this way; the production text contains no hook for it.
    pub fn text(&self, clock: Option<&str>) -> String {
        let title = format!("-- tollgate {}", self.name);
        [&title, clock.unwrap_or(CLOCK), self.text].join("\n")
    }

    /// Returns the number of leading KEYS and ARGV that are sent once for consecutive decisions
    /// with equal values; `None` if the script does not share.
    pub fn shared(&self) -> Option<(usize, usize)> {
        (self.shared != (0, 0)).then_some(self.shared)
    }
}
