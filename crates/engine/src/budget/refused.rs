//! The calls that the limits of a namespace refused, for the metrics, the log and the console.

use std::{collections::HashMap, sync::atomic::Ordering};

use super::{NamespaceBudget, NamespaceUse, ReachedLimit, refused_calls::KEYS};
use tollgate_core::{error::Error, names::Namespace, time::Millis};

/// Maximum number of namespaces in a log line.
const LOGGED_MAX: usize = 10;

/// The calls that one limit of a namespace refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedByLimit {
    /// The namespace; empty for the default namespace, `other` for those without series.
    pub namespace: String,
    /// The configuration key of the limit.
    pub limit: &'static str,
    /// The number of calls.
    pub count: u64,
}

impl NamespaceUse {
    /// Returns the error for a limit that is reached, and counts the refusal.
    pub fn exceeded(&self, limit: &'static str, value: impl Into<u64>, retry: Millis) -> Error {
        let value = value.into();
        let error = Error::NamespaceLimit { limit, value, retry };
        self.note_refusal(&error);
        error
    }

    /// Counts a refusal with [`Error::NamespaceLimit`].
    pub fn note_refusal(&self, error: &Error) {
        if let Error::NamespaceLimit { limit, .. } = error {
            ReachedLimit::Namespace.record();
            self.counts.refused.add(limit);
        }
    }
}

impl NamespaceBudget {
    /// Returns the refusals of each limit that has refused a call.
    pub fn refused(&self) -> Vec<RefusedByLimit> {
        let (mut all, mut other) = (Vec::new(), [0; KEYS.len()]);
        for (prefix, used) in self.used() {
            let refused = &used.counts.refused;
            for (index, limit) in KEYS.into_iter().enumerate() {
                let count = refused.counts[index].load(Ordering::Relaxed);
                if count > 0 && refused.has_series() {
                    let name = String::from_utf8_lossy(Namespace::split(&prefix).0);
                    all.push(RefusedByLimit { namespace: name.into_owned(), limit, count });
                } else {
                    other[index] += count;
                }
            }
        }
        let other = KEYS.into_iter().zip(other).filter(|(_, count)| *count > 0);
        let named = |(limit, count)| RefusedByLimit { namespace: "other".to_owned(), limit, count };
        all.extend(other.map(named));
        all.sort_by(|one, next| (&one.namespace, one.limit).cmp(&(&next.namespace, next.limit)));
        all
    }

    /// Returns `NAMESPACE=COUNT` for the namespaces that have refused the most calls since `told`,
    /// and updates `told`. Returns `None` if no call was refused.
    pub(super) fn refused_line(&self, told: &mut HashMap<String, u64>) -> Option<String> {
        let mut sums: HashMap<String, u64> = HashMap::new();
        for RefusedByLimit { namespace, count, .. } in self.refused() {
            let name = if namespace.is_empty() { "default".to_owned() } else { namespace };
            *sums.entry(name).or_default() += count;
        }
        let newer = sums.iter().map(|(name, sum)| {
            (name, sum.saturating_sub(told.get(name).copied().unwrap_or_default()))
        });
        let mut newer: Vec<_> = newer.filter(|(_, count)| *count > 0).collect();
        newer.sort_by(|(one, larger), (next, smaller)| smaller.cmp(larger).then(one.cmp(next)));
        let shown = newer.iter().take(LOGGED_MAX).map(|(name, count)| format!("{name}={count}"));
        let mut line = shown.collect::<Vec<_>>();
        let rest: u64 = newer.iter().skip(LOGGED_MAX).map(|(_, count)| count).sum();
        if rest > 0 {
            line.push(format!("others={rest}"));
        }
        *told = sums;
        (!line.is_empty()).then(|| line.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{NamespaceLimits, NamespaceRule};

    #[test]
    fn j29_refusals_are_counted_by_namespace_and_limit() {
        let budget = NamespaceBudget::default();
        let limits = NamespaceLimits { waiting_max: Some(0), ..NamespaceLimits::default() };
        budget.set(&[NamespaceRule { pattern: "*".to_owned(), limits }], 1).unwrap();
        let mut told = HashMap::new();
        assert!(budget.refused_line(&mut told).is_none());
        for prefix in [&b"acme\x1e"[..], b"acme\x1e", b""] {
            assert!(budget.of(prefix).unwrap().waiting().is_err());
        }
        let refused = |namespace: &str, count| {
            let (namespace, limit) = (namespace.to_owned(), "waiting_max");
            RefusedByLimit { namespace, limit, count }
        };
        assert_eq!(budget.refused(), [refused("", 1), refused("acme", 2)]);
        assert_eq!(budget.refused_line(&mut told).unwrap(), "acme=2 default=1");
        assert!(budget.refused_line(&mut told).is_none());
        for number in 0..12 {
            let prefix = format!("tenant-{number:02}\x1e");
            assert!(budget.of(prefix.as_bytes()).unwrap().waiting().is_err());
        }
        let line = budget.refused_line(&mut told).unwrap();
        assert!(line.starts_with("tenant-00=1 ") && line.ends_with(" others=2"), "{line}");
    }
}
