//! Waiting calls of several servers, for random histories.

use std::{collections::HashMap, sync::Arc};

use rand::{Rng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    time::Millis,
    waiting::{Heartbeat, Proceed, WaitingCall, Waits},
};

const SERVERS: usize = 3;
/// Few call numbers, so that calls repeat and take over the waiters of other calls.
const NUMBERS: u64 = 20;

#[derive(Debug)]
pub struct Callers {
    channels: Vec<Arc<str>>,
    /// By call number: the waiter of its last place in the queue, and its ticket.
    placed: HashMap<u64, (Box<[u8]>, u64)>,
}

impl Default for Callers {
    fn default() -> Callers {
        let channel = || format!("test:{:016x}", rand::random::<u64>()).into();
        Callers { channels: (0..SERVERS).map(|_| channel()).collect(), placed: HashMap::new() }
    }
}

impl Callers {
    pub fn channels(&self) -> Vec<String> {
        self.channels.iter().map(|channel| channel.to_string()).collect()
    }

    /// Returns a random place in the queue, or none.
    pub fn waiting(&self, random: &mut ChaCha8Rng) -> Option<WaitingCall> {
        let number = random.random_range(1..=NUMBERS);
        let known = self.placed.get(&number).filter(|_| random.random_bool(0.5));
        random.random_bool(0.7).then(|| WaitingCall {
            number,
            ticket: known.map_or(0, |(_, ticket)| *ticket),
            wait: Millis(*[0, 0, 5000, 60_000].choose(random).unwrap()),
            ticket_kept: Millis(*[0, 0, 3000].choose(random).unwrap()),
            keep: Millis(*[300, 5000, 60_000].choose(random).unwrap()),
            channel: self.channel(number),
        })
    }

    /// Records the ticket of a call that has to wait.
    pub fn asked<D: Waits>(&mut self, decision: &D, outcome: &D::Outcome) {
        let mut asked = decision.clone();
        if let (Some(waiting), Proceed::Waits(ticket)) =
            (asked.waiting().take(), D::proceed(outcome))
        {
            self.placed.insert(waiting.number, (decision.waiter().into(), ticket));
        }
    }

    /// Returns a random heartbeat of a server, which may report the end of a waiting call.
    pub fn heartbeat(&self, random: &mut ChaCha8Rng) -> Heartbeat {
        let number = random.random_range(1..=NUMBERS);
        let placed = self.placed.get(&number).filter(|_| random.random_bool(0.7));
        let gone = placed.map(|(waiter, _)| (waiter.clone(), number));
        let keep = Millis(*[300, 5000, 60_000].choose(random).unwrap());
        Heartbeat { channel: self.channel(number), keep, gone }
    }

    fn channel(&self, number: u64) -> Arc<str> {
        self.channels[number as usize % SERVERS].clone()
    }
}
