//! The queue of waiters of one partition, in order of arrival; the twin of `lua/lib/queue.lua`,
//! `ticket.lua` and `heartbeat.lua`.
//!
//! The waiters whose rank is below the number of free slots may proceed.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::WaitingCall;
use crate::{
    Allowance,
    time::{Millis, Timestamp},
};

/// Only this many of the waiters that may proceed get a wake-up; the next ones follow as these take
/// slots.
const WAKE_UPS_MAX: u32 = 100;
/// The maximum number of waiters in one answer to a heartbeat.
const TURNS_MAX: usize = 100;
/// A slot that expires this soon may expire before the next heartbeat.
const SOON: Millis = Millis(400);
/// Added to the time of a ticket: the last attempt of its call can take this much longer.
const SLACK: Millis = Millis::from_secs(1);

type Waiter = Arc<[u8]>;

/// Wake-ups: the channel of the waiter's server, and the number of its call.
pub type WakeUps = Vec<(Arc<str>, u64)>;

/// The tickets of a partition, and the wake-ups to send.
///
/// Invariant: while n slots are free, the first `min(n, WAKE_UPS_MAX)` waiters have been sent a
/// wake-up. The methods below count these waiters, minus those that they remove, as `woken`.
#[derive(Debug, Default)]
pub struct Queue {
    /// Waiters by ticket number.
    order: BTreeSet<(u64, Waiter)>,
    held: HashMap<Waiter, HeldTicket>,
    /// Servers by channel, and until when each is considered alive.
    servers: HashMap<Arc<str>, Timestamp>,
    /// The channels of servers that lost a dead ticket since their last heartbeat.
    lost: HashSet<Arc<str>>,
    /// Reserved tickets: waiters whose server shut down, with the ticket number and the end of the
    /// reservation. They hold no position. Empty in the embedded engine, which ends with its
    /// server.
    tickets: HashMap<Waiter, (u64, Timestamp)>,
    wake_ups: WakeUps,
}

#[derive(Debug)]
/// A ticket.
struct HeldTicket {
    /// The ticket number.
    ticket: u64,
    /// The number of the call to which the ticket belongs.
    number: u64,
    /// The end of the ticket, unless the call extends it.
    ends: Timestamp,
    /// The channel of the call's server.
    channel: Arc<str>,
}

/// Whether a caller may take a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proceed {
    /// It may.
    Now,
    /// It may not, and the call does not wait.
    Refused,
    /// Undecided: more dead tickets precede it than one step removes. The call asks again
    /// immediately.
    Again,
    /// It may not. Its ticket has this number.
    Waits(u64),
}

impl Proceed {
    /// Reads the ticket number in the reply of a refusal: 0 and 1 are not ticket numbers.
    pub(crate) fn parse(ticket: u64) -> Proceed {
        match ticket {
            0 => Proceed::Refused,
            1 => Proceed::Again,
            ticket => Proceed::Waits(ticket),
        }
    }
}

impl Queue {
    /// Whether no call waits.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whether no call waits and no ticket is reserved.
    pub fn is_vacant(&self) -> bool {
        self.is_empty() && self.tickets.is_empty()
    }

    /// Returns the number of tickets.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether a waiter has a ticket.
    pub(crate) fn contains(&self, waiter: &[u8]) -> bool {
        self.held.contains_key(waiter)
    }

    /// Returns the wake-ups produced since the last call.
    pub fn take_wake_ups(&mut self) -> WakeUps {
        std::mem::take(&mut self.wake_ups)
    }

    /// Decides whether a caller may take one of the free slots. A waiter proceeds if its rank is
    /// below `free`. A caller without a ticket proceeds if slots remain after all waiters, or with
    /// `barging`. A caller that may not proceed and waits gets a ticket, or keeps the one it has.
    pub(crate) fn try_proceed(
        &mut self,
        waiter: &[u8],
        waiting: Option<&WaitingCall>,
        free: u32,
        barging: bool,
        allowance: &mut Allowance,
        now: Timestamp,
    ) -> Proceed {
        let stays = waiting.filter(|waiting| waiting.waits());
        let leaves = waiting.filter(|waiting| waiting.leaves());
        let asked = waiting.map_or(0, |waiting| self.claim_ticket(waiter, waiting, now));
        match (self.is_empty(), stays.or(leaves)) {
            (true, _) if free > 0 => return Proceed::Now,
            (true, None) => return Proceed::Refused,
            _ => {}
        }
        // Read before `leave` removes it: a call that leaves reserves this number.
        let held_ticket = self.held.get(waiter).map(|held| held.ticket);
        let ticket = stays.map(|waiting| self.enter(waiter, waiting, asked, now));
        let (reaped, more) = self.reap(allowance, now);
        let mut woken = free.min(WAKE_UPS_MAX).saturating_sub(reaped);
        let rank = self.rank_below(waiter, free);
        // A caller without a ticket comes after all waiters.
        let free_for_all = (self.len() as u32) < free && !self.held.contains_key(waiter);
        let may_proceed = rank.is_some() || free_for_all || barging && free > 0;
        let mut is_elsewhere = false;
        if let Some(held) = self.held.get(waiter) {
            let (number, channel) = (held.number, held.channel.clone());
            is_elsewhere = !waiting.is_some_and(|waiting| waiting.is_of(number, &channel));
            if may_proceed || !is_elsewhere && stays.is_none() {
                woken = self.leave(waiter, number, &channel, woken);
                if is_elsewhere {
                    // Another call of the same waiter: wake it, so that it gets the same lease.
                    self.wake_ups.push((channel, number));
                }
            }
        }
        // The caller takes one of the free slots; wake the waiters for the others. If dead tickets
        // remain, the decision that removes them wakes.
        if !more {
            self.wake(woken, if may_proceed { free - 1 } else { free });
        }
        // The server shuts down: reserve the ticket number for a call at another server.
        if let Some(waiting) = leaves.filter(|_| !may_proceed && !is_elsewhere) {
            let asked = Some(asked).filter(|ticket| *ticket > 0);
            let ticket = held_ticket.or(asked).unwrap_or_else(|| self.next_ticket(now));
            self.tickets.insert(waiter.into(), (ticket, now.after(waiting.ticket_kept)));
        }
        match (may_proceed, ticket) {
            (true, _) => Proceed::Now,
            (false, Some(ticket)) => Proceed::Waits(ticket),
            (false, None) if free > 0 && more => Proceed::Again,
            (false, None) => Proceed::Refused,
        }
    }

    /// Returns the number of waiters. Dead tickets at the front are removed and not counted.
    pub(crate) fn count(&mut self, free: u32, now: Timestamp) -> usize {
        self.reap_and_wake(free.min(WAKE_UPS_MAX), free, &mut Allowance::new(), now);
        self.len()
    }

    /// Gives up the ticket of a call that already has its lease.
    pub(crate) fn needs_no_turn(
        &mut self,
        waiter: &[u8],
        waiting: &WaitingCall,
        free: u32,
        allowance: &mut Allowance,
        now: Timestamp,
    ) {
        if !self.is_empty() {
            let woken =
                self.leave(waiter, waiting.number, &waiting.channel, free.min(WAKE_UPS_MAX));
            self.reap_and_wake(woken, free, allowance, now);
        }
    }

    /// Wakes waiters after the number of free slots grew from `was_free` to `free`.
    pub(crate) fn hand_on(&mut self, was_free: u32, free: u32, now: Timestamp) {
        if free > was_free {
            self.reap_and_wake(was_free.min(WAKE_UPS_MAX), free, &mut Allowance::new(), now);
        }
    }

    /// Wakes the first waiter if a slot is granted only until `end` and that is within [`SOON`].
    /// The waiter then learns the time, and its server sends a heartbeat at that moment.
    pub(super) fn tell_end(&mut self, end: Timestamp, now: Timestamp) {
        if end <= now.after(SOON) {
            self.wake(0, 1);
        }
    }

    /// Records a heartbeat, and gives up the ticket of one call if asked. Returns `None` if no call
    /// waits. Otherwise returns whether the server was alive and lost no ticket since its last
    /// heartbeat, and whether more dead tickets remain.
    pub(super) fn heartbeat(
        &mut self,
        channel: &Arc<str>,
        keep: Millis,
        gone: Option<(&[u8], u64)>,
        free: u32,
        now: Timestamp,
    ) -> Option<(bool, bool)> {
        let woken = free.min(WAKE_UPS_MAX);
        let woken =
            gone.map_or(woken, |(waiter, number)| self.leave(waiter, number, channel, woken));
        if self.is_empty() {
            return None;
        }
        let is_known = !self.lost.remove(channel) && self.is_alive(channel, now);
        self.servers.insert(channel.clone(), now.after(keep));
        let more = self.reap_and_wake(woken, free, &mut Allowance::new(), now);
        Some((is_known, more))
    }

    /// Returns the calls of this channel that may proceed. Sends wake-ups to the others, whose
    /// servers may not know yet that a lease has expired.
    pub(super) fn proceeding(&mut self, channel: &str, free: u32) -> Vec<(u64, Box<[u8]>)> {
        let mut own = Vec::new();
        for (_, waiter) in self.order.iter().take(TURNS_MAX.min(free as usize)) {
            match self.held.get(waiter) {
                Some(held) if *held.channel == *channel => {
                    own.push((held.number, (**waiter).into()));
                }
                Some(held) => self.wake_ups.push((held.channel.clone(), held.number)),
                None => {}
            }
        }
        own
    }

    /// Returns the ticket number that a call asks for: its own, or the one reserved for its waiter,
    /// whose reservation ends.
    fn claim_ticket(&mut self, waiter: &[u8], waiting: &WaitingCall, now: Timestamp) -> u64 {
        if waiting.ticket != 0 && !waiting.leaves() {
            return waiting.ticket;
        }
        match self.tickets.remove(waiter) {
            Some((kept, until)) if waiting.ticket == 0 && until > now => kept,
            _ => waiting.ticket,
        }
    }

    /// Ticket numbers are the time of arrival in µs, and unique within the queue.
    fn next_ticket(&self, now: Timestamp) -> u64 {
        self.order.last().map_or(now.0, |(last, _)| now.0.max(last + 1))
    }

    /// Enters a ticket or extends the existing one; returns its number. A new ticket gets the
    /// number `asked`, or the next one if that is 0.
    fn enter(&mut self, waiter: &[u8], waiting: &WaitingCall, asked: u64, now: Timestamp) -> u64 {
        let (waiter, ticket) = match self.held.remove_entry(waiter) {
            Some((waiter, held)) => (waiter, held.ticket),
            None if asked == 0 => (Waiter::from(waiter), self.next_ticket(now)),
            None => (Waiter::from(waiter), asked),
        };
        self.order.insert((ticket, waiter.clone()));
        let ends = now.after(waiting.wait).after(SLACK);
        let (number, channel) = (waiting.number, waiting.channel.clone());
        self.servers.insert(channel.clone(), now.after(waiting.keep));
        self.held.insert(waiter, HeldTicket { ticket, number, ends, channel });
        ticket
    }

    /// Removes the ticket of this call, if it has one; returns the new `woken`.
    fn leave(&mut self, waiter: &[u8], number: u64, channel: &str, woken: u32) -> u32 {
        let is_of = |held: &HeldTicket| held.number == number && *held.channel == *channel;
        if !self.held.get(waiter).is_some_and(is_of) {
            return woken;
        }
        let rank = self.rank_below(waiter, woken);
        self.vacate(waiter);
        if rank.is_some() { woken - 1 } else { woken }
    }

    fn vacate(&mut self, waiter: &[u8]) {
        if let Some((waiter, held)) = self.held.remove_entry(waiter) {
            self.order.remove(&(held.ticket, waiter));
        }
        if self.is_empty() {
            self.servers.clear();
            self.lost.clear();
        }
    }

    /// Removes dead tickets from the front while the allowance lasts. A ticket is dead after the
    /// time of its call, or when the heartbeats of its server stop. Returns the number removed, and
    /// whether dead tickets remain.
    fn reap(&mut self, allowance: &mut Allowance, now: Timestamp) -> (u32, bool) {
        let mut lost = HashSet::new();
        let (mut reaped, mut more) = (0, false);
        while let Some((_, first)) = self.order.first() {
            let first = first.clone();
            if let Some(held) = self.held.get(&first) {
                if held.ends > now && self.is_alive(&held.channel, now) {
                    break;
                }
                lost.insert(held.channel.clone());
            }
            more = allowance.is_spent();
            if more {
                break;
            }
            self.vacate(&first);
            allowance.spend_place();
            reaped += 1;
        }
        // Their servers may believe that these tickets exist, so their calls must ask again.
        if reaped > 0 && !self.is_empty() {
            self.lost.extend(lost);
        }
        (reaped, more)
    }

    /// Removes dead tickets, then wakes the waiters that may proceed; the first `woken` have
    /// already been woken. If dead tickets remain, wakes none: the decision that removes them does.
    /// Returns whether dead tickets remain.
    fn reap_and_wake(
        &mut self,
        woken: u32,
        free: u32,
        allowance: &mut Allowance,
        now: Timestamp,
    ) -> bool {
        let (reaped, more) = self.reap(allowance, now);
        if !more {
            self.wake(woken.saturating_sub(reaped), free);
        }
        more
    }

    fn is_alive(&self, channel: &str, now: Timestamp) -> bool {
        self.servers.get(channel).is_some_and(|until| *until > now)
    }

    /// Sends wake-ups to the waiters from rank `woken` up to the number of free slots.
    fn wake(&mut self, woken: u32, free: u32) {
        let count = free.min(WAKE_UPS_MAX).saturating_sub(woken) as usize;
        let next = self.order.iter().skip(woken as usize).take(count);
        let held = next.filter_map(|(_, waiter)| self.held.get(waiter));
        let wake_ups: Vec<_> = held.map(|held| (held.channel.clone(), held.number)).collect();
        self.wake_ups.extend(wake_ups);
    }

    /// Returns the rank of a waiter, if it is below `bound`.
    fn rank_below(&self, waiter: &[u8], bound: u32) -> Option<usize> {
        self.order.iter().take(bound as usize).position(|(_, other)| **other == *waiter)
    }
}
