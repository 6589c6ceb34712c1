//! Pools and leases of `AdmissionService` in plain types.

use super::{CallError, Client, answered, convert, pb, request};
use crate::time::Timestamp;

/// A pool as it stood when it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolStanding {
    /// Its name.
    pub name: String,
    /// Its slots.
    pub capacity: u32,
    /// Slots held.
    pub in_use: u32,
    /// Whether nobody is admitted.
    pub paused: bool,
    /// When the longest-held lease was granted.
    pub oldest_grant: Option<Timestamp>,
    /// Tasks queued.
    pub queued: u64,
    /// Calls that wait.
    pub waiters: u32,
    /// AdmitTask calls that this server answered FULL.
    pub refused: u64,
    /// Whether its stored values can be read; if not, all but the name is unknown.
    pub readable: bool,
}

impl Client {
    /// A page of at most `size` pools after the page that ended with `token`, which is
    /// empty for the first, and the next page's token, which is empty after the last.
    pub async fn list_pools(
        &self,
        size: u32,
        token: &str,
    ) -> Result<(Vec<PoolStanding>, String), CallError> {
        let message = pb::ListPoolsRequest { page_size: Some(size), page_token: token.to_owned() };
        let page = answered(self.admission.clone().list_pools(request(message))).await?;
        let pools = page.pools.into_iter().map(standing).collect::<Result<_, _>>()?;
        Ok((pools, page.next_page_token))
    }

    /// How a pool stands.
    pub async fn get_pool(&self, pool: &str) -> Result<PoolStanding, CallError> {
        let message = pb::GetPoolRequest { pool: pool.to_owned() };
        let answer = answered(self.admission.clone().get_pool(request(message))).await?;
        standing(answer.pool.ok_or_else(|| CallError::malformed("pool"))?)
    }

    /// The tokens of a page of leases that hold a slot of the pool; pages as those of
    /// [`list_pools`](Client::list_pools).
    pub async fn list_leases(
        &self,
        pool: &str,
        token: &str,
    ) -> Result<(Vec<u64>, String), CallError> {
        let message = pb::ListLeasesRequest {
            pool: pool.to_owned(),
            page_size: Some(1000),
            page_token: token.to_owned(),
        };
        let page = answered(self.admission.clone().list_leases(request(message))).await?;
        let tokens = page.leases.into_iter().map(|lease| lease.fencing_token);
        Ok((tokens.collect(), page.next_page_token))
    }
}

fn standing(pool: pb::Pool) -> Result<PoolStanding, CallError> {
    let oldest_grant = pool.oldest_grant_time.map(|time| convert::timestamp(Some(time)));
    let usage = pool.usage.unwrap_or_default();
    Ok(PoolStanding {
        name: pool.pool,
        capacity: usage.capacity,
        in_use: usage.in_use,
        paused: pool.config.as_ref().is_some_and(|config| config.paused),
        oldest_grant: oldest_grant.transpose()?,
        queued: pool.queued,
        waiters: pool.waiters,
        refused: pool.refused,
        readable: pool.config.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_cannot_be_read_has_a_name_only() {
        let pool = pb::Pool { pool: "p".to_owned(), ..pb::Pool::default() };
        let read = standing(pool).expect("well-formed");
        assert_eq!((&*read.name, read.readable), ("p", false));
    }
}
