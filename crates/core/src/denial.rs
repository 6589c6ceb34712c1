//! The denial cache: refusals that a server may repeat without asking the store.
//!
//! A *denial* is the cached part of a refusal. It is valid until the earliest time at which,
//! according to the refusal itself, the answer could change. The cache time is a further limit,
//! because other servers can change the store at any moment. Since only refusals are cached, a
//! stale one can at worst delay a grant by the cache time.

use std::{any::Any, fmt};

use crate::{
    Decision,
    time::{Millis, Timestamp},
};

/// Default maximum age of a cached refusal (`denial_cache`).
pub const DENIAL_CACHE: Millis = Millis(50);
/// The largest configurable maximum age.
pub const DENIAL_CACHE_MAX: Millis = Millis::from_secs(10);

/// A decision whose refusals may be cached.
pub trait RefusalCaching: Decision {
    /// The cached part of a refusal.
    type Denial: Send + 'static;

    /// Distinguishes cached refusals within one partition. `None`: only the store can answer this
    /// call.
    fn kind(&self) -> Option<u64>;
    /// Returns the member that asks, such as a task. A member that already holds a lease gets it
    /// again from the store, so the cache must not refuse it.
    fn member(&self) -> Option<Vec<u8>> {
        None
    }
    /// Returns the refusal to cache and its validity in µs, counted from when the call was sent.
    /// `None` for an outcome that grants something or that changed the store.
    fn denial(&self, outcome: &Self::Outcome) -> Option<(Self::Denial, u64)>;
    /// Returns the refusal as it reads `passed` µs after the original call; `None` if it does not
    /// apply to this call. `now` is used only to spread `retry_after`.
    fn deny(&self, denial: &Self::Denial, passed: u64, now: Timestamp) -> Option<Self::Outcome>;
}

/// The functions of [`RefusalCaching`] with the type of the denial erased, so that the table of any
/// verb can contain them.
pub struct CacheRule<D: Decision> {
    /// [`RefusalCaching::kind`].
    pub kind: fn(&D) -> Option<u64>,
    /// [`RefusalCaching::member`].
    pub member: fn(&D) -> Option<Vec<u8>>,
    /// [`RefusalCaching::denial`].
    #[allow(clippy::type_complexity, reason = "the signature of the method that it stands for")]
    pub denial: fn(&D, &D::Outcome) -> Option<(CachedDenial, u64)>,
    /// [`RefusalCaching::deny`].
    pub deny: fn(&D, &CachedDenial, u64, Timestamp) -> Option<D::Outcome>,
}

/// A denial of any verb. Boxed, so that entries of the cache have the same size for all verbs; the
/// allocation is negligible next to the round trip of the refusal.
pub type CachedDenial = Box<dyn Any + Send>;

impl<D: RefusalCaching> CacheRule<D> {
    /// Returns the functions of a verb.
    pub(crate) const fn for_verb() -> CacheRule<D> {
        CacheRule {
            kind: D::kind,
            member: D::member,
            denial: |decision, outcome| {
                let (denial, micros) = decision.denial(outcome)?;
                Some((Box::new(denial), micros))
            },
            deny: |decision, denial, passed, now| {
                decision.deny((**denial).downcast_ref()?, passed, now)
            },
        }
    }
}

impl<D: Decision> fmt::Debug for CacheRule<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheRule").finish_non_exhaustive()
    }
}

/// A decision that may invalidate cached refusals of its partition.
pub trait AffectsDenials: Decision {
    /// Returns the effect on the cached refusals. `outcome` is `None` if the fate of the decision
    /// is unknown: it may have been executed.
    fn effect(&self, outcome: Option<&Self::Outcome>) -> Effect;
}

/// The effect of a decision on the cached refusals of its partition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Effect {
    /// Whether cached refusals may no longer be true, because the decision freed capacity.
    pub frees: bool,
    /// The member that holds a lease from now on, and the longest time it can hold it. Cached
    /// refusals do not apply to this member.
    pub holds: Option<(Vec<u8>, Millis)>,
    /// Grace added to a holder's lease, as stored (`expiry_grace`).
    pub keeps: Option<Millis>,
}

impl Effect {
    /// Invalidates the cached refusals if `frees`; otherwise has no effect.
    pub fn frees(frees: bool) -> Effect {
        Effect { frees, ..Effect::default() }
    }
}
