//! `RateService`.

mod convert;
mod noted;
mod parse;
mod watch;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tonic::{Request, Response, Status, codec::CompressionEncoding};

use super::{
    deadline, events,
    fast_path::fast_path,
    page_token,
    pb::{
        self,
        rate_service_server::{RateService, RateServiceServer},
    },
    status,
};
use crate::{
    decision::{error::Error, names::Name, time::monotonic},
    engine::{Answered, Engine, feed::Feeds},
    rate::{CheckOutcome, CheckRate, GetBan, MeterName, NoteBan, Policies, ResetRate},
};
use noted::NotedBans;
use watch::RateEvents;

/// Maximum message size, bytes: 100 checks with inline rules.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Maximum time that an answer waits until its ban is in the ban index.
const NOTE_TIME: Duration = Duration::from_millis(100);

/// The rate service of an engine.
#[derive(Debug)]
pub struct RateHandlers {
    engine: Arc<Engine>,
    policies: Arc<Policies>,
    noted: NotedBans,
    feeds: Arc<Feeds<RateEvents>>,
}

type Answer<T> = Result<Response<T>, Status>;

impl RateHandlers {
    /// Name of the service in health checks.
    pub const NAME: &'static str = "tollgate.v1.RateService";

    /// Creates the service.
    pub(super) fn new(engine: Arc<Engine>, policies: Arc<Policies>) -> RateHandlers {
        let feeds = Feeds::new(engine.clone());
        RateHandlers { engine, policies, noted: NotedBans::default(), feeds }
    }

    /// Wraps the service for tonic.
    pub(super) fn server(self: Arc<RateHandlers>) -> RateServiceServer<RateHandlers> {
        RateServiceServer::from_arc(self)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .accept_compressed(CompressionEncoding::Gzip)
    }

    /// Adds bans to the ban index, which ListBans reads. The bans are already in force, so a
    /// failure does not affect the answer. The next call of the key tries again.
    async fn note(&self, bans: impl Iterator<Item = NoteBan>, deadline: Instant) {
        let notes: Vec<NoteBan> = bans.filter(|note| self.noted.is_due(note)).collect();
        if notes.is_empty() {
            return;
        }
        let deadline = deadline.min(monotonic() + NOTE_TIME);
        // Boxed: nearly all calls have no ban to add, and their futures stay below 1 KiB.
        let noted = Box::pin(self.engine.submit_all(&notes, deadline)).await;
        for (note, noted) in notes.iter().zip(noted.unwrap_or_default()) {
            match noted {
                Ok(_) => self.noted.add(note),
                Err(error) => tracing::debug!(%error, ?note, "cannot add a ban to the ban index"),
            }
        }
    }
}

/// Returns the ban of an answer for the ban index, if there is one to add.
fn ban_of(check: &CheckRate, checked: &Answered<CheckOutcome>) -> Option<NoteBan> {
    let CheckOutcome::Decided { answer, .. } = &checked.outcome else { return None };
    if !answer.is_allowed() {
        tracing::debug!(name = ?check.name, ?answer, "refused");
    }
    // A ban by the fallback is known to this server only, so it is not listed.
    let until = answer.ban.as_ref().filter(|_| !checked.is_degraded())?.until;
    Some(NoteBan { name: check.name.clone(), until })
}

fast_path!(RateHandlers, MESSAGE_BYTES_MAX, {
    "CheckRate" => check_rate,
    "CheckRates" => check_rates,
});

#[tonic::async_trait]
impl RateService for RateHandlers {
    async fn check_rate(
        &self,
        request: Request<pb::CheckRateRequest>,
    ) -> Answer<pb::CheckRateResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let check = parse::check_rate(request, scope, &self.policies)?;
        let checked = self.engine.submit(&check, deadline).await?;
        if let Some(ban) = ban_of(&check, &checked) {
            self.note(std::iter::once(ban), deadline).await;
        }
        Ok(Response::new(convert::checked(&check, checked)?))
    }

    async fn check_rates(
        &self,
        request: Request<pb::CheckRatesRequest>,
    ) -> Answer<pb::CheckRatesResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let checks = parse::check_rates(request, scope, &self.policies)?;
        let all = self.engine.submit_all(&checks, deadline).await?;
        // If no check has an answer, the store failed, and so does the call.
        if let Some(error) = status::of_all(&all) {
            return Err(error.into());
        }
        let decided = checks.iter().zip(&all);
        let bans = decided.filter_map(|(check, all)| ban_of(check, all.as_ref().ok()?));
        self.note(bans, deadline).await;
        let results = checks.iter().zip(all).map(|(check, checked)| {
            let result = checked.map_err(Status::from);
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
        let name = parse::meter_name(request.key, request.policy, scope, &self.policies)?;
        let existed = self.engine.submit(&ResetRate { name }, deadline).await?.outcome;
        Ok(Response::new(pb::ResetRateResponse { existed }))
    }

    async fn ban(&self, request: Request<pb::BanRequest>) -> Answer<pb::BanResponse> {
        let actor = parse::actor(&request);
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::ban(request, scope, actor, &self.policies)?;
        let ban = self.engine.submit(&decision, deadline).await?.outcome;
        let note = NoteBan { name: decision.name.clone(), until: ban.until };
        self.note(std::iter::once(note), deadline).await;
        let ban = Some(convert::ban(decision.name.key(), ban));
        Ok(Response::new(pb::BanResponse { ban }))
    }

    async fn unban(&self, request: Request<pb::UnbanRequest>) -> Answer<pb::UnbanResponse> {
        let actor = parse::actor(&request);
        let (deadline, scope, request) = deadline::of(request);
        let decision = parse::unban(request, scope, actor, &self.policies)?;
        let existed = self.engine.submit(&decision, deadline).await?.outcome;
        Ok(Response::new(pb::UnbanResponse { existed }))
    }

    async fn list_bans(
        &self,
        request: Request<pb::ListBansRequest>,
    ) -> Answer<pb::ListBansResponse> {
        let (deadline, scope, request) = deadline::of(request);
        let list = parse::list_bans(request, scope.clone(), &self.policies)?;
        let page = self.engine.submit(&list, deadline).await?.outcome;
        let keys = page.keys.into_iter().filter_map(|key| Name::parse(key.into()).ok());
        // Without a policy, the keys are the names.
        let keys = keys.filter(|key| list.policy.is_some() || scope.permits(key));
        let ask = |key: Name| {
            let key = key.within(&list.namespace);
            GetBan { name: MeterName::new(list.policy.as_ref(), &key) }
        };
        let asked: Vec<GetBan> = keys.map(ask).collect();
        let mut bans = Vec::with_capacity(asked.len());
        for (get, ban) in asked.iter().zip(self.engine.submit_all(&asked, deadline).await?) {
            match ban {
                Ok(ban) => bans.extend(ban.outcome.map(|ban| convert::ban(get.name.key(), ban))),
                // An unreadable ban must not hide the others, so it is listed by key only.
                Err(Error::Corrupt(_)) => bans.push(convert::unreadable_ban(get.name.key())),
                Err(error) => return Err(error.into()),
            }
        }
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
        let (policy, start) = watch::parse(request, scope, &self.policies)?;
        let watcher = self.feeds.watch(policy, start, deadline).await?;
        Ok(Response::new(events::of(watcher, right)))
    }

    async fn list_policies(
        &self,
        request: Request<pb::ListPoliciesRequest>,
    ) -> Answer<pb::ListPoliciesResponse> {
        let (_, scope, _) = deadline::of(request);
        let policies = self.policies.of(scope.namespace());
        let policies = policies.filter(|policy| scope.permits(&policy.name));
        let policies = policies.map(convert::policy).collect();
        Ok(Response::new(pb::ListPoliciesResponse { policies }))
    }
}
