//! Who waits, in order of arrival; the twin of `lua/lib/queue.lua`, `turns.lua` and
//! `attend.lua`.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::Place;
use crate::time::{Millis, Timestamp};

/// Places that one step takes out of the way at most.
const REAP_MAX: u32 = 500;
/// Of the calls whose turn it is so many are told; those after them as these take it.
const HINT_MAX: u32 = 100;
/// Calls of which one answer says that it is their turn.
const TURNS_MAX: usize = 100;
/// A slot that ends so soon may end before servers attend to the queue again.
const SOON: Millis = Millis(400);
/// A call's last try may take so much longer than it waits.
const SLACK: Millis = Millis::from_secs(1);

type Waiter = Arc<[u8]>;

/// Who is told of its turn: its server's channel, and the number of its call.
pub type Hints = Vec<(Arc<str>, u64)>;

/// The places of a partition, and who is to be told of their turn.
#[derive(Debug, Default)]
pub struct Queue {
    order: BTreeSet<(u64, Waiter)>,
    places: HashMap<Waiter, Held>,
    /// Until when the server of a channel is known to be there.
    servers: HashMap<Arc<str>, Timestamp>,
    /// The channels of places that were taken out of the way.
    lost: HashSet<Arc<str>>,
    /// Tickets of waiters whose server ends, and until when they are kept. Such a waiter has
    /// no place: nobody waits for it. Empty in the embedded engine, which ends with its server.
    tickets: HashMap<Waiter, (u64, Timestamp)>,
    hints: Hints,
}

#[derive(Debug)]
struct Held {
    ticket: u64,
    number: u64,
    ends: Timestamp,
    channel: Arc<str>,
}

/// Whether it is a caller's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It is.
    Now,
    /// It is not, and the call does not wait.
    Refused,
    /// More have lapsed before it than one step takes out of the way: it is to ask again
    /// at once.
    Again,
    /// It is not; the place has this ticket.
    Waits(u64),
}

impl Turn {
    /// What a refusal's reply says of it.
    pub(crate) fn parse(ticket: u64) -> Turn {
        match ticket {
            0 => Turn::Refused,
            1 => Turn::Again,
            ticket => Turn::Waits(ticket),
        }
    }
}

impl Queue {
    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether nobody waits, and no ticket is kept.
    pub fn is_vacant(&self) -> bool {
        self.is_empty() && self.tickets.is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether a waiter has a place.
    pub(crate) fn holds(&self, waiter: &[u8]) -> bool {
        self.places.contains_key(waiter)
    }

    /// Those that were told of their turn since the last time.
    pub fn take_hints(&mut self) -> Hints {
        std::mem::take(&mut self.hints)
    }

    /// Whether it is a caller's turn to take one of the free slots; one that may barge
    /// needs no turn.
    pub(crate) fn take_turn(
        &mut self,
        waiter: &[u8],
        place: Option<&Place>,
        free: u32,
        barging: bool,
        now: Timestamp,
    ) -> Turn {
        let stays = place.filter(|place| place.waits());
        let leaves = place.filter(|place| place.leaves());
        let asked = place.map_or(0, |place| self.claim_ticket(waiter, place, now));
        match (self.is_empty(), stays.or(leaves)) {
            (true, _) if free > 0 => return Turn::Now,
            (true, None) => return Turn::Refused,
            _ => {}
        }
        let held_ticket = self.places.get(waiter).map(|held| held.ticket);
        let ticket = stays.map(|place| self.enter(waiter, place, asked, now));
        let reaped = self.reap(now);
        let mut told = free.min(HINT_MAX).saturating_sub(reaped);
        let rank = self.rank_below(waiter, free);
        // One without a place comes after all that have one.
        let free_for_all = (self.len() as u32) < free && !self.places.contains_key(waiter);
        let turn = rank.is_some() || free_for_all || barging && free > 0;
        let mut is_elsewhere = false;
        if let Some(held) = self.places.get(waiter) {
            let (number, channel) = (held.number, held.channel.clone());
            is_elsewhere = !place.is_some_and(|place| place.is_of(number, &channel));
            if turn || !is_elsewhere && stays.is_none() {
                told = self.leave(waiter, number, &channel, told);
                if is_elsewhere {
                    // Another call of the same waiter: it is answered with the same lease.
                    self.hints.push((channel, number));
                }
            }
        }
        self.hint(told, if turn { free - 1 } else { free });
        if let Some(place) = leaves.filter(|_| !turn && !is_elsewhere) {
            let asked = Some(asked).filter(|ticket| *ticket > 0);
            let ticket = held_ticket.or(asked).unwrap_or_else(|| self.next_ticket(now));
            self.tickets.insert(waiter.into(), (ticket, now.after(place.ticket_kept)));
        }
        match (turn, ticket) {
            (true, _) => Turn::Now,
            (false, Some(ticket)) => Turn::Waits(ticket),
            (false, None) if free > 0 && reaped == REAP_MAX => Turn::Again,
            (false, None) => Turn::Refused,
        }
    }

    /// How many wait. What has lapsed at the front is not counted.
    pub(crate) fn count(&mut self, free: u32, now: Timestamp) -> usize {
        let told = free.min(HINT_MAX).saturating_sub(self.reap(now));
        self.hint(told, free);
        self.len()
    }

    /// Gives up the place of a call that needs none.
    pub(crate) fn needs_no_turn(
        &mut self,
        waiter: &[u8],
        place: &Place,
        free: u32,
        now: Timestamp,
    ) {
        if !self.is_empty() {
            let told = self.leave(waiter, place.number, &place.channel, free.min(HINT_MAX));
            let told = told.saturating_sub(self.reap(now));
            self.hint(told, free);
        }
    }

    /// Hands on slots that became free.
    pub(crate) fn hand_on(&mut self, was_free: u32, free: u32, now: Timestamp) {
        if free > was_free {
            let told = was_free.min(HINT_MAX).saturating_sub(self.reap(now));
            self.hint(told, free);
        }
    }

    /// Tells the first waiter of a slot that is granted until `end`, if it ends soon: the waiter
    /// asks when, and its server attends to the queue then.
    pub(super) fn tell_end(&mut self, end: Timestamp, now: Timestamp) {
        if end <= now.after(SOON) {
            self.hint(0, 1);
        }
    }

    /// Notes that a server is there, and that a call of it is not; whether it was
    /// known and lost no place since the last time, and whether more may have lapsed;
    /// none when nobody waits.
    pub(super) fn attend(
        &mut self,
        channel: &Arc<str>,
        keep: Millis,
        gone: Option<(&[u8], u64)>,
        free: u32,
        now: Timestamp,
    ) -> Option<(bool, bool)> {
        let told = free.min(HINT_MAX);
        let told = gone.map_or(told, |(waiter, number)| self.leave(waiter, number, channel, told));
        if self.is_empty() {
            return None;
        }
        let known = !self.lost.remove(channel) && self.knows(channel, now);
        self.servers.insert(channel.clone(), now.after(keep));
        let reaped = self.reap(now);
        self.hint(told.saturating_sub(reaped), free);
        Some((known, reaped == REAP_MAX))
    }

    /// The calls of a channel whose turn it is; tells those of the others, whose servers
    /// may not know yet that a lease has lapsed.
    pub(super) fn turns(&mut self, channel: &str, free: u32) -> Vec<(u64, Box<[u8]>)> {
        let mut own = Vec::new();
        for (_, waiter) in self.order.iter().take(TURNS_MAX.min(free as usize)) {
            match self.places.get(waiter) {
                Some(held) if *held.channel == *channel => {
                    own.push((held.number, (**waiter).into()));
                }
                Some(held) => self.hints.push((held.channel.clone(), held.number)),
                None => {}
            }
        }
        own
    }

    /// The ticket that a call asks with: its own, or the one that is kept for its waiter; it
    /// is kept no longer.
    fn claim_ticket(&mut self, waiter: &[u8], place: &Place, now: Timestamp) -> u64 {
        if place.ticket != 0 && !place.leaves() {
            return place.ticket;
        }
        match self.tickets.remove(waiter) {
            Some((kept, until)) if place.ticket == 0 && until > now => kept,
            _ => place.ticket,
        }
    }

    fn next_ticket(&self, now: Timestamp) -> u64 {
        self.order.last().map_or(now.0, |(last, _)| now.0.max(last + 1))
    }

    /// Takes a place, or keeps it; its ticket. One without a place gets the ticket that it
    /// asks with, or the next where that is 0.
    fn enter(&mut self, waiter: &[u8], place: &Place, asked: u64, now: Timestamp) -> u64 {
        let (waiter, ticket) = match self.places.remove_entry(waiter) {
            Some((waiter, held)) => (waiter, held.ticket),
            None if asked == 0 => (Waiter::from(waiter), self.next_ticket(now)),
            None => (Waiter::from(waiter), asked),
        };
        self.order.insert((ticket, waiter.clone()));
        let ends = now.after(place.wait).after(SLACK);
        let (number, channel) = (place.number, place.channel.clone());
        self.servers.insert(channel.clone(), now.after(place.keep));
        self.places.insert(waiter, Held { ticket, number, ends, channel });
        ticket
    }

    /// Gives up a place, if it is that call's; how many of the first `told` are left.
    fn leave(&mut self, waiter: &[u8], number: u64, channel: &str, told: u32) -> u32 {
        let is_of = |held: &Held| held.number == number && *held.channel == *channel;
        if !self.places.get(waiter).is_some_and(is_of) {
            return told;
        }
        let rank = self.rank_below(waiter, told);
        self.vacate(waiter);
        if rank.is_some() { told - 1 } else { told }
    }

    fn vacate(&mut self, waiter: &[u8]) {
        if let Some((waiter, held)) = self.places.remove_entry(waiter) {
            self.order.remove(&(held.ticket, waiter));
        }
        if self.is_empty() {
            self.servers.clear();
            self.lost.clear();
        }
    }

    /// Takes places at the front that are none out of the way; how many there were.
    fn reap(&mut self, now: Timestamp) -> u32 {
        let mut lost = HashSet::new();
        let mut reaped = 0;
        while reaped < REAP_MAX
            && let Some((_, first)) = self.order.first()
        {
            let first = first.clone();
            if let Some(held) = self.places.get(&first) {
                if held.ends > now && self.knows(&held.channel, now) {
                    break;
                }
                lost.insert(held.channel.clone());
            }
            self.vacate(&first);
            reaped += 1;
        }
        if reaped > 0 && !self.is_empty() {
            self.lost.extend(lost);
        }
        reaped
    }

    fn knows(&self, channel: &str, now: Timestamp) -> bool {
        self.servers.get(channel).is_some_and(|until| *until > now)
    }

    /// Tells those from rank `told` on, where so many slots are free, that it is their
    /// turn.
    fn hint(&mut self, told: u32, free: u32) {
        let count = free.min(HINT_MAX).saturating_sub(told) as usize;
        let next = self.order.iter().skip(told as usize).take(count);
        let held = next.filter_map(|(_, waiter)| self.places.get(waiter));
        let hints: Vec<_> = held.map(|held| (held.channel.clone(), held.number)).collect();
        self.hints.extend(hints);
    }

    /// A waiter's rank, if it is below a bound.
    fn rank_below(&self, waiter: &[u8], bound: u32) -> Option<usize> {
        self.order.iter().take(bound as usize).position(|(_, other)| **other == *waiter)
    }
}
