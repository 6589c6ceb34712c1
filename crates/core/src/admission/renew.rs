//! `RenewTask`: extends the lease of a task.

use super::{
    EventKind, Lease, Pool, Settings, TaskName, TaskState, packed_duration, packed_token,
    pool::NEVER, push_plain, push_pool_keys, settings::AfterFailover, task::ends, unknown_status,
};
use crate::{
    AsOf, Call, Cost, Decision, Ends, Listing, Outcomes, PlainForm, Properties, Reply, Revocable,
    Undo, UndoRule,
    acknowledgement::Acknowledgement,
    denial::{AffectsDenials, Effect},
    error::Error,
    fallback::FallbackRule,
    script::{self, Script},
    statuses,
    time::{Millis, Timestamp},
};

statuses! {
    RENEW_RENEWED = 0, RENEW_EXPIRED = 1, RENEW_COMPLETED = 2, RENEW_STALE_TOKEN = 3,
    RENEW_UNKNOWN = 4,
}

/// Requests more time for a task.
///
/// The lease keeps its token and runs for the given length from now, so a renewal can also shorten
/// it. A lease within its grace is revived: its slot was held all the time. The answer is `Expired`
/// after the grace or an eviction, `Completed` after a result, and `StaleToken` or `Unknown` as for
/// CompleteTask. Refusals change nothing. A repeat extends the lease again, which is safe.
///
/// A renewal needs no free slot, so it also succeeds in a paused or full pool.
/// On Redis, a pool on hold after a failover registers lost leases again (`lua/lib/re_register.lua`).
#[derive(Debug, Clone)]
pub struct RenewTask {
    /// The task.
    pub name: TaskName,
    /// The fencing token of the lease; `None` skips the comparison.
    pub token: Option<u64>,
    /// Length of the lease from now, [`LEASE_MIN`](super::LEASE_MIN) to
    /// [`LEASE_MAX`](super::LEASE_MAX); `None` for the pool's setting.
    pub lease_duration: Option<Millis>,
    /// The pool's configured settings.
    pub settings: Settings,
}

/// The verdict on a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewVerdict {
    /// The task has a result, or its attempt has failed.
    Completed,
    /// The lease has ended with its grace, or it was evicted.
    Expired,
    /// The lease runs until its new expiry, with the same token.
    Renewed(AsOf<Lease>),
    /// The token does not match the task's last lease.
    StaleToken,
    /// The task has no record, or was never admitted.
    Unknown,
}

impl RenewTask {
    /// Returns the length of the lease by the request or the configured settings. A run-time
    /// override can make it different.
    fn length(&self) -> Millis {
        self.lease_duration.unwrap_or(self.settings.lease_duration)
    }

    fn encode_plain(&self, call: &mut Call) {
        let member = self.name.member();
        push_plain(call, &member, &self.settings);
        let token = packed_token(self.token);
        call.bytes(&[&member, &[0], &token, &packed_duration(self.lease_duration)]);
    }
}

impl Decision for RenewTask {
    type State = Pool;
    type Outcome = RenewVerdict;

    const SCRIPT: &'static Script = &script::admission::RENEW;
    const PROPERTIES: Properties<RenewTask> = Properties::<Self> {
        listing: |renew| Listing::Held(Ends::After(renew.length())),
        cost: |_| Cost::from_micros(20),
        outcomes: Outcomes::new(
            &["renewed", "expired", "completed", "stale_token", "unknown"],
            |outcome| match outcome {
                RenewVerdict::Renewed(_) => 0,
                RenewVerdict::Expired => 1,
                RenewVerdict::Completed => 2,
                RenewVerdict::StaleToken => 3,
                RenewVerdict::Unknown => 4,
            },
        ),
        fallback: Some(RenewTask::FALLBACK),
        plain: Some(PlainForm {
            script: |renew| {
                let is_plain = renew.settings.after_failover == AfterFailover::Admit;
                is_plain.then_some(&script::admission::RENEW_PLAIN)
            },
            encode: RenewTask::encode_plain,
            cost: |_| Cost::from_micros(14),
        }),
        ..Properties::FREES_CAPACITY
    }
    .revocable()
    .affects_denials();

    fn partition(&self) -> &[u8] {
        self.name.pool.as_bytes()
    }

    fn encode(&self, call: &mut Call) {
        let member = self.name.member();
        push_pool_keys(call);
        call.key(&[b"task:", &member]);
        self.settings.encode_shared(call);
        self.settings.encode_sighting(call);
        call.bytes(&[&member]);
        call.optional(self.token);
        call.optional(self.lease_duration.map(|duration| duration.0));
    }

    fn parse(reply: &mut Reply) -> Result<RenewVerdict, Error> {
        Ok(match reply.number()? {
            RENEW_RENEWED => RenewVerdict::Renewed(Lease::parse(reply)?.at(reply.now())),
            RENEW_EXPIRED => RenewVerdict::Expired,
            RENEW_COMPLETED => RenewVerdict::Completed,
            RENEW_STALE_TOKEN => RenewVerdict::StaleToken,
            RENEW_UNKNOWN => RenewVerdict::Unknown,
            status => return unknown_status(status),
        })
    }

    fn decide(&self, pool: &mut Pool, now: Timestamp) -> RenewVerdict {
        pool.lapse(now);
        let settings = self.settings.under(&pool.overrides);
        let member = self.name.member();
        let Some(mut task) = pool.task(&member, now).cloned() else {
            return RenewVerdict::Unknown;
        };
        if task.state == TaskState::New {
            return RenewVerdict::Unknown;
        }
        if self.token.is_some_and(|token| token != task.lease.token) {
            return RenewVerdict::StaleToken;
        }
        if matches!(task.state, TaskState::Completed { .. } | TaskState::Failed) {
            return RenewVerdict::Completed;
        }
        if !task.holds_slot(now) {
            return RenewVerdict::Expired;
        }
        task.lease.expire = now.after(self.lease_duration.unwrap_or(settings.lease_duration));
        let (slot_end, forget) = ends(task.lease.expire, settings.expiry_grace, settings.retention);
        task.slot_end = slot_end;
        task.is_disclosed = true;
        // A queued task has no forget time.
        task.forget = if task.queued.is_some() && task.is_open() { NEVER } else { forget };
        let lease = task.lease;
        let member = pool.put(&member, task.clone(), now);
        pool.log_task(EventKind::Renewed, member, &task, None, &settings, now);
        RenewVerdict::Renewed(lease.at(now))
    }
}

impl AffectsDenials for RenewTask {
    fn effect(&self, verdict: Option<&RenewVerdict>) -> Effect {
        // The renewed lease may now expire before all others.
        let length = match verdict {
            Some(RenewVerdict::Renewed(lease)) => lease.grant.until(lease.expire),
            Some(_) => return Effect::default(),
            None => self.length(),
        };
        let length = Millis(length.0 + self.settings.expiry_grace.0);
        Effect { holds: Some((self.name.member().into_vec(), length)), ..Effect::frees(true) }
    }
}

impl Revocable for RenewTask {
    /// A lost renewal would end the lease earlier than its holder expects.
    fn acknowledgement(&self) -> Acknowledgement {
        self.settings.acknowledgement
    }

    /// The renewal stands: the task is running, and its earlier lease may have ended by now.
    fn undo_rule(&self, _: &str) -> UndoRule {
        UndoRule::from_outcome::<RenewTask>(|verdict| match verdict {
            RenewVerdict::Renewed(_) => Undo::Stands,
            _ => Undo::Counts,
        })
    }
}

impl RenewTask {
    /// As for [`CompleteTask`].
    const FALLBACK: FallbackRule<RenewTask> = FallbackRule {
        is_unknown: RenewTask::is_unknown,
        ..FallbackRule::new(
            |renew| renew.settings.on_store_failure,
            |_| None,
            |renew, replicas| RenewTask {
                settings: renew.settings.for_one_of(replicas),
                ..renew.clone()
            },
        )
    };

    /// As for [`CompleteTask`].
    fn is_unknown(verdict: &RenewVerdict) -> bool {
        matches!(verdict, RenewVerdict::Unknown | RenewVerdict::StaleToken)
    }
}
