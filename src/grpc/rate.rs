//! `RateService`.

mod convert;
mod noted;
mod parse;

use std::{sync::Arc, time::Instant};

use futures_util::{StreamExt, TryStreamExt, stream};
use tonic::{Request, Response, Status};

use super::{
    deadline, page_token,
    pb::{self, rate_service_server::RateServiceServer},
};
use crate::{
    engine::Engine,
    names::Name,
    rate::{Ban, CheckRate, Checked, GetBan, MeterName, NoteBan, Policies, ResetRate, UnbanKey},
    time::Timestamp,
};
use noted::Noted;

/// The largest message taken: a hundred checks with rules of their own.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// Keys of a listing that are asked at the same time.
const BANS_AT_ONCE: usize = 16;

/// The service over an engine.
#[derive(Debug)]
pub struct Rate {
    engine: Arc<Engine>,
    policies: Arc<Policies>,
    noted: Noted,
}

type Answer<T> = Result<Response<T>, Status>;

impl Rate {
    /// The service's name in health checks.
    pub const NAME: &'static str = "tollgate.v1.RateService";

    /// The service, ready to be routed.
    pub fn service(engine: Arc<Engine>, policies: Arc<Policies>) -> RateServiceServer<Rate> {
        RateServiceServer::new(Rate { engine, policies, noted: Noted::default() })
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
    }

    /// Sees to it that a ban shows in listings. The decision is taken: what
    /// goes wrong here must not undo its answer, and is made good by the next.
    async fn note(&self, name: &MeterName, until: Option<Timestamp>, deadline: Instant) {
        if !self.noted.is_due(name, until) {
            return;
        }
        let note = NoteBan { name: name.clone(), until };
        match self.engine.run(&note, deadline).await {
            Ok(()) => self.noted.add(name, until),
            Err(error) => tracing::debug!(%error, ?name, "ban not noted for listings"),
        }
    }

    async fn note_answer(&self, check: &CheckRate, checked: &Checked, deadline: Instant) {
        if let Checked::Decided { answer, .. } = checked {
            if !answer.is_allowed() {
                tracing::debug!(name = ?check.name, ?answer, "refused");
            }
            if let Some(ban) = &answer.ban {
                self.note(&check.name, Some(ban.until), deadline).await;
            }
        }
    }
}

#[tonic::async_trait]
impl pb::rate_service_server::RateService for Rate {
    async fn check_rate(
        &self,
        request: Request<pb::CheckRateRequest>,
    ) -> Answer<pb::CheckRateResponse> {
        let deadline = deadline::of(&request);
        let check = parse::check_rate(request.into_inner(), &self.policies)?;
        let checked = self.engine.run(&check, deadline).await?;
        self.note_answer(&check, &checked, deadline).await;
        Ok(Response::new(convert::checked(&check, checked)?))
    }

    async fn check_rates(
        &self,
        request: Request<pb::CheckRatesRequest>,
    ) -> Answer<pb::CheckRatesResponse> {
        let deadline = deadline::of(&request);
        let checks = parse::check_rates(request.into_inner(), &self.policies)?;
        let all = self.engine.run_all(&checks, deadline).await?;
        let mut results = Vec::with_capacity(checks.len());
        for (check, checked) in checks.iter().zip(all) {
            if let Ok(checked) = &checked {
                self.note_answer(check, checked, deadline).await;
            }
            let result = checked.map_err(Status::from);
            let result = result.and_then(|checked| convert::checked(check, checked));
            // One key's trouble must not hide the others' answers.
            results.push(result.unwrap_or_else(|status| convert::undecided(&status)));
        }
        Ok(Response::new(pb::CheckRatesResponse { results }))
    }

    async fn reset_rate(
        &self,
        request: Request<pb::ResetRateRequest>,
    ) -> Answer<pb::ResetRateResponse> {
        let deadline = deadline::of(&request);
        let request = request.into_inner();
        let name = parse::meter_name(request.key, request.policy, &self.policies)?;
        let existed = self.engine.run(&ResetRate { name }, deadline).await?;
        Ok(Response::new(pb::ResetRateResponse { existed }))
    }

    async fn ban(&self, request: Request<pb::BanRequest>) -> Answer<pb::BanResponse> {
        let deadline = deadline::of(&request);
        let actor = parse::actor(&request);
        let decision = parse::ban(request.into_inner(), actor, &self.policies)?;
        let ban = self.engine.run(&decision, deadline).await?;
        self.note(&decision.name, Some(ban.until), deadline).await;
        let ban = Some(convert::ban(decision.name.key(), ban));
        Ok(Response::new(pb::BanResponse { ban }))
    }

    async fn unban(&self, request: Request<pb::UnbanRequest>) -> Answer<pb::UnbanResponse> {
        let deadline = deadline::of(&request);
        let request = request.into_inner();
        let name = parse::meter_name(request.key, request.policy, &self.policies)?;
        let decision = UnbanKey { name };
        let existed = self.engine.run(&decision, deadline).await?;
        self.note(&decision.name, None, deadline).await;
        Ok(Response::new(pb::UnbanResponse { existed }))
    }

    async fn list_bans(
        &self,
        request: Request<pb::ListBansRequest>,
    ) -> Answer<pb::ListBansResponse> {
        let deadline = deadline::of(&request);
        let list = parse::list_bans(request.into_inner(), &self.policies)?;
        let page = self.engine.run(&list, deadline).await?;
        let policy = list.policy.as_ref();
        let keys = page.keys.into_iter().filter_map(|key| Name::parse(key.into()).ok());
        let bans = keys.map(|key| async move {
            let name = MeterName::new(policy, &key);
            let ban: Option<Ban> = self.engine.run(&GetBan { name }, deadline).await?;
            Ok::<_, Status>(ban.map(|ban| convert::ban(key.as_bytes(), ban)))
        });
        let bans: Vec<_> = stream::iter(bans).buffered(BANS_AT_ONCE).try_collect().await?;
        let bans = bans.into_iter().flatten().collect();
        let next_page_token = page_token::encode(page.next.as_ref());
        Ok(Response::new(pb::ListBansResponse { bans, next_page_token }))
    }

    async fn list_policies(
        &self,
        _: Request<pb::ListPoliciesRequest>,
    ) -> Answer<pb::ListPoliciesResponse> {
        let policies = self.policies.iter().map(convert::policy).collect();
        Ok(Response::new(pb::ListPoliciesResponse { policies }))
    }
}
