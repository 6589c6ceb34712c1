//! Maximum numbers that the callers of a server share.
//!
//! A caller may use at most as many as remain free for others, so never more than half. On a server
//! without callers all visitors have the same rights, and there are no quotas.

use std::{collections::HashMap, fmt, sync::Arc};

use parking_lot::Mutex;

/// The name of a caller; `None` on a server without callers, and for the server itself.
pub(super) type Holder = Option<Arc<str>>;

/// A maximum number, and how many of them each caller uses.
#[derive(Debug)]
pub(super) struct Quota {
    max: usize,
    /// What is counted, in the plural.
    what: &'static str,
    held: Arc<Mutex<HeldByCaller>>,
}

type HeldByCaller = HashMap<Holder, usize>;

/// Counts as one against the maximum until it is dropped.
#[derive(Debug)]
pub(super) struct Permit {
    holder: Holder,
    held: Arc<Mutex<HeldByCaller>>,
}

/// Why a caller gets no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuotaReached {
    /// The maximum is reached.
    Exhausted { max: usize, what: &'static str },
    /// The caller uses as many as are free.
    ByOneCaller { own: usize, max: usize, what: &'static str },
}

impl Quota {
    /// Creates a quota with this maximum. `what` names the counted things in messages, in the
    /// plural.
    pub(super) fn new(max: usize, what: &'static str) -> Quota {
        Quota { max, what, held: Arc::default() }
    }

    /// Acquires a permit. Fails if none is free, or if the caller already uses as many as are free.
    pub(super) fn acquire(&self, holder: &Holder) -> Result<Permit, QuotaReached> {
        let Quota { max, what, .. } = *self;
        let mut held = self.held.lock();
        let free = max.saturating_sub(held.values().sum());
        let own = held.get(holder).copied().unwrap_or_default();
        if free == 0 {
            return Err(QuotaReached::Exhausted { max, what });
        }
        if holder.is_some() && own >= free {
            return Err(QuotaReached::ByOneCaller { own, max, what });
        }
        held.insert(holder.clone(), own + 1);
        Ok(Permit { holder: holder.clone(), held: self.held.clone() })
    }
}

impl Permit {
    /// Whether the permit belongs to a caller.
    pub(super) fn is_of(&self, holder: &Holder) -> bool {
        self.holder == *holder
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.held.lock();
        match held.get_mut(&self.holder) {
            Some(own) if *own > 1 => *own -= 1,
            _ => drop(held.remove(&self.holder)),
        }
    }
}

impl fmt::Display for QuotaReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuotaReached::Exhausted { max, what } => {
                write!(f, "this server has reached its maximum of {max} {what}")
            }
            QuotaReached::ByOneCaller { own, max, what } => {
                write!(f, "this caller has {own} of at most {max} {what} open, as many as are free")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acquire_all(quota: &Quota, holder: &Holder) -> Vec<Permit> {
        std::iter::from_fn(|| quota.acquire(holder).ok()).collect()
    }

    #[test]
    fn a_caller_holds_at_most_as_many_as_are_free() {
        let quota = Quota::new(12, "pages");
        let [greedy, other] = ["greedy", "other"].map(|name| Some(Arc::from(name)));
        let mut held = acquire_all(&quota, &greedy);
        assert_eq!(held.len(), 6);
        let refused = quota.acquire(&greedy).unwrap_err();
        assert_eq!(refused, QuotaReached::ByOneCaller { own: 6, max: 12, what: "pages" });
        let text = "this caller has 6 of at most 12 pages open, as many as are free";
        assert_eq!(refused.to_string(), text);
        let others = acquire_all(&quota, &other);
        assert_eq!(others.len(), 3);
        // What the caller returns is free for either.
        held.truncate(2);
        assert_eq!(acquire_all(&quota, &greedy).len(), 3);
        drop((held, others));
        assert!(quota.held.lock().is_empty());
    }

    #[test]
    fn without_callers_every_visitor_can_hold_all() {
        let quota = Quota::new(5, "pages");
        let held = acquire_all(&quota, &None);
        assert_eq!(held.len(), 5);
        let refused = quota.acquire(&None).unwrap_err();
        assert_eq!(refused.to_string(), "this server has reached its maximum of 5 pages");
        assert_eq!(refused, quota.acquire(&Some("a".into())).unwrap_err());
    }
}
