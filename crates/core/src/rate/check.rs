//! `CheckRate`: counts a call of a key and decides whether it may pass.

mod denial;
mod evaluation;

use std::sync::Arc;

pub use denial::RefusedKey;
use evaluation::{Evaluated, Evaluation};

use super::{
    Algorithm, Answer, Ban, BanEntry, LimitUse, Meter, MeterName, NAMES_MAX, REPLAY, RateEvent,
    RateEventKind, Rule, TEXT_BYTES_MAX, Verdict, ban_record::BanRecord, meter::LIMIT_BYTES,
};
use crate::{
    Call, Decision, ENTRY_BYTES, Outcomes, PlainForm, Properties, Reply,
    error::Error,
    names::Name,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
};

// The status of a refusal without a verdict.
statuses! { CHECK_TOO_MANY_NAMES = 4 }
// Flags of a reply.
statuses! { CHECK_CROSSED = 1, CHECK_REPLAYED = 2, CHECK_BAN_FOLLOWS = 4 }

/// Checks one call of a key against a rule.
///
/// The decision, in this order:
/// 1. With a `request` that was answered before, the first answer is returned again. A stored
///    refusal is returned only while the same call would still be refused.
/// 2. A ban in force answers `Ban`.
/// 3. A count that reaches a BAN tier bans the key.
/// 4. If any limit has no room, the answer is `Throttle` and the call spends nothing. Exception: if
///    a stricter tier follows, the first limit counts the call, so that the key can reach that
///    tier.
/// 5. Otherwise all limits count the call, and the answer is `Allow`, or `Warn` above a WARN tier.
///
/// Before step 2, a call whose rule would give the key usage under more than [`NAMES_MAX`] limit
/// names is refused with `TooManyNames`. Nothing is counted.
///
/// Without a `request` a repeat counts again, unless the cost is 0, so the engine sends the call
/// only once. A refusal of steps 2 to 4 that changed nothing is not stored for repeats.
#[derive(Debug, Clone)]
pub struct CheckRate {
    /// The policy and the key.
    pub name: MeterName,
    /// The rule. For a policy it is shared by all calls.
    pub rule: Arc<Rule>,
    /// The cost: 0 to 1,000,000,000. With 0 the answer is the same as for a call of cost 1, and
    /// nothing changes.
    pub cost: u32,
    /// The request id, which makes repeats safe for 5 minutes.
    pub request: Option<Name>,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckOutcome {
    /// The call was evaluated.
    Decided {
        /// The answer.
        answer: Answer,
        /// Whether an earlier call with this request id got the answer.
        replayed: bool,
    },
    /// The key has usage under too many limit names: [`NAMES_MAX`], counting the names of this
    /// rule.
    TooManyNames,
}

impl CheckRate {
    /// Whether the check counts nothing.
    fn is_peek(&self) -> bool {
        self.cost == 0
    }

    /// Whether the same call would be refused now.
    fn is_refused(&self, meter: &Meter, now: Timestamp) -> bool {
        let evaluated = Evaluation::new(self, true, meter, now).evaluate(meter.ban(now));
        !evaluated.verdict.is_allowed()
    }

    /// Returns the event of a call that crossed a tier or set a ban.
    fn event(
        &self,
        verdict: Verdict,
        reached: Option<(u32, u64)>,
        ban: Option<&BanRecord>,
        now: Timestamp,
    ) -> RateEvent {
        let kind = match verdict {
            Verdict::Allow | Verdict::Warn => RateEventKind::Warned,
            Verdict::Throttle => RateEventKind::Throttled,
            Verdict::Ban => RateEventKind::Banned,
        };
        let (above, count) = reached.map_or((None, 0), |(above, count)| (Some(above), count));
        let event = RateEvent { above, count, ..RateEvent::new(kind, self.name.key(), now) };
        match ban {
            Some(ban) => event.of_ban(ban),
            None => event,
        }
    }

    /// Evaluates the check and stores the result. Writes nothing if the evaluation changed nothing: a
    /// check of cost 0, or a call that a limit refuses without counting it.
    fn answer(&self, meter: &mut Meter, now: Timestamp) -> Answer {
        let mut evaluation = Evaluation::new(self, self.is_peek(), meter, now);
        let Evaluated { verdict, crossed, wait, ban, banned, reached } =
            evaluation.evaluate(meter.ban(now));
        if self.name.has_events() && (banned || crossed) {
            meter.event = Some(Box::new(self.event(verdict, reached, ban.as_ref(), now)));
        }
        let limits = LimitUse::of_rule(&self.rule, &evaluation.usages, now);
        let answer = Answer {
            verdict,
            crossed,
            retry_after: (wait > 0).then(|| Millis(wait.div_ceil(1000))),
            ban: ban.clone().map(Ban::from),
            limits,
        };
        // Only answers that changed something must be repeated.
        if let Some(request) = self.request.as_ref().filter(|_| evaluation.changed || banned) {
            // A refusal is not repeated once the same call would pass.
            let keep = if wait > 0 { REPLAY.micros().min(wait) } else { REPLAY.micros() };
            let forget = Timestamp(now.0 + keep);
            meter.replays.insert(request.as_bytes(), answer.clone(), forget, now);
        }
        if evaluation.changed {
            meter.store(&self.rule, evaluation.usages, evaluation.notices, now);
        }
        if banned {
            meter.ban = ban.map(Box::new);
        }
        answer
    }
}

impl Decision for CheckRate {
    type State = Meter;
    type Outcome = CheckOutcome;

    const SCRIPT: &'static Script = &script::rate::CHECK;
    const PROPERTIES: Properties<CheckRate> = Properties::<Self> {
        is_repeatable: |check| check.is_peek() || check.request.is_some(),
        cost: |check| check.rule.cost(),
        creates: |check| !check.is_peek(),
        adds: |check| {
            let answer = check.rule.limits.len() as u64 * LIMIT_BYTES + 2 * TEXT_BYTES_MAX as u64;
            let text = |request: &Name| ENTRY_BYTES + request.as_bytes().len() as u64 + answer;
            check.request.as_ref().filter(|_| !check.is_peek()).map_or(0, text)
        },
        outcomes: Outcomes::new(
            &["allow", "warn", "throttle", "ban", "too_many_names"],
            |outcome| match outcome {
                CheckOutcome::Decided { answer, .. } => match answer.verdict {
                    Verdict::Allow => 0,
                    Verdict::Warn => 1,
                    Verdict::Throttle => 2,
                    Verdict::Ban => 3,
                },
                CheckOutcome::TooManyNames => 4,
            },
        ),
        fallback: Some(CheckRate::FALLBACK),
        ban: Some(CheckRate::entry),
        plain: Some(PlainForm {
            script: CheckRate::plain_script,
            encode: CheckRate::encode_plain,
            cost: |check| check.rule.plain_cost(),
        }),
        ..Properties::DEFAULT
    }
    .caches_refusals()
    .affects_denials();

    fn partition(&self) -> &[u8] {
        self.name.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        let request = self.request.as_ref().map_or(&[][..], Name::as_bytes);
        self.name.push_key(call, b"usage");
        self.name.push_key(call, b"ban");
        self.name.push_replay_key(call, request);
        call.key(&[b"events"]);
        let [limits, tiers] = &self.rule.packed;
        call.bytes(&[limits]);
        call.bytes(&[tiers]);
        call.number(self.rule.ban_memory.micros());
        call.number(self.cost.into());
        call.number(if request.is_empty() { 0 } else { REPLAY.micros() });
        self.name.push_subject(call);
    }

    fn parse(reply: &mut Reply) -> Result<CheckOutcome, Error> {
        let verdict = match reply.number()? {
            CHECK_TOO_MANY_NAMES => return Ok(CheckOutcome::TooManyNames),
            status => Verdict::parse(status)?,
        };
        let (flags, retry) = (reply.number()?, reply.number()?);
        let ban = if flags & CHECK_BAN_FOLLOWS != 0 { Some(Ban::parse(reply)?) } else { None };
        let limits = LimitUse::parse_all(reply)?;
        let retry_after = (retry > 0).then_some(Millis(retry));
        let answer =
            Answer { verdict, crossed: flags & CHECK_CROSSED != 0, retry_after, ban, limits };
        Ok(CheckOutcome::Decided { answer, replayed: flags & CHECK_REPLAYED != 0 })
    }

    fn decide(&self, meter: &mut Meter, now: Timestamp) -> CheckOutcome {
        let request = self.request.as_ref().filter(|_| !self.is_peek()).map(Name::as_bytes);
        let replay = request.and_then(|request| meter.replays.get(request, now)).cloned();
        if let Some(answer) = replay.clone().filter(Answer::is_allowed) {
            return CheckOutcome::Decided { answer, replayed: true };
        }
        // Bounds the memory of a key whose callers keep inventing limit names.
        if meter.others(&self.rule, now) + self.rule.limits.len() > NAMES_MAX {
            return CheckOutcome::TooManyNames;
        }
        // Evaluate a stored refusal again, so that a reset, a lifted ban or a raised limit takes
        // effect immediately.
        if let Some(answer) = replay.filter(|_| self.is_refused(meter, now)) {
            return CheckOutcome::Decided { answer, replayed: true };
        }
        CheckOutcome::Decided { answer: self.answer(meter, now), replayed: false }
    }
}

impl CheckRate {
    /// Returns the script of the plain form, which has one limit, no tiers and no request id.
    pub(super) fn plain_script(&self) -> Option<&'static Script> {
        let [limit] = &self.rule.limits[..] else { return None };
        if !self.rule.tiers.is_empty() || (self.request.is_some() && !self.is_peek()) {
            return None;
        }
        match limit.algorithm {
            Algorithm::FixedWindow | Algorithm::CalendarWindow => Some(&script::rate::CHECK_WINDOW),
            Algorithm::SlidingWindow => Some(&script::rate::CHECK_SLIDING),
            Algorithm::TokenBucket => limit.has_exact_debt().then_some(&script::rate::CHECK_BUCKET),
        }
    }

    /// Appends KEYS and ARGV of the plain form.
    pub(super) fn encode_plain(&self, call: &mut Call) {
        self.name.push_key(call, b"usage");
        self.name.push_key(call, b"ban");
        call.bytes(&[&self.rule.packed[0]]);
        call.bytes(&[&self.cost.to_le_bytes()]);
    }

    /// Returns the ban that refused the call, so that further calls of a banned key restore a lost
    /// entry.
    pub(super) fn entry(&self, outcome: &CheckOutcome) -> Option<BanEntry> {
        let CheckOutcome::Decided { answer, .. } = outcome else { return None };
        let until = answer.ban.as_ref()?.until;
        Some(BanEntry { name: self.name.clone(), until })
    }
}
