//! Pools and leases of `AdmissionService` in plain types.

use super::{CallError, Client, answered, convert, pb, request};
use crate::decision::time::Timestamp;

/// The state of a pool at the time of the call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolStanding {
    /// Name of the pool.
    pub name: String,
    /// Number of slots.
    pub capacity: u32,
    /// Number of slots in use.
    pub in_use: u32,
    /// Whether the pool is paused.
    pub paused: bool,
    /// Grant time of the oldest lease.
    pub oldest_grant: Option<Timestamp>,
    /// Number of queued tasks.
    pub queued: u64,
    /// Number of waiting calls.
    pub waiters: u32,
    /// Number of AdmitTask calls that this server answered FULL.
    pub refused: u64,
    /// Whether the stored values can be read. If not, only the name is valid.
    pub readable: bool,
}

impl Client {
    /// Lists a page of at most `size` pools, and the token of the next page. An empty `token`
    /// starts at the first page; an empty token is returned with the last.
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

    /// Returns the state of a pool.
    pub async fn get_pool(&self, pool: &str) -> Result<PoolStanding, CallError> {
        let message = pb::GetPoolRequest { pool: pool.to_owned() };
        let answer = answered(self.admission.clone().get_pool(request(message))).await?;
        standing(answer.pool.ok_or_else(|| CallError::malformed("pool"))?)
    }

    /// Lists the fencing tokens of a page of leases. Page tokens work as in
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
