//! The calls of each tenant of a thread.
//!
//! In a long queue, the calls of a tenant overtake others while the tenant makes at most half of
//! its equal share of the calls. An equal share is the number of calls in the previous interval
//! divided by the number of tenants that called. One tenant therefore cannot delay the few calls of
//! another. Calls that overtake use at most half of the thread.

/// The maximum number of tenants that are counted. Calls of further tenants do not overtake others.
const TENANTS_MAX: usize = 64;

/// The calls of each tenant in the current and the previous interval.
#[derive(Debug)]
pub(super) struct TenantCalls {
    /// The tenants that called in one of the two intervals.
    counts: Vec<Count>,
    /// The calls of the previous interval.
    total: u64,
    /// The end of the current interval, in µs.
    end: u64,
}

/// The calls of a tenant.
#[derive(Debug)]
struct Count {
    tenant: Box<[u8]>,
    /// In the current interval.
    current: u64,
    /// In the previous interval.
    previous: u64,
}

impl TenantCalls {
    pub(super) const fn new() -> TenantCalls {
        TenantCalls { counts: Vec::new(), total: 0, end: 0 }
    }

    /// Counts a call that arrives `now`. Returns whether it may overtake.
    pub(super) fn count(&mut self, tenant: &[u8], now: u64) -> bool {
        if now >= self.end {
            self.begin(now);
        }
        let tenants = self.counts.len() as u64;
        if let Some(count) = self.counts.iter_mut().find(|count| *count.tenant == *tenant) {
            count.current += 1;
            let used = count.current.max(count.previous);
            return tenants > 1 && used * tenants * 2 <= self.total;
        }
        if self.counts.len() < TENANTS_MAX {
            self.counts.push(Count { tenant: tenant.into(), current: 1, previous: 0 });
        }
        false
    }

    /// Whether several tenants called in the last two intervals.
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
    fn calls(all: &mut TenantCalls, tenant: usize, number: u64, now: u64) -> usize {
        let tenant = format!("team-{tenant}");
        (0..number).filter(|_| all.count(tenant.as_bytes(), now)).count()
    }

    #[test]
    fn a_tenant_below_half_of_its_equal_share_overtakes() {
        let mut all = TenantCalls::new();
        let mut now = 10 * INTERVAL;
        assert_eq!(calls(&mut all, 1, 1000, now), 0, "no other tenant calls");
        for _ in 0..3 {
            now += INTERVAL;
            calls(&mut all, 2, 10, now);
            assert_eq!(calls(&mut all, 1, 1000, now), 0, "the flood overtakes nobody");
            assert_eq!(all.counts.len(), 2);
        }
        assert_eq!(calls(&mut all, 2, 10, now), 10);
        // Two tenants and 1,020 calls: up to 255 calls per interval may overtake.
        now += INTERVAL;
        assert_eq!(calls(&mut all, 2, 1000, now), 255);
    }

    #[test]
    fn tenants_with_old_counts_and_further_tenants_overtake_nobody() {
        let mut all = TenantCalls::new();
        let now = 10 * INTERVAL;
        calls(&mut all, 1, 1000, now);
        calls(&mut all, 2, 1, now);
        assert_eq!(calls(&mut all, 2, 1, now + 2 * INTERVAL), 0);
        for tenant in 0..2 * TENANTS_MAX {
            calls(&mut all, tenant, 1, now + 2 * INTERVAL);
        }
        assert_eq!(all.counts.len(), TENANTS_MAX);
        assert_eq!(calls(&mut all, TENANTS_MAX, 10, now + 3 * INTERVAL), 0);
    }
}
