//! `RateService`: limits, tiers and bans of keys.
//!
//! In a batch each check has its own response. A failed check has its error there, so that the
//! other answers are not lost. The call fails only if all checks fail.

mod convert;
mod parse;
mod watch;

use std::sync::Arc;

use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    deadline, events, page_token,
    pb::{
        self,
        rate_service_server::{RateService, RateServiceServer},
    },
    rules::CurrentRules,
    status::{self, from_error},
};
use tollgate_core::{
    Decision,
    names::{Name, Namespace},
    rate::{CheckOutcome, CheckRate, GetBan, MeterName, ResetRate},
};
use tollgate_engine::{Answered, Engine};
use tollgate_telemetry::metrics::refusals;

/// The rate service of an engine.
#[derive(Debug)]
pub struct RateHandlers {
    pub(super) engine: Arc<Engine>,
    /// The configured rules, for the policies.
    rules: Arc<CurrentRules>,
}

type Answer<T> = Result<Response<T>, Status>;

impl RateHandlers {
    /// Maximum message size, bytes: 100 checks with inline rules.
    pub(super) const MESSAGE_BYTES_MAX: usize = 1024 * 1024;

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>, rules: Arc<CurrentRules>) -> RateHandlers {
        RateHandlers { engine, rules }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<RateHandlers>) -> RateServiceServer<RateHandlers> {
        RateServiceServer::from_arc(self)
            .max_decoding_message_size(Self::MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }
}

/// Returns a name as text.
fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap_or_default()
}

/// Logs and counts a refusal.
fn log_refusal(check: &CheckRate, checked: &Answered<CheckOutcome>) {
    if let CheckOutcome::Decided { answer, .. } = &checked.outcome
        && !answer.is_allowed()
    {
        if let Some(policy) = check.name.policy() {
            refusals::record(policy, check.name.key());
        }
        tracing::debug!(
            namespace = Namespace::text_of(check.name.as_bytes()),
            policy = check.name.policy().map(|policy| text(Namespace::split(policy).1)),
            key = text(check.name.key()),
            outcome = CheckRate::PROPERTIES.outcomes.label(&checked.outcome),
            retry_after_ms = answer.retry_after.map(|retry| retry.0),
            cached = checked.is_cached(),
            "refused"
        );
    }
}

#[tonic::async_trait]
impl RateService for RateHandlers {
    async fn check_rate(
        &self,
        request: Request<pb::CheckRateRequest>,
    ) -> Answer<pb::CheckRateResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let check = parse::check_rate(request, scope, &self.rules.load().policies)?;
        let checked = self.engine.submit(&check, deadline).await.map_err(from_error)?;
        log_refusal(&check, &checked);
        Ok(Response::new(convert::checked(&check, checked)?))
    }

    async fn check_rates(
        &self,
        request: Request<pb::CheckRatesRequest>,
    ) -> Answer<pb::CheckRatesResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let checks = parse::check_rates(request, scope, &self.rules.load().policies)?;
        let all = self.engine.submit_all(&checks, deadline).await.map_err(from_error)?;
        // If no check has an answer, the store has failed, so the call fails.
        if let Some(error) = status::of_all(&all) {
            return Err(from_error(error));
        }
        let results = checks.iter().zip(all).map(|(check, checked)| {
            let result = checked.inspect(|checked| log_refusal(check, checked));
            let result = result.map_err(from_error);
            let result = result.and_then(|checked| convert::checked(check, checked));
            // A key that failed must not hide the answers of the others.
            result.unwrap_or_else(|status| convert::undecided(&status))
        });
        Ok(Response::new(pb::CheckRatesResponse { results: results.collect() }))
    }

    async fn reset_rate(
        &self,
        request: Request<pb::ResetRateRequest>,
    ) -> Answer<pb::ResetRateResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let name =
            parse::meter_name(request.key, request.policy, scope, &self.rules.load().policies)?;
        let existed =
            self.engine.submit(&ResetRate { name }, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(pb::ResetRateResponse { existed }))
    }

    async fn ban(&self, request: Request<pb::BanRequest>) -> Answer<pb::BanResponse> {
        let actor = parse::actor(&request);
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::ban(request, scope, actor, &self.rules.load().policies)?;
        let ban = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        let ban = Some(convert::ban(decision.name.key(), ban));
        Ok(Response::new(pb::BanResponse { ban }))
    }

    async fn unban(&self, request: Request<pb::UnbanRequest>) -> Answer<pb::UnbanResponse> {
        let actor = parse::actor(&request);
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::unban(request, scope, actor, &self.rules.load().policies)?;
        let existed = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(pb::UnbanResponse { existed }))
    }

    async fn get_key(&self, request: Request<pb::GetKeyRequest>) -> Answer<pb::GetKeyResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::get_key(request, scope, &self.rules.load().policies)?;
        let state = self.engine.submit(&decision, deadline).await.map_err(from_error)?.outcome;
        Ok(Response::new(convert::key_state(&decision, state)))
    }

    async fn list_bans(
        &self,
        request: Request<pb::ListBansRequest>,
    ) -> Answer<pb::ListBansResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let list = parse::list_bans(request, scope.clone(), &self.rules.load().policies)?;
        let page = self.engine.submit(&list, deadline).await.map_err(from_error)?.outcome;
        let keys = page.keys.into_iter().filter_map(|key| Name::parse(key.into()).ok());
        // Without a policy, the keys are the names of partitions.
        let keys = keys.filter(|key| list.policy.is_some() || scope.permits(key));
        let ask = |key: Name| {
            let key = key.within(&list.namespace);
            GetBan { name: MeterName::new(list.policy.as_ref(), &key) }
        };
        let asked: Vec<GetBan> = keys.map(ask).collect();
        let entries = self.engine.read_all(asked, deadline).await.map_err(from_error)?;
        let bans = entries.into_iter().filter_map(|(get, ban)| match ban {
            Some(ban) => Some(convert::ban(get.name.key(), ban?)),
            // Listed by key only.
            None => Some(convert::unreadable_ban(get.name.key())),
        });
        let mut bans: Vec<pb::Ban> = bans.collect();
        // The ban may have been replaced after its end was added to the index.
        bans.sort_by_key(|ban| ban.until.map(|until| (until.seconds, until.nanos)));
        let next_page_token = page_token::encode(&list.namespace, page.next.as_ref());
        Ok(Response::new(pb::ListBansResponse { bans, next_page_token }))
    }

    type WatchRatesStream = events::Events<pb::WatchRatesResponse>;

    async fn watch_rates(
        &self,
        request: Request<pb::WatchRatesRequest>,
    ) -> Answer<Self::WatchRatesStream> {
        let right = request.extensions().get().cloned();
        let (deadline, scope, request) = deadline::of(request);
        let (policy, start) = watch::parse(request, scope, &self.rules.load().policies)?;
        let watcher = self.engine.watch(policy, start, deadline).await.map_err(from_error)?;
        Ok(Response::new(events::stream(watcher, right)))
    }

    async fn list_policies(
        &self,
        request: Request<pb::ListPoliciesRequest>,
    ) -> Answer<pb::ListPoliciesResponse> {
        let (_, scope, _) = deadline::of(request);
        let rules = self.rules.load();
        let policies = rules.policies.in_namespace(scope.namespace());
        let policies = policies.filter(|policy| scope.permits(&policy.name));
        let policies = policies.map(convert::policy).collect();
        Ok(Response::new(pb::ListPoliciesResponse { policies }))
    }
}
