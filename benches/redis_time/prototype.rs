//! Scripts that show how fast a check of a rate can be in Redis: no bans, tiers, events, repeats or
//! unreadable values.

use redis::Script;
use tollgate_core::{names::Name, rate::MeterName};

use crate::{keys::name, site::Site};

/// The limit of each script, which no run reaches.
const MAX: u64 = 500_000;
/// The window in ms. A token of the GCRA is refilled after a minute, so each check finds the usage
/// of earlier ones.
const WINDOW: u64 = MAX * 60_000;
/// Numbers of a check in a reply: whether it was refused, the count, the rest of the window.
const NUMBERS: usize = 3;

/// A script of this benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prototype {
    /// A counter of Redis.
    Counter,
    /// A fixed window in a packed value.
    Packed,
    /// A token bucket in a packed value.
    Gcra,
}

impl Prototype {
    fn text(self) -> &'static str {
        match self {
            Prototype::Counter => include_str!("counter.lua"),
            Prototype::Packed => include_str!("packed.lua"),
            Prototype::Gcra => include_str!("gcra.lua"),
        }
    }

    /// Returns the name of its policy, which is about as long as those of the server.
    fn policy(self) -> &'static str {
        match self {
            Prototype::Counter => "count",
            Prototype::Packed => "packed",
            Prototype::Gcra => "gcra",
        }
    }

    /// Checks keys with one EVALSHA.
    pub(crate) async fn call(self, site: &Site, numbers: impl Iterator<Item = u64>) {
        let script = Script::new(self.text());
        let mut call = script.prepare_invoke();
        let keys: Vec<Vec<u8>> = numbers.map(|number| self.key(number)).collect();
        for key in &keys {
            call.key(key);
        }
        call.arg(MAX).arg(WINDOW).arg(1);
        let reply: Vec<u8> = call.invoke_async(&mut site.redis.clone()).await.unwrap();
        let (numbers, rest) = reply.as_chunks();
        let numbers: Vec<u64> = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        assert!(rest.is_empty() && numbers.len() == keys.len() * NUMBERS, "{reply:?}");
        for numbers in numbers.chunks(NUMBERS) {
            assert!(numbers[0] == 0 && numbers[1] > 0 && numbers[2] > 0, "{numbers:?}");
        }
    }

    /// Returns the Redis key that the server would use for the usage of a key.
    fn key(self, number: u64) -> Vec<u8> {
        let parse = |text: String| Name::parse(text.into()).unwrap();
        let policy = parse(self.policy().to_owned());
        let name = MeterName::new(Some(&policy), &parse(name("key:", number)));
        [b"tollgate:{rate:", name.tag(), b"}:usage:", name.key()].concat()
    }
}
