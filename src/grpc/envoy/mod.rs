//! `envoy.service.ratelimit.v3.RateLimitService`: answers Envoy instead of envoyproxy/ratelimit.
//!
//! Each descriptor is one decision ([`CountHits`]); all of a request are one round trip to each
//! node of the store. If one fails, the call fails: an answer with some descriptors missing would
//! let requests pass.

mod convert;
mod headers;
pub(crate) mod json;
mod metadata;
mod parse;

use std::sync::{Arc, atomic::Ordering};

use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    deadline,
    envoy_pb::{RateLimitRequest, RateLimitResponse, RateLimitService, RateLimitServiceServer},
    fast_path::fast_path,
    rules::CurrentRules,
    scope::Scope,
    status,
};
use crate::{
    decision::time::Clock,
    engine::Engine,
    envoy::{DescriptorHits, DescriptorRuling, EnvoyRules, NOT_FOUND, Ruling},
    rate::{CountHits, Hits},
};
use parse::Planned;

/// Maximum message size, bytes: 100 descriptors with long values.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

/// The rate limit service of an engine.
#[derive(Debug)]
pub struct EnvoyHandlers {
    engine: Arc<Engine>,
    rules: Arc<CurrentRules>,
}

impl EnvoyHandlers {
    /// Name of the service in health checks.
    pub const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>, rules: Arc<CurrentRules>) -> EnvoyHandlers {
        EnvoyHandlers { engine, rules }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<EnvoyHandlers>) -> RateLimitServiceServer<EnvoyHandlers> {
        RateLimitServiceServer::from_arc(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }

    /// Decides about a request of this scope.
    async fn decide(
        &self,
        request: RateLimitRequest,
        scope: Scope,
        deadline: std::time::Instant,
    ) -> Result<RateLimitResponse, Status> {
        let rules = self.rules.load().envoy.clone();
        if !rules.is_on {
            return Err(Status::unimplemented(
                "this server has no rules of Envoy: start it with --envoy-config",
            ));
        }
        parse::check(&request)?;
        let Some(domain) = rules.domain(&request.domain) else {
            NOT_FOUND.fetch_add(1, Ordering::Relaxed);
            return Ok(convert::without_domain(&request, &rules));
        };
        let (planned, counts) = parse::plan(&request, &scope, domain, &rules)?;
        let counted = self.count(&counts, deadline).await?;
        let descriptors = rulings(planned, &counts, &counted);
        let ruling = Ruling::of(&descriptors, &rules.settings);
        if ruling.is_over {
            tracing::debug!(domain = %domain.name, "over the limit");
        }
        Ok(convert::response(&request, &descriptors, &ruling, &rules.settings))
    }

    /// Counts the hits of all descriptors.
    async fn count(
        &self,
        counts: &[CountHits],
        deadline: std::time::Instant,
    ) -> Result<Vec<Hits>, Status> {
        let outcomes = match counts {
            [] => return Ok(Vec::new()),
            // The common case takes the shorter way.
            [count] => vec![self.engine.submit(count, deadline).await],
            counts => self.engine.submit_all(counts, deadline).await?,
        };
        let read = |(count, outcome): (&CountHits, Result<_, crate::decision::error::Error>)| {
            let answered: crate::engine::Answered<_> = outcome?;
            count.read(&answered.outcome).ok_or_else(status::too_many_names)
        };
        counts.iter().zip(outcomes).map(read).collect()
    }
}

/// Joins the limits of descriptors with their counts.
fn rulings<'r>(
    planned: Vec<Planned<'r>>,
    counts: &[CountHits],
    counted: &[Hits],
) -> Vec<DescriptorRuling<'r>> {
    let now = Clock::system().now().0 / 1_000_000;
    let mut counted = counts.iter().zip(counted);
    let ruling = |planned| match planned {
        Planned::NoLimit => Some(DescriptorRuling::NoLimit),
        Planned::Unlimited => Some(DescriptorRuling::Unlimited),
        Planned::Count { limit, hits } => {
            let (_, counted) = counted.next()?;
            // An empty window has no end of its own.
            let left = match counted.reset_after.0 {
                0 => limit.unit.left(now),
                left => left.div_ceil(1000),
            };
            let count = counted.count.unwrap_or(limit.requests_per_unit);
            let hits = DescriptorHits { hits, count, is_over: counted.is_over, left };
            Some(DescriptorRuling::Limited { limit, hits })
        }
    };
    planned.into_iter().filter_map(ruling).collect()
}

/// The rules in use, for the pages of an operator.
pub(crate) fn rules_of(rules: &CurrentRules) -> Arc<EnvoyRules> {
    rules.load().envoy.clone()
}

fast_path!(EnvoyHandlers, MESSAGE_BYTES_MAX, {
    "ShouldRateLimit" => should_rate_limit,
});

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
