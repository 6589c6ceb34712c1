//! A model of rates: never more calls than the limit, and calls pass at `retry_after`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
};

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use tollgate_core::{
    rate::{
        Algorithm, Ban, BanKey, CheckOutcome as Decided, CheckRate, GetKey, KeyState, LimitSpec,
        MeterName, ResetRate, Rule, RuleSpec, TierAction, TierSpec, UnbanKey, Verdict,
    },
    time::Millis,
};
use tollgate_engine::Engine;

use crate::capability::{Answering, Capability, Checked, Part, deadline, holds, name, text};

const MAX: u64 = 5;
const WINDOW: u64 = 1_000_000;
const REPLAY: u64 = 300_000_000;
const LADDER: [Millis; 2] = [Millis(700), Millis(4000)];
const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::FixedWindow,
    Algorithm::CalendarWindow,
    Algorithm::SlidingWindow,
    Algorithm::TokenBucket,
    // A policy with a tier that bans.
    Algorithm::SlidingWindow,
];
const BANNING: u8 = 4;

#[derive(Debug, Clone)]
pub enum Ask {
    Check { cost: u32, request: Option<u32> },
    Reset,
    Ban(u64),
    Unban,
    Get,
}

#[derive(Debug, Clone)]
pub enum Answer {
    Checked(Decided),
    Reset(bool),
    Banned(Ban),
    Unbanned(bool),
    Got(KeyState),
}

/// The last refusal, if no call has passed since.
#[derive(Debug, Clone, Copy)]
struct Refused {
    at: u64,
    wait: u64,
    cost: u32,
}

#[derive(Debug, Clone)]
pub struct Key {
    part: Part,
    passed: VecDeque<(u64, u32)>,
    refused: Option<Refused>,
    banned_until: u64,
    requests: u32,
    /// Ids of allowed calls, each with the time until which it can be repeated.
    replays: BTreeMap<u32, u64>,
}

/// Returns the rule of each index, built once.
fn rule(part: Part) -> Arc<Rule> {
    static RULES: [OnceLock<Arc<Rule>>; ALGORITHMS.len()] = [const { OnceLock::new() }; 5];
    RULES[usize::from(part.index)].get_or_init(|| build(part)).clone()
}

fn build(part: Part) -> Arc<Rule> {
    let algorithm = ALGORITHMS[usize::from(part.index)];
    let burst = (algorithm == Algorithm::TokenBucket).then_some(MAX);
    let window = Some(Millis(WINDOW / 1000));
    let (max, algorithm) = (Some(MAX), Some(algorithm));
    let limit = LimitSpec { name: Vec::new(), max, window, algorithm, burst };
    let (above, action) = (Some(MAX), Some(TierAction::Ban));
    let tier = TierSpec { above, action, ban_durations: LADDER.to_vec() };
    let tiers = if part.index == BANNING { vec![tier] } else { Vec::new() };
    Arc::new(RuleSpec { limits: vec![limit], tiers, ..RuleSpec::default() }.build().unwrap())
}

fn meter(part: Part) -> MeterName {
    let policy = name("reads");
    MeterName::new((part.index == BANNING).then_some(&policy), &name(&part.text('u')))
}

impl Key {
    fn spent(&self, since: u64) -> u64 {
        let recent = self.passed.iter().rev().take_while(|(at, _)| *at > since);
        recent.map(|(_, cost)| u64::from(*cost)).sum()
    }

    fn pass(&mut self, cost: u32, now: u64) -> Checked {
        if let Some(Refused { at, wait, cost: refused }) = self.refused {
            // The wait was rounded up to a millisecond.
            let is_early = now <= at + (wait - 1) * 1000;
            holds(!is_early || cost < refused, "nothing passes before retry_after")?;
        }
        self.refused = None;
        self.passed.push_back((now, cost));
        while self.passed.front().is_some_and(|(at, _)| at + 3 * WINDOW < now) {
            self.passed.pop_front();
        }
        let mut sum = 0;
        for (at, cost) in self.passed.iter().rev() {
            sum += u64::from(*cost);
            let most = match ALGORITHMS[usize::from(self.part.index)] {
                Algorithm::TokenBucket => MAX + (now - at) * MAX / WINDOW,
                _ if now - at >= WINDOW => break,
                Algorithm::SlidingWindow => MAX,
                Algorithm::CalendarWindow if at / WINDOW == now / WINDOW => MAX,
                Algorithm::FixedWindow | Algorithm::CalendarWindow => 2 * MAX,
            };
            holds(sum <= most, "never more than the limit in any window")?;
        }
        Ok(())
    }

    fn refuse(&mut self, cost: u32, wait: Option<Millis>, now: u64) -> Checked {
        let Some(Millis(wait @ 1..)) = wait else { return Err("a refusal has retry_after") };
        // A sliding window releases usage at most a sixtieth of the window late.
        let since = now.saturating_sub(WINDOW + WINDOW / 60);
        holds(self.spent(since) + u64::from(cost.max(1)) > MAX, "no refusal below the limit")?;
        if let Some(before) = self.refused {
            let is_due = now >= before.at + before.wait * 1000;
            holds(!is_due || cost > before.cost, "a call passes at retry_after")?;
        }
        let refused = Refused { at: now, wait, cost: cost.max(1) };
        self.refused = Some(refused);
        Ok(())
    }

    fn checked(&mut self, ask: (u32, Option<u32>), answer: &Decided, now: u64) -> Checked {
        let (cost, request) = ask;
        let Decided::Decided { answer, replayed } = answer else { return Err("one name") };
        let request = request.filter(|_| cost > 0);
        let known = request.and_then(|request| self.replays.get(&request));
        if known.is_some_and(|until| now < *until) {
            return holds(*replayed && answer.is_allowed(), "a repeat gets the same answer");
        }
        if *replayed {
            // Refusals are replayed while they last.
            return holds(!answer.is_allowed(), "nothing passes twice for one request");
        }
        let ban = answer.ban.as_ref().map_or(0, |ban| ban.until.0);
        if now < self.banned_until {
            let is_banned = answer.verdict == Verdict::Ban && ban == self.banned_until;
            return holds(is_banned, "a ban holds for its length");
        }
        if !answer.is_allowed() {
            if answer.verdict == Verdict::Ban && cost == 0 {
                // A peek returns the verdict of a call, but sets no ban.
                return holds(self.part.index == BANNING, "only a rule with bans sets bans");
            }
            if answer.verdict == Verdict::Ban {
                holds(self.part.index == BANNING, "only a rule with bans sets bans")?;
                let is_step = |step: &Millis| ban == now + step.0 * 1000;
                holds(LADDER.iter().any(is_step), "the ban has the length of a ladder step")?;
                self.banned_until = ban;
                let since = now.saturating_sub(WINDOW + WINDOW / 60);
                let sum = self.spent(since) + u64::from(cost);
                return holds(sum > MAX, "no ban below the limit");
            }
            return self.refuse(cost, answer.retry_after, now);
        }
        if cost == 0 {
            return Ok(());
        }
        if let Some(request) = request {
            self.replays.insert(request, now + REPLAY);
            if self.replays.len() > 60 {
                self.replays.pop_first();
            }
        }
        self.pass(cost, now)
    }
}

impl Key {
    /// The state of the key contains the ban in force, and the calls of the last window.
    fn got(&self, state: &KeyState, now: u64) -> Checked {
        let is_banned = now < self.banned_until;
        let until = state.ban.as_ref().map(|ban| ban.until.0);
        holds(until == is_banned.then_some(self.banned_until), "the ban in force")?;
        holds(!is_banned || state.strikes > 0, "a ban is a strike")?;
        let [limit] = &state.limits[..] else { return Err("one limit") };
        let since = now.saturating_sub(WINDOW);
        let is_sliding = ALGORITHMS[usize::from(self.part.index)] == Algorithm::SlidingWindow;
        let is_complete = limit.count >= self.spent(since);
        holds(!is_sliding || is_complete, "all calls of the window are counted")?;
        holds(limit.count <= MAX, "no more calls than the limit")
    }
}

impl Capability for Key {
    type Ask = Ask;
    type Answer = Answer;

    fn new(part: Part) -> Key {
        let (passed, replays) = (VecDeque::new(), BTreeMap::new());
        Key { part, passed, refused: None, banned_until: 0, requests: 0, replays }
    }

    fn part(&self) -> Part {
        self.part
    }

    fn ask(&mut self, random: &mut ChaCha8Rng, _: u64) -> Ask {
        match random.random_range(0..60) {
            0 => Ask::Reset,
            1 => Ask::Ban(random.random_range(1..3000)),
            2 => Ask::Unban,
            3 | 4 => Ask::Get,
            _ => {
                self.requests += 1;
                let request = random.random_bool(0.3).then_some(self.requests);
                Ask::Check { cost: random.random_range(0..4), request }
            }
        }
    }

    fn reads(&self) -> Vec<Ask> {
        vec![Ask::Check { cost: 0, request: None }, Ask::Get]
    }

    fn run(part: Part, ask: Ask, engine: Arc<Engine>) -> Answering<Answer> {
        Box::pin(async move {
            let name_of = meter(part);
            Ok(match ask {
                Ask::Check { cost, request } => {
                    let request = request.map(|request| name(&text('r', request)));
                    let check = CheckRate { name: name_of, rule: rule(part), cost, request };
                    // Without the index stage, in which a ban would wait for a second write.
                    Answer::Checked(engine.store(&check, deadline()).await?)
                }
                Ask::Reset => Answer::Reset(
                    engine.submit(&ResetRate { name: name_of }, deadline()).await?.outcome,
                ),
                Ask::Ban(length) => {
                    let (duration, memory) = (Millis(length), Millis(1));
                    let (reason, actor) = (Vec::new(), Vec::new());
                    let ban = BanKey { name: name_of, duration, memory, reason, actor };
                    Answer::Banned(engine.store(&ban, deadline()).await?)
                }
                Ask::Get => {
                    let get = GetKey { name: name_of, rule: Some(rule(part)) };
                    Answer::Got(engine.submit(&get, deadline()).await?.outcome)
                }
                Ask::Unban => {
                    let unban = UnbanKey { name: name_of, actor: Vec::new() };
                    Answer::Unbanned(engine.submit(&unban, deadline()).await?.outcome)
                }
            })
        })
    }

    fn check(&mut self, ask: &Ask, answer: &Answer, now: u64) -> Checked {
        match (ask, answer) {
            (Ask::Check { cost, request }, Answer::Checked(answer)) => {
                self.checked((*cost, *request), answer, now)
            }
            (Ask::Ban(length), Answer::Banned(ban)) => {
                self.banned_until = now + length * 1000;
                holds(ban.until.0 == self.banned_until, "the ban has the requested length")
            }
            (Ask::Reset, Answer::Reset(_)) => {
                self.passed.clear();
                self.refused = None;
                Ok(())
            }
            (Ask::Unban, Answer::Unbanned(was_banned)) => {
                let is_banned = now < self.banned_until;
                self.passed.clear();
                (self.refused, self.banned_until) = (None, 0);
                holds(*was_banned == is_banned, "the answer has the former state of the ban")
            }
            (Ask::Get, Answer::Got(state)) => self.got(state, now),
            _ => Err("the answer belongs to the call"),
        }
    }

    fn is_change(answer: &Answer) -> bool {
        matches!(answer, Answer::Banned(_))
    }
}
