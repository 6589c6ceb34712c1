//! `envoy.service.ratelimit.v3.RateLimitService`: answers Envoy in place of envoyproxy/ratelimit.
//!
//! Each descriptor is one decision ([`CountHits`]), and all decisions of a request take one round
//! trip to each node of the store. If one of them fails, the call fails, because an answer without
//! some descriptors would let requests pass. With `counting: all_or_nothing` they are a single
//! decision ([`CountAll`]).

mod convert;
mod headers;
pub(crate) mod json;
mod metadata;
mod parse;
#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    deadline,
    envoy_pb::{RateLimitRequest, RateLimitResponse, RateLimitService, RateLimitServiceServer},
    rules::CurrentRules,
    scope::Scope,
    status::{self, from_error},
};
use parse::Planned;
use tollgate_core::{
    envoy::{
        Counting, DescriptorHits, DescriptorRuling, EnvoyRules, EnvoySettings, NOT_FOUND, Ruling,
    },
    error::Error,
    rate::{COUNT_ALL_MAX, CountAll, CountHits, Hits},
};
use tollgate_engine::{Answered, Engine};

/// The rate limit service of an engine.
#[derive(Debug)]
pub struct EnvoyHandlers {
    pub(super) engine: Arc<Engine>,
    rules: Arc<CurrentRules>,
}

impl EnvoyHandlers {
    /// Maximum message size, bytes: 100 descriptors with long values.
    pub(super) const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>, rules: Arc<CurrentRules>) -> EnvoyHandlers {
        EnvoyHandlers { engine, rules }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<EnvoyHandlers>) -> RateLimitServiceServer<EnvoyHandlers> {
        RateLimitServiceServer::from_arc(self)
            .max_decoding_message_size(Self::MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }

    /// Decides on a request in this scope.
    async fn decide(
        &self,
        request: RateLimitRequest,
        scope: Scope,
        deadline: Instant,
    ) -> Result<RateLimitResponse, Status> {
        let rules = self.rules.load().envoy.clone();
        if !rules.is_on {
            return Err(Status::unimplemented(
                "this server has no rules for Envoy: start it with --envoy-config",
            ));
        }
        parse::check(&request)?;
        let Some(domain) = rules.domain(&request.domain) else {
            NOT_FOUND.fetch_add(1, Ordering::Relaxed);
            return Ok(convert::without_domain(&request, &rules));
        };
        let (planned, counts) = parse::plan(&request, &scope, domain, &rules)?;
        let counted = match domain.counting {
            Counting::Each | Counting::Reports => self.count(&counts, deadline).await?,
            Counting::AllOrNothing => {
                // Boxed, so that other calls do not pay for its memory.
                Box::pin(self.count_all(&planned, &counts, &rules.settings, deadline)).await?
            }
        };
        let descriptors = rulings(planned, &counted);
        let ruling = Ruling::from_descriptors(&descriptors, &rules.settings);
        if ruling.is_over {
            tracing::debug!(domain = %domain.name, "over the limit");
        }
        Ok(convert::response(&request, &descriptors, &ruling, &rules.settings))
    }

    /// Counts the hits of all descriptors.
    async fn count(&self, counts: &[CountHits], deadline: Instant) -> Result<Vec<Hits>, Status> {
        let outcomes = match counts {
            [] => return Ok(Vec::new()),
            // The common case skips the batch.
            [count] => vec![self.engine.submit(count, deadline).await],
            counts => self.engine.submit_all(counts, deadline).await.map_err(from_error)?,
        };
        let read = |(count, outcome): (&CountHits, Result<Answered<_>, Error>)| {
            let answered = outcome.map_err(from_error)?;
            count.to_hits(&answered.outcome).ok_or_else(status::too_many_names)
        };
        counts.iter().zip(outcomes).map(read).collect()
    }

    /// Counts the hits of all descriptors, or of none if the request is refused.
    async fn count_all(
        &self,
        planned: &[Planned<'_>],
        counts: &[CountHits],
        settings: &EnvoySettings,
        deadline: Instant,
    ) -> Result<Vec<Hits>, Status> {
        if counts.is_empty() {
            return Ok(Vec::new());
        }
        if counts.len() > COUNT_ALL_MAX {
            return Err(parse::too_many_counters());
        }
        let enforcements = parse::enforcements(planned, settings);
        let all = CountAll::new(counts.iter().cloned().zip(enforcements));
        let outcome = self.engine.submit(&all, deadline).await.map_err(from_error)?.outcome;
        let hits = all.to_hits(&outcome).ok_or_else(status::too_many_names)?;
        if hits.len() != counts.len() {
            let text = "a script returned a wrong number of counters";
            return Err(from_error(Error::Corrupt(text.to_owned())));
        }
        Ok(hits)
    }
}

/// Joins the limits of the descriptors with the counts of their counters.
fn rulings<'r>(planned: Vec<Planned<'r>>, counted: &[Hits]) -> Vec<DescriptorRuling<'r>> {
    let mut counted = counted.iter();
    let ruling = |planned| match planned {
        Planned::NoLimit => Some(DescriptorRuling::NoLimit),
        Planned::Unlimited => Some(DescriptorRuling::Unlimited),
        Planned::Count { limit, hits } => {
            let Hits { count, is_over, is_counted, left } = *counted.next()?;
            let count = count.unwrap_or(limit.requests_per_unit.into());
            let left = left.0.div_ceil(1000);
            let hits = DescriptorHits { hits, count, is_over, is_counted, left };
            Some(DescriptorRuling::Limited { limit, hits })
        }
    };
    planned.into_iter().filter_map(ruling).collect()
}

/// Returns the rules in use, for an operator's pages.
pub(crate) fn rules_of(rules: &CurrentRules) -> Arc<EnvoyRules> {
    rules.load().envoy.clone()
}

#[tonic::async_trait]
impl RateLimitService for EnvoyHandlers {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let (deadline, scope, request) = deadline::of(request);
        self.decide(request, scope, deadline).await.map(Response::new)
    }
}
