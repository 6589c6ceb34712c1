//! The shares of the namespaces in the calls of a thread.
//!
//! In a long queue, the calls of a namespace overtake the others while the namespace uses at most
//! half of its fair share. The fair share is the number of calls of the previous interval, divided
//! by the number of namespaces that called. So one namespace cannot delay the few calls of another
//! one. Calls that overtake use at most half of the thread.

use tollgate_core::names::Namespace;

/// The maximum number of namespaces that are counted. Calls of further ones overtake no others.
const NAMESPACES_MAX: usize = 64;

/// The shares of the current and the previous interval.
#[derive(Debug)]
pub(super) struct Shares {
    /// The namespaces that called in one of the two intervals.
    counts: Vec<Count>,
    /// The calls of the previous interval.
    total: u64,
    /// The end of the current interval, in µs.
    end: u64,
}

/// The calls of a namespace.
#[derive(Debug)]
struct Count {
    namespace: Namespace,
    /// In the current interval.
    current: u64,
    /// In the previous interval.
    previous: u64,
}

impl Shares {
    pub(super) const fn new() -> Shares {
        Shares { counts: Vec::new(), total: 0, end: 0 }
    }

    /// Counts a call that arrives `now`. Returns whether it may overtake.
    pub(super) fn count(&mut self, namespace: &Namespace, now: u64) -> bool {
        if now >= self.end {
            self.begin(now);
        }
        let namespaces = self.counts.len() as u64;
        if let Some(count) = self.counts.iter_mut().find(|count| count.namespace == *namespace) {
            count.current += 1;
            let used = count.current.max(count.previous);
            return namespaces > 1 && used * namespaces * 2 <= self.total;
        }
        if self.counts.len() < NAMESPACES_MAX {
            self.counts.push(Count { namespace: namespace.clone(), current: 1, previous: 0 });
        }
        false
    }

    /// Whether several namespaces called in the last two intervals.
    pub(super) fn are_several(&self) -> bool {
        self.counts.len() > 1
    }

    /// Begins an interval.
    fn begin(&mut self, now: u64) {
        let is_next = now < self.end + super::INTERVAL;
        for count in &mut self.counts {
            let called = std::mem::take(&mut count.current);
            count.previous = if is_next { called } else { 0 };
        }
        self.counts.retain(|count| count.previous > 0);
        self.total = self.counts.iter().map(|count| count.previous).sum();
        self.end = now + super::INTERVAL;
    }
}

#[cfg(test)]
mod tests {
    use super::{super::INTERVAL, *};

    /// Counts calls of an interval. Returns how many may overtake.
    fn calls(shares: &mut Shares, namespace: usize, number: u64, now: u64) -> usize {
        let namespace = Namespace::parse(format!("team-{namespace}").as_bytes()).unwrap();
        (0..number).filter(|_| shares.count(&namespace, now)).count()
    }

    #[test]
    fn a_namespace_below_half_of_its_share_overtakes() {
        let mut shares = Shares::new();
        let mut now = 10 * INTERVAL;
        assert_eq!(calls(&mut shares, 1, 1000, now), 0, "no other namespace calls");
        for _ in 0..3 {
            now += INTERVAL;
            calls(&mut shares, 2, 10, now);
            assert_eq!(calls(&mut shares, 1, 1000, now), 0, "the flood overtakes nobody");
            assert_eq!(shares.counts.len(), 2);
        }
        assert_eq!(calls(&mut shares, 2, 10, now), 10);
        // Two namespaces and 1,020 calls: up to 255 of an interval.
        now += INTERVAL;
        assert_eq!(calls(&mut shares, 2, 1000, now), 255);
    }

    #[test]
    fn old_counts_and_further_namespaces_overtake_nobody() {
        let mut shares = Shares::new();
        let now = 10 * INTERVAL;
        calls(&mut shares, 1, 1000, now);
        calls(&mut shares, 2, 1, now);
        assert_eq!(calls(&mut shares, 2, 1, now + 2 * INTERVAL), 0);
        for namespace in 0..2 * NAMESPACES_MAX {
            calls(&mut shares, namespace, 1, now + 2 * INTERVAL);
        }
        assert_eq!(shares.counts.len(), NAMESPACES_MAX);
        assert_eq!(calls(&mut shares, NAMESPACES_MAX, 10, now + 3 * INTERVAL), 0);
    }
}
