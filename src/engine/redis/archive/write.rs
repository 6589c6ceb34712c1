//! Converts export lines to Redis commands.
//!
//! The commands write the same keys, values and TTLs as the scripts would have. Settings of a whole
//! pool or policy follow at the end, once all its lines are known.

use redis::{Cmd, cmd};

use super::{
    Keyspace,
    counters::{pack_answer, pack_ban, pack_counters},
    pool,
};
use crate::decision::{
    export::{Line, OrderName, StandingName, TaskLine},
    names::SEPARATOR,
};

/// The list of leases outlives the pool's records by this time: the end of each lease is an event,
/// which the sweeper or the next grant produces.
const LEASES_TTL_MS: u64 = 24 * 3600 * 1000;

/// The shortest TTL of a pool's last token, in µs.
const TOKEN_TTL: u64 = 3600 * 1_000_000;

/// A key and a command on it.
type Keyed = (Vec<u8>, Cmd);

impl Keyspace {
    /// The commands for a line; none if it has lapsed.
    pub(super) fn commands(&mut self, line: &Line) -> Vec<Keyed> {
        if line.has_lapsed(self.now) {
            return Vec::new();
        }
        match line {
            Line::Pool(line) => {
                self.pools.entry(line.pool.0.clone()).or_default().0 = line.last_token;
                let settings = pool::settings(line);
                let key = self.keys.key("admission", &line.pool.0, &[b"settings"]);
                let kept = self.keys.key("index", b"admission", &[b"kept"]);
                let set = settings.map(|text| plain(key, "SET", &[text.as_bytes()]));
                let note = set.is_some().then(|| plain(kept, "SADD", &[&line.pool.0]));
                set.into_iter().chain(note).collect()
            }
            Line::Task(task) => self.task(task),
            Line::Rate(line) => {
                let Ok(name) = line.name() else { return Vec::new() };
                let mut commands = Vec::new();
                let counters = line.counters.iter().map(|counter| counter.forget).max();
                if let Some(forget) = counters.filter(|forget| *forget > self.now) {
                    let key = self.rate_key(name.tag(), b"usage", name.has_policy(), name.key());
                    commands.push(self.lapsing(key, &pack_counters(&line.counters), forget));
                }
                let ban = line.ban.as_ref();
                if let Some(ban) = ban.filter(|ban| ban.forget.is_some_and(|at| at > self.now)) {
                    let key = self.rate_key(name.tag(), b"ban", name.has_policy(), name.key());
                    let forget = ban.forget.unwrap_or(ban.until);
                    commands.push(self.lapsing(key, &pack_ban(ban), forget));
                    if let Some(policy) = line.policy.as_ref().filter(|_| ban.until > self.now) {
                        let last = self.bans.entry(policy.0.clone()).or_default();
                        *last = ban.until.max(*last);
                        let key = self.keys.key("bans", &policy.0, &[b"banned"]);
                        let until = ban.until.to_string();
                        commands.push(plain(key, "ZADD", &[until.as_bytes(), &line.key.0]));
                    }
                }
                commands
            }
            Line::RateReplay(line) => {
                let Ok(name) = line.name() else { return Vec::new() };
                let part: &[&[u8]] = match name.has_policy() {
                    true => &[b"replay:", name.key(), &[SEPARATOR], &line.request.0],
                    false => &[b"replay:", &line.request.0],
                };
                let key = self.keys.key("rate", name.tag(), part);
                vec![self.lapsing(key, &pack_answer(line), line.forget)]
            }
            Line::Sequence(line) => {
                let key = self.keys.key("sequence", &line.partition(), &[b"counter"]);
                let (last, time) = (line.last.to_string(), line.time.to_string());
                let fields = [&b"last"[..], last.as_bytes(), b"time", time.as_bytes()];
                vec![plain(key, "HSET", if line.time > 0 { &fields } else { &fields[..2] })]
            }
            Line::SequenceReplay(line) => {
                let part = [&b"replay:"[..], &line.request.0];
                let key = self.keys.key("sequence", &line.partition(), &part);
                let applied = u8::from(line.floor_applied);
                let (forget, last, step) = (line.forget, line.last, line.step);
                let text = format!("{forget} {last} {step} {} {applied}", line.count);
                vec![self.lapsing(key, text.as_bytes(), forget)]
            }
            Line::Lock(line) => {
                let key = self.keys.key("lock", &line.lock.0, &[b"lock"]);
                let state = if line.released { 'R' } else { 'H' };
                let (token, grant, expire) = (line.token, line.grant, line.expire);
                let head = format!("{state} {token} {grant} {expire} {} ", line.lease_ms);
                let text = [head.as_bytes(), &line.owner.0].concat();
                vec![self.lapsing(key, &text, line.forget())]
            }
            _ => self.stock(line).into_iter().collect(),
        }
    }

    /// The command for a line of stock, if it is one.
    fn stock(&self, line: &Line) -> Option<Keyed> {
        Some(match line {
            Line::Stock(line) => {
                let key = self.keys.key("stock", &line.sku.0, &[b"stock"]);
                let numbers = [line.on_hand, line.reserved, line.sold].map(|n| n.to_string());
                let [on_hand, reserved, sold] = numbers.each_ref().map(|text| text.as_bytes());
                let fields = [&b"on_hand"[..], on_hand, b"reserved", reserved, b"sold", sold];
                plain(key, "HSET", &fields)
            }
            Line::Hold(line) => {
                let key = self.keys.key("stock", &line.sku.0, &[b"holds"]);
                plain(key, "ZADD", &[line.expire.to_string().as_bytes(), &line.member()])
            }
            Line::Buyer(line) => {
                let key = self.keys.key("stock", &line.sku.0, &[b"buyers"]);
                plain(key, "HSET", &[&line.buyer.0, line.count.to_string().as_bytes()])
            }
            Line::Order(line) => {
                let key = self.keys.key("stock", &line.sku.0, &[b"order:", &line.order.0]);
                let state = match line.state {
                    OrderName::Held => 'H',
                    OrderName::Confirmed => 'C',
                    OrderName::Cancelled => 'X',
                };
                let (quantity, grant, expire) = (line.quantity, line.grant, line.expire);
                let (forget, limit) = (line.forget, line.limit.unwrap_or(0));
                let head = format!("{state} {quantity} {grant} {expire} {forget} {limit} ");
                self.lapsing(key, &[head.as_bytes(), &line.buyer.0].concat(), forget)
            }
            Line::StockReplay(line) => {
                let key = self.keys.key("stock", &line.sku.0, &[b"replay:", &line.request.0]);
                let (forget, on_hand, reserved) = (line.forget, line.on_hand, line.reserved);
                let text = format!("{forget} {on_hand} {reserved} {}", line.sold);
                self.lapsing(key, text.as_bytes(), forget)
            }
            _ => return None,
        })
    }

    /// The commands for a task: its record, and its entries in the pool's lists.
    fn task(&mut self, task: &TaskLine) -> Vec<Keyed> {
        let (_, horizon) = self.pools.entry(task.pool.0.clone()).or_default();
        *horizon = task.forget.unwrap_or(0).max(task.slot_end).max(*horizon);
        let member = task.member();
        let key = |part: &[&[u8]]| self.keys.key("admission", &task.pool.0, part);
        let mut commands = Vec::new();
        match (&task.queued, task.forget) {
            (Some(queued), _) => {
                let fields = pool::queued_fields(task, queued);
                let fields: Vec<&[u8]> = fields.iter().map(|field| &**field).collect();
                commands.push(plain(key(&[b"queued"]), "HSET", &fields));
                if queued.standing == StandingName::Queued {
                    let at = format!("{:016}", queued.at);
                    let parts = [&task.device.0[..], at.as_bytes(), &task.task.0];
                    let line = parts.join(&SEPARATOR);
                    commands.push(plain(key(&[b"backlog"]), "ZADD", &[b"0", &line]));
                }
                if let Some(due) = task.due() {
                    let due = due.to_string();
                    commands.push(plain(key(&[b"due"]), "ZADD", &[due.as_bytes(), &member]));
                }
            }
            (None, forget) => {
                let record = pool::task_record(task);
                let key = key(&[b"task:", &member]);
                commands.push(self.lapsing(key, &record, forget.unwrap_or(0)));
            }
        }
        if task.listed {
            let end = task.slot_end.to_string();
            let lease = pool::lease(task);
            commands.push(plain(key(&[b"leases"]), "ZADD", &[end.as_bytes(), &lease]));
        }
        commands
    }

    /// The commands for pools and policies as a whole, once all lines are known.
    pub(super) fn last_commands(&mut self) -> Vec<Keyed> {
        let mut commands = Vec::new();
        let index = |part: &[u8]| self.keys.key("index", b"admission", &[part]);
        let (partitions, ends) = (index(b"partitions"), index(b"ends"));
        for (pool, (token, horizon)) in std::mem::take(&mut self.pools) {
            // The next token exceeds the last one: by the stored token, or by the time.
            let horizon = horizon.max(token + 1).max(self.now + TOKEN_TTL);
            if token > 0 {
                let key = self.keys.key("admission", &pool, &[b"token"]);
                commands.push(self.lapsing(key, format!("{token} {horizon}").as_bytes(), horizon));
            }
            let key = self.keys.key("admission", &pool, &[b"leases"]);
            let ttl = LEASES_TTL_MS + horizon.saturating_sub(self.now).div_ceil(1000);
            commands.push(plain(key, "PEXPIRE", &[ttl.to_string().as_bytes()]));
            let now = self.now.to_string();
            // The sweeper looks at the pool at once, and schedules its next look.
            for key in [&partitions, &ends] {
                commands.push(plain(key.clone(), "ZADD", &[now.as_bytes(), &pool]));
            }
        }
        for (policy, until) in std::mem::take(&mut self.bans) {
            let key = self.keys.key("bans", &policy, &[b"banned"]);
            let ttl = until.saturating_sub(self.now).div_ceil(1000).max(1);
            commands.push(plain(key, "PEXPIRE", &[ttl.to_string().as_bytes()]));
        }
        commands
    }

    /// A key of a rate. With a policy several rate keys share a tag, so the rate key is in the
    /// part.
    fn rate_key(&self, tag: &[u8], part: &[u8], has_policy: bool, key: &[u8]) -> Vec<u8> {
        match has_policy {
            true => self.keys.key("rate", tag, &[part, b":", key]),
            false => self.keys.key("rate", tag, &[part]),
        }
    }

    /// A string that expires at `forget`.
    fn lapsing(&self, key: Vec<u8>, value: &[u8], forget: u64) -> Keyed {
        let ttl = forget.saturating_sub(self.now).div_ceil(1000).max(1);
        plain(key, "SET", &[value, b"PX", ttl.to_string().as_bytes()])
    }
}

fn plain(key: Vec<u8>, name: &str, arguments: &[&[u8]]) -> Keyed {
    let mut command = cmd(name);
    command.arg(&key);
    for argument in arguments {
        command.arg(argument);
    }
    (key, command)
}
